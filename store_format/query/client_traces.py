"""What clients tell of messages in a trace topic (enableMsgTrace, AsyncTraceDispatcher): the body
of a trace message holds contexts of many messages (TraceDataEncoder).

Fields were added at a context's end over the years, so their number says which there are.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from reput.store_format import java

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"  # TopicValidator
_FIELD_END, _CONTEXT_END = "\x01", "\x02"  # TraceConstants' CONTENT_SPLITOR, FIELD_SPLITOR
_NUMBER_MOST = 64  # characters; a client writes 20 at most

# MessageType and ConsumeReturnType by their ordinals; LocalTransactionState
_MESSAGE_TYPES = dict(
    enumerate(("Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg", "Order_Msg"))
)
_CONSUMED = dict(enumerate(("SUCCESS", "TIME_OUT", "EXCEPTION", "RETURNNULL", "FAILED")))
_STATES = {name: name for name in ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW")}


class ClientTrace(NamedTuple):
    """One context of a trace (TraceContext, TraceBean); None: not in a context of its kind, or not
    yet in its client's release. Times in milliseconds.
    """

    kind: str  # TraceType: Pub, SubBefore, SubAfter, EndTransaction, Recall
    message_id: str
    timestamp: int | None = None  # of the client; a SubAfter of before 4.7.1 has none
    region: str | None = None
    group: str | None = None
    topic: str | None = None
    tags: str | None = None
    keys: str | None = None
    store_host: str | None = None
    client_host: str | None = None
    offset_message_id: str | None = None
    body_length: int | None = None
    message_type: str | None = None  # MessageType
    cost: int | None = None  # milliseconds
    success: bool | None = None
    request_id: str | None = None  # what a SubBefore and its SubAfter have in common
    retry_times: int | None = None
    context_code: int | None = None  # ConsumeReturnType's ordinal
    transaction_id: str | None = None
    transaction_state: str | None = None  # LocalTransactionState
    from_check: bool | None = None  # whether the broker had asked for this end

    @property
    def returned(self) -> str | None:
        """How a listener came back (ConsumeReturnType), by the context's code."""
        return None if self.context_code is None else _CONSUMED.get(self.context_code)


def decoded(body: bytes) -> Iterator[ClientTrace | None]:
    """The contexts in a trace message's body, decompressed; None for each that
    TraceDataEncoder.decoderFromTraceDataString throws at. Kinds unknown to it are passed over.
    """
    text = java.decode(body)
    begin = 0
    while begin < len(text):
        end = text.find(_CONTEXT_END, begin)
        end = end if end >= 0 else len(text)
        context, begin = text[begin:end], end + 1
        fields = context.rstrip(_FIELD_END).split(_FIELD_END)  # String.split drops empty ends
        if context and fields == [""]:
            yield None  # of nothing but separators split leaves nothing at all
        elif fields[0] in _REQUIRED:
            yield _context(*fields)


def _context(kind: str, *fields: str) -> ClientTrace | None:
    names = (*_REQUIRED[kind], *_later(kind, len(fields) + 1))
    if len(fields) < len(_REQUIRED[kind]):
        return None
    try:
        told = {name: _READ.get(name, str)(f) for name, f in zip(names, fields, strict=False)}
    except (ValueError, LookupError):
        return None
    return ClientTrace(kind, **told)


# The fields that a context of each kind must have, in their order, after the kind itself.
_HEAD = ("timestamp", "region", "group", "topic", "message_id")
_REQUIRED = {
    "Pub": (*_HEAD, "tags", "keys", "store_host", "body_length", "cost", "message_type"),
    "SubBefore": (*_HEAD[:3], "request_id", "message_id", "retry_times", "keys"),
    "SubAfter": ("request_id", "message_id", "cost", "success", "keys"),
    "EndTransaction": (*_HEAD, "tags", "keys", "store_host", "message_type", "transaction_id",
                       "transaction_state", "from_check"),
    "Recall": (*_HEAD, "success"),
}  # fmt: skip


def _later(kind: str, count: int) -> tuple[str, ...]:
    """The further fields of a context with so many, its kind among them."""
    if kind == "Pub" and count > 12:
        return ("success",) if count == 13 else ("offset_message_id", "success", "client_host")
    if kind == "SubAfter" and count > 6:
        return ("context_code",) if count < 9 else ("context_code", "timestamp", "group")
    return ()


def _number(bits: int, text: str) -> int:
    if len(text) > _NUMBER_MOST:
        raise ValueError("no number that a client writes")
    return java.parse_integer(text, bits)


_READ: dict[str, Callable[[str], Any]] = {
    "timestamp": partial(_number, 64),
    **dict.fromkeys(("body_length", "cost", "retry_times", "context_code"), partial(_number, 32)),
    "message_type": lambda text: _MESSAGE_TYPES[_number(32, text)],
    **dict.fromkeys(("success", "from_check"), lambda text: text.lower() == "true"),  # parseBoolean
    "transaction_state": _STATES.__getitem__,
}
