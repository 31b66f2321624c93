"""The handlers of all requests that are answered, by request code."""

from reput.broker.serving import (
    assignments,
    client_lists,
    cluster,
    consume_stats,
    consumer_requests,
    group_configs,
    heartbeats,
    lock_requests,
    messages,
    offset_requests,
    offset_resets,
    offsets,
    pop,
    pop_acks,
    pop_looks,
    pull,
    queue_entries,
    routes,
    runtime,
    slaves,
    store_switches,
    topic_facts,
    write_requests,
)
from reput.broker.serving.answer import Answer, Caller
from reput.broker.serving.answer import refused as refuse
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import BadField
from reput.broker.wire.codes import Language, ResponseCode
from reput.broker.wire.remoting import RESPONSE_BIT, Command
from reput.store_format.faults import StoreError

HANDLERS: Handlers = {
    **write_requests.HANDLERS,
    **routes.HANDLERS,
    **heartbeats.HANDLERS,
    **offsets.HANDLERS,
    **pull.HANDLERS,
    **pop.HANDLERS,
    **pop_acks.HANDLERS,
    **pop_looks.HANDLERS,
    **messages.HANDLERS,
    **offset_requests.HANDLERS,
    **offset_resets.HANDLERS,
    **lock_requests.HANDLERS,
    **assignments.HANDLERS,
    **client_lists.HANDLERS,
    **consumer_requests.HANDLERS,
    **cluster.HANDLERS,
    **topic_facts.HANDLERS,
    **consume_stats.HANDLERS,
    **group_configs.HANDLERS,
    **queue_entries.HANDLERS,
    **runtime.HANDLERS,
    **store_switches.HANDLERS,
    **slaves.HANDLERS,  # replaces the answer of `write_requests` to registering
}


def answer(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The answer to any request. Raises OSError where the store cannot be read."""
    for guard in broker.guards:
        if (said := guard(broker, request, caller)) is not None:
            return said
    handler = HANDLERS.get(request.code)
    if handler is None:
        return refuse(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {request.code} not supported"
        )
    try:
        return handler(broker, request, caller)
    except BadField as error:
        return refuse(ResponseCode.SYSTEM_ERROR, str(error))
    except StoreError:
        # the error's text names files of this machine, which clients are not to learn
        return refuse(ResponseCode.SYSTEM_ERROR, "what was asked for cannot be read in the store")


def reply(broker: Broker, request: Command, said: Answer) -> Command:
    """The response of an answer, without the pieces of the log that follow its body."""
    return Command(
        said.code, request.opaque, RESPONSE_BIT, said.fields, said.body, said.remark,
        broker.version, Language.PYTHON, request.serialization,
    )  # fmt: skip
