"""What a handler is told of who asks, and what it answers."""

from typing import NamedTuple

from reput.store_format.remoting.codes import ResponseCode
from reput.store_format.serving.record_bytes import Piece


class Caller(NamedTuple):
    """The connection that a request came by, and when."""

    connection: int  # its number; none is given twice
    peer: str  # the client's address, host:port
    local: str  # the address by which the client reached us, host:port
    now: int  # milliseconds since 1970


class Hold(NamedTuple):
    """A pull that may wait for messages (PullRequestHoldService)."""

    topic: str
    queue_id: int
    position: int  # it is answered anew once the queue has this position
    until: int  # milliseconds since 1970; then it is answered as it stands


class Answer(NamedTuple):
    """An answer to a request. Its body is bytes, or pieces of the log that follow one another."""

    code: int
    remark: str | None = None
    fields: dict[str, str] = {}
    body: bytes = b""
    pieces: tuple[Piece, ...] = ()  # follow the body
    hold: Hold | None = None


def found(body: bytes = b"", **fields: object) -> Answer:
    """SUCCESS, with these fields; those that are None are left out."""
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return Answer(ResponseCode.SUCCESS, None, texts, body)


def refused(code: int, remark: str) -> Answer:
    return Answer(code, remark)
