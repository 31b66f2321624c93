"""Messages by key, and one message by its place in the log (QueryMessageProcessor)."""

from reput.broker.serving.answer import Answer, Caller, refused
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.serving.fields import flag, number, text
from reput.broker.serving.log_ranges import LogRange
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import Command
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.query.by_key import UNIQUE_KEY_MOST

_UNIQUE = "_UNIQUE_KEY_QUERY"  # MixAll.UNIQUE_MSG_QUERY_FLAG


def by_key(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The newest messages with a key whose hash is that of the wanted key, in the log's order."""
    topic, key = text(request, "topic"), text(request, "key")
    most = UNIQUE_KEY_MOST if flag(request, _UNIQUE) else number(request, "maxNum")
    begin, end = number(request, "beginTimestamp"), number(request, "endTimestamp")
    hits, last_time, last_offset = broker.store.by_key(topic, key, most, begin, end)
    ranges = [found for place in hits if (found := whole_record(broker, place)) is not None]
    fields = {
        "indexLastUpdateTimestamp": str(last_time),
        "indexLastUpdatePhyoffset": str(last_offset),
    }
    if ranges:
        return Answer(ResponseCode.SUCCESS, None, fields, b"", tuple(ranges))
    return Answer(
        ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct", fields
    )


def by_place(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The message at a physical offset, whatever broker its message id names."""
    place = number(request, "offset")
    found = whole_record(broker, place)
    if found is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}")
    return Answer(ResponseCode.SUCCESS, None, {}, b"", (found,))


def whole_record(broker: Broker, place: int) -> LogRange | None:
    """The record at a physical offset; None if no record is there, or it is not served."""
    store = broker.store
    try:
        record = store.log.record_at(place)
    except (NoRecord, NotInLog):
        return None
    return store.files.range(place, record.size) if place < store.limit else None


HANDLERS: Handlers = {
    RequestCode.QUERY_MESSAGE: by_key,
    RequestCode.VIEW_MESSAGE_BY_ID: by_place,
}
