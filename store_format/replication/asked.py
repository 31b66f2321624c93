"""What a slave asks a broker besides its log: two requests of the remoting protocol, as bytes.

BROKER_RUNTIME_INFO tells where the log begins, GET_BROKER_CONFIG how long its segments are; the
other four are SlaveSynchronize's, whose bodies are what stands in config/ of the master.
"""

import json
import struct
from typing import Any, NamedTuple

from reput.store_format.replication.frames import ProtocolError

GET_ALL_TOPIC_CONFIG = 21
GET_BROKER_CONFIG = 26
BROKER_RUNTIME_INFO = 28
GET_ALL_CONSUMER_OFFSET = 43
GET_ALL_DELAY_OFFSET = 45
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
CONFIG_FILES = {
    GET_ALL_TOPIC_CONFIG: "topics.json",
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroup.json",
    GET_ALL_CONSUMER_OFFSET: "consumerOffset.json",
    GET_ALL_DELAY_OFFSET: "delayOffset.json",
}
ANSWER_MOST = 16 << 20  # com.rocketmq.remoting.frameMaxLength
_LENGTHS = struct.Struct(">ii")


class Answer(NamedTuple):
    """A response: its code (0: success), what it says besides, its body."""

    code: int
    remark: str
    body: bytes


def encode_question(code: int, opaque: int) -> bytes:
    """A request without fields."""
    header = json.dumps(
        {"code": code, "flag": 0, "language": "OTHER", "opaque": opaque, "version": 399,
         "serializeTypeCurrentRPC": "JSON", "extFields": {}}
    ).encode()  # fmt: skip
    return _LENGTHS.pack(len(header) + 4, len(header)) + header


def answer_length(first: bytes) -> int:
    """How many bytes follow the first four of an answer. Raises ProtocolError."""
    length = int.from_bytes(first, "big", signed=True)
    if not 4 <= length <= ANSWER_MOST:
        raise ProtocolError(f"answer: length {length} is not from 4 to {ANSWER_MOST}")
    return length


def decode_answer(frame: bytes) -> Answer:
    """An answer without its first four bytes, its header as JSON. Raises ProtocolError."""
    mark = int.from_bytes(frame[:4], "big")
    kind, length = mark >> 24, mark & 0xFFFFFF
    if kind or length + 4 > len(frame):
        raise ProtocolError(f"answer: header of kind {kind} and {length} bytes in {len(frame)}")
    try:
        header = json.loads(frame[4 : 4 + length])
        code, remark = int(header["code"]), str(header.get("remark") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"answer: its header cannot be read: {error}") from None
    return Answer(code, remark, frame[4 + length :])


def runtime_info(body: bytes) -> dict[str, str]:
    """What BROKER_RUNTIME_INFO says (KVTable). Raises ProtocolError."""
    try:
        table: dict[str, Any] = json.loads(body)["table"]
        return {str(name): str(value) for name, value in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"BROKER_RUNTIME_INFO: cannot be read: {error}") from None
