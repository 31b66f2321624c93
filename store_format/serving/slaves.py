"""What a real broker asks as our SLAVE: who its master is, and config/ (SlaveSynchronize).

Only where slaves are served (`reput serve --ha-listen`). Then a slave may register: nothing is kept
of it, and its answer says where log and configuration come from.
"""

from reput.store_format.names import CONFIG
from reput.store_format.remoting.codes import RequestCode, ResponseCode
from reput.store_format.remoting.command import Command
from reput.store_format.serving.answer import Answer, Caller, found, refused
from reput.store_format.serving.broker import Broker, Handlers
from reput.store_format.serving.fields import number
from reput.store_format.serving.refused import writing


def register(broker: Broker, request: Command, caller: Caller) -> Answer:
    """RegisterBrokerResponseHeader, for a slave; a master is refused, as nothing is written."""
    if broker.slaves_at is None or number(request, "brokerId") == 0:
        return writing(broker, request, caller)
    host, port = broker.slaves_at
    ours = broker.address_for(caller)
    if host in ("0.0.0.0", "::"):  # as the slave reaches us
        host = ours.rpartition(":")[0]
    return found(haServerAddr=f"{host}:{port}", masterAddr=ours)


def unregister(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A slave goes; nothing is kept of it."""
    return writing(broker, request, caller) if broker.slaves_at is None else found()


def delay_offsets(broker: Broker, request: Command, caller: Caller) -> Answer:
    """config/delayOffset.json as it is (AdminBrokerProcessor.getAllDelayOffset): a slave without it
    would deliver all delayed messages again, once it is a master.
    """
    opened = broker.store.opened
    try:
        return found(opened.storage.read_bytes(f"{opened.path}/{CONFIG}/delayOffset.json"))
    except (FileNotFoundError, NotADirectoryError):
        return refused(ResponseCode.SYSTEM_ERROR, "No delay offset in this broker")


HANDLERS: Handlers = {
    RequestCode.REGISTER_BROKER: register,
    RequestCode.UNREGISTER_BROKER: unregister,
    RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
}
