"""POP as a client does it: handles made of an answer's fields (MQClientAPIImpl)."""

import base64
import re
from typing import Any, NamedTuple

from reput.broker.serving.broker import Answer
from reput.broker.serving.records import BodyPiece
from reput.broker.wire.codes import RequestCode
from reput.jobs.sockets.connection import _bytes
from reput.store_format.layouts import MIDDLE_AT, RECORD_AT, RECORD_HEAD_BYTES, TIMESTAMP_BYTES
from tests.jobs.sockets.asked import TOPIC, Asked

_RETRY_TOPIC = re.compile(rb"%RETRY%[\w-]+?([_+])")
_POP_CK = re.compile(rb"POP_CK\x01([^\x02]+)")
_HOSTS = 16  # of IPv4, as all golden stores have them


class Popped(NamedTuple):
    """A message, with what acknowledges it."""

    queue: int
    position: int
    handle: str
    times: int  # reconsumeTimes
    retry: str = "0"


def fields(group: str, topic: str = TOPIC, **more: Any) -> dict[str, Any]:
    wanted = {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32,
        "invisibleTime": 60_000, "pollTime": 0, "bornTime": 0, "initMode": 0, "expType": "TAG",
        "exp": "*", **more}  # fmt: skip
    return {name: value for name, value in wanted.items() if value is not None}


def pop(asked: Asked, group: str, topic: str = TOPIC, **more: Any) -> list[Popped]:
    return messages(asked.ask(RequestCode.POP_MESSAGE, **fields(group, topic, **more)))


def messages(answer: Answer, broker: str = "reput") -> list[Popped]:
    """An answer's messages; their handles are made as a client makes them."""
    if answer.code:
        return []
    said = answer.fields
    starts = dict(_keyed(each) for each in said["startOffsetInfo"].split(";"))
    known = {
        key: [int(n) for n in positions.split(",")]
        for key, positions in (_keyed(each) for each in said["msgOffsetInfo"].split(";"))
    }
    found = []
    for queue, position, times, retry in _records(answer.pieces):
        key = (retry, str(queue))
        assert known[key].pop(0) == position
        handle = " ".join(
            [starts[key], said["popTime"], said["invisibleTime"], said["reviveQid"], retry,
             broker, str(queue), str(position)])  # fmt: skip
        found.append(Popped(queue, position, handle, times, retry))
    assert not any(known.values())
    return found


def _keyed(info: str) -> tuple[tuple[str, str], str]:
    kind, queue, value = info.split(" ")
    return (kind, queue), value


def _records(pieces: tuple[BodyPiece, ...]) -> list[tuple[int, int, int, str]]:
    raw = b"".join(bytes(_bytes(each)) for each in pieces)
    found, at = [], 0
    middle = RECORD_HEAD_BYTES + _HOSTS + TIMESTAMP_BYTES
    while at < len(raw):
        record = raw[at : at + int.from_bytes(raw[at : at + 4])]
        numbers = (int.from_bytes(record[start : start + size])
                   for start, size in ((RECORD_AT.queueId, 4), (RECORD_AT.queueOffset, 8),
                                       (middle + MIDDLE_AT.reconsumeTimes, 4)))  # fmt: skip
        queue, position, times = numbers
        found.append((queue, position, times, _kind(bytes(record))))
        at += len(record)
    return found


def _kind(record: bytes) -> str:
    """How a handle names the kind of the record's topic, where its group has no underscore. A
    broker gives a retry the topic that the message was sent to, and puts the handle into it.
    """
    handle = _POP_CK.search(record)
    if handle is not None:
        return handle[1].split(b" ")[4].decode()
    retry = _RETRY_TOPIC.search(record)
    return "0" if retry is None else {b"_": "1", b"+": "2"}[retry[1]]


def ack_of(group: str, each: Popped, topic: str = TOPIC, **more: Any) -> dict[str, Any]:
    """The fields of a request that acknowledges a message, or changes its time."""
    return {"consumerGroup": group, "topic": topic, "queueId": each.queue, "offset": each.position,
            "extraInfo": each.handle, **more}  # fmt: skip


def ack(asked: Asked, group: str, each: Popped, topic: str = TOPIC, **more: Any) -> int:
    return asked.ask(RequestCode.ACK_MESSAGE, **ack_of(group, each, topic, **more)).code


def batch(group: str, some: list[Popped], topic: str = TOPIC) -> dict[str, Any]:
    """A BatchAckMessageRequestBody."""
    acks = []
    for each in some:
        start, pop_time, invisible, revive, retry, *_ = each.handle.split(" ")
        bits = 1 << each.position - int(start)
        raw = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        acks.append({"c": group, "t": topic, "r": retry, "so": int(start), "q": each.queue,
                     "rq": int(revive), "pt": int(pop_time), "it": int(invisible),
                     "b": base64.b64encode(raw).decode()})  # fmt: skip
    return {"brokerName": "reput", "acks": acks}
