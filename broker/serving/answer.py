"""What a handler knows of the caller, and what it answers."""

from collections.abc import Callable
from typing import NamedTuple

from reput.broker.serving.record_bytes import BodyPiece
from reput.broker.wire.codes import ResponseCode
from reput.broker.wire.remoting import Command


class Caller(NamedTuple):
    """The connection by which a request came, and when."""

    connection: int  # its number, which no other connection gets
    peer: str  # the client's address, host:port
    local: str  # the address by which the client reached us, host:port
    now: int  # milliseconds since 1970


class Hold(NamedTuple):
    """A pull or pop that waits (PullRequestHoldService, PopLongPollingService)."""

    topic: str
    queue_id: int
    position: int  # the request is handled again once the queue has this position
    until: int  # milliseconds since 1970; then the Answer that has this Hold is sent
    group: str | None = None  # a pop's group; a pop waits for any queue of the topic
    again: int | None = None  # the request is handled again at this time, before `until`
    ready: "Callable[[], bool] | None" = None  # whether a pop would give a message by now


class Question(NamedTuple):
    """A question to another client, which alone knows the answer (Broker2Client)."""

    connection: int  # of the client that is asked
    command: Command  # gets its opaque when it is sent
    pieces: tuple[BodyPiece, ...]  # follow the command's body
    wait: int  # milliseconds
    # turns the client's response into our answer; None: no response in time, or client gone
    then: "Callable[[Command | None], Answer]"


class Answer(NamedTuple):
    """An answer to a request. Its body is bytes, or pieces of the log that follow one another."""

    code: int
    remark: str | None = None
    fields: dict[str, str] = {}
    body: bytes = b""
    pieces: tuple[BodyPiece, ...] = ()  # follow the body
    hold: Hold | None = None
    question: Question | None = None  # its `then` makes the real answer


def found(body: bytes = b"", **fields: object) -> Answer:
    """SUCCESS, with these fields; fields that are None are left out."""
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return Answer(ResponseCode.SUCCESS, None, texts, body)


def refused(code: int, remark: str) -> Answer:
    return Answer(code, remark)
