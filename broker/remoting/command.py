"""`Command`: one request or answer of the remoting protocol, as a value (RemotingCommand)."""

from enum import IntEnum
from typing import NamedTuple

from reput.broker.remoting.codes import Language

RESPONSE_BIT = 1 << 0
ONE_WAY_BIT = 1 << 1

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1


class BadFrame(ValueError):
    """Bytes that are no frame of the protocol: nothing can be read after them."""


class Serialization(IntEnum):
    """How a header is written (SerializeType); an answer's header is written like its request's."""

    JSON = 0
    ROCKETMQ = 1


class Command(NamedTuple):
    """One request or answer. `fields` are the header's own (extFields), as texts."""

    code: int  # of a RequestCode, or of a ResponseCode
    opaque: int = 0  # an answer has its request's opaque
    flag: int = 0
    fields: dict[str, str] = {}
    body: bytes | None = b""  # None: the body was too long and was skipped
    remark: str | None = None
    version: int = 0  # the sender's release, as a number of MQVersion
    language: int = Language.JAVA
    serialization: Serialization = Serialization.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_BIT)

    @property
    def is_one_way(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & ONE_WAY_BIT)


def is_int(value: object) -> bool:
    """Whether a value fits Java's int."""
    return type(value) is int and INT_MIN <= value <= INT_MAX
