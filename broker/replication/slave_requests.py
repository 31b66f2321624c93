"""What a slave asks a broker besides its log, by the remoting protocol, as bytes.

GET_BROKER_RUNTIME_INFO tells where the log begins, GET_BROKER_CONFIG how long its segments are. The
other requests are SlaveSynchronize's: their bodies are the files in the master's config/.
"""

import json
from typing import Any, NamedTuple

from reput.broker.remoting.codes import Language, RequestCode
from reput.broker.remoting.command import BadFrame, Command, Serialization
from reput.broker.remoting.frames import Frames, frame
from reput.broker.replication.ha_frames import ProtocolError

CONFIG_FILES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topics.json",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroup.json",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "consumerOffset.json",
    RequestCode.GET_ALL_DELAY_OFFSET: "delayOffset.json",
}
_VERSION = 399


class SlaveAnswer(NamedTuple):
    """A response: its code (0: success), its remark and its body."""

    code: int
    remark: str
    body: bytes


def encode_question(code: int, opaque: int) -> bytes:
    """A request without fields."""
    return frame(Command(code, opaque, version=_VERSION, language=Language.OTHER))


def decode_answer(frames: Frames) -> SlaveAnswer | None:
    """The answer in what was fed (header: JSON); None: not whole yet. Raises ProtocolError."""
    try:
        found = frames.next()
    except BadFrame as error:
        raise ProtocolError(f"answer: {error}") from None
    if found is None:
        return None
    if found.serialization != Serialization.JSON:
        raise ProtocolError(f"answer: a header of kind {found.serialization}, JSON was asked for")
    return SlaveAnswer(found.code, found.remark or "", found.body or b"")


def runtime_info(body: bytes) -> dict[str, str]:
    """The figures of GET_BROKER_RUNTIME_INFO (KVTable). Raises ProtocolError."""
    try:
        table: dict[str, Any] = json.loads(body)["table"]
        return {str(name): str(value) for name, value in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"GET_BROKER_RUNTIME_INFO: cannot be read: {error}") from None
