"""Requests of real brokers that are our SLAVEs: for their master, and config/ (SlaveSynchronize).

A slave may register only with `reput serve --ha-listen`. Nothing is kept of the slave, and the
answer has the addresses at which it gets the log and the configuration.
"""

from reput.broker.serving.answer import Answer, Caller, found, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import number
from reput.broker.serving.write_requests import writing
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.store_format.names import CONFIG

_TIMER_CHECKPOINT_BYTES = 56  # TimerCheckpoint.encode


def register(broker: Broker, request: Command, caller: Caller) -> Answer:
    """RegisterBrokerResponseHeader for a slave; a master is refused, as nothing is written here."""
    if broker.slaves_at is None or number(request, "brokerId") == 0:
        return writing(broker, request, caller)
    host, port = broker.slaves_at
    ours = broker.address_for(caller)
    if host in ("0.0.0.0", "::"):  # use the address by which the slave reached us
        host = ours.rpartition(":")[0]
    return found(haServerAddr=f"{host}:{port}", masterAddr=ours)


def unregister(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A slave leaves; nothing was kept of it."""
    return writing(broker, request, caller) if broker.slaves_at is None else found()


def _beside(broker: Broker, name: str, absent: str) -> Answer:
    """The content of a file of config/; a refusal where there is no such file."""
    opened = broker.store.opened
    try:
        return found(opened.storage.read_bytes(f"{opened.path}/{CONFIG}/{name}"))
    except (FileNotFoundError, NotADirectoryError):
        return refused(ResponseCode.SYSTEM_ERROR, absent)


def delay_offsets(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The offsets up to which delayed messages are delivered (getAllDelayOffset). A slave without
    them would deliver all delayed messages again, once it is a master.
    """
    return _beside(broker, "delayOffset.json", "No delay offset in this broker")


def timer_checkpoint(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How far timer messages are delivered (getTimerCheckPoint): the file's first seven longs."""
    said = _beside(broker, "timercheck", "The checkpoint is null")
    return said._replace(body=said.body[:_TIMER_CHECKPOINT_BYTES])


def timer_metrics(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How many timer messages wait, by topic (getTimerMetrics)."""
    return _beside(broker, "timermetrics", "The timerMessageStore is null")


HANDLERS: Handlers = {
    RequestCode.REGISTER_BROKER: register,
    RequestCode.UNREGISTER_BROKER: unregister,
    RequestCode.GET_ALL_DELAY_OFFSET: delay_offsets,
    RequestCode.GET_TIMER_CHECK_POINT: timer_checkpoint,
    RequestCode.GET_TIMER_METRICS: timer_metrics,
}
