"""The handlers of all requests that are answered, by request code."""

# each makes its handlers known as it is imported
from reput.broker.serving import (  # noqa: F401
    about,
    acknowledging,
    allotting,
    asking,
    attendance,
    group_requests,
    popping,
    reading,
)
from reput.broker.serving.broker import HANDLERS, Answer, Broker, Caller, refused
from reput.broker.wire.codes import Language, Refused, ResponseCode
from reput.broker.wire.remoting import RESPONSE_BIT, Command
from reput.store_format.faults import StoreError


def answer(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The answer to any request. Raises OSError where the store cannot be read."""
    for guard in broker.guards:
        if (said := guard(broker, request, caller)) is not None:
            return said
    handler = HANDLERS.get(request.code)
    if handler is None:
        return refused(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
        )
    try:
        return handler(broker, request, caller)
    except Refused as error:
        return refused(error.code, str(error))
    except StoreError:
        # the error's text names files of this machine, which clients are not to learn
        return refused(ResponseCode.SYSTEM_ERROR, "what was asked for cannot be read in the store")


def reply(broker: Broker, request: Command, said: Answer) -> Command:
    """The response of an answer, without the pieces of the log that follow its body."""
    return Command(
        said.code, request.opaque, RESPONSE_BIT, said.fields, said.body, said.remark,
        broker.version, Language.PYTHON, request.serialization,
    )  # fmt: skip
