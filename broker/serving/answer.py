"""What a handler knows of who asks, and what it answers."""

from collections.abc import Callable
from typing import NamedTuple

from reput.broker.remoting.codes import ResponseCode
from reput.broker.remoting.command import Command
from reput.broker.serving.record_bytes import BodyPiece


class Caller(NamedTuple):
    """The connection that a request came by, and when."""

    connection: int  # its number; none is given twice
    peer: str  # the client's address, host:port
    local: str  # the address by which the client reached us, host:port
    now: int  # milliseconds since 1970


class Hold(NamedTuple):
    """A pull or pop that waits (PullRequestHoldService, PopLongPollingService)."""

    topic: str
    queue_id: int
    position: int  # it is answered anew once the queue has this position
    until: int  # milliseconds since 1970; then it is answered as it stands
    group: str | None = None  # of a pop, which waits for any queue of the topic
    again: int | None = None  # it is answered anew at this time, before `until`
    ready: "Callable[[], bool] | None" = None  # whether a pop has something to give by now


class Question(NamedTuple):
    """What another client is asked first, since only it knows (Broker2Client)."""

    connection: int  # of the client that is asked
    command: Command  # the opaque is given when it is sent
    pieces: tuple[BodyPiece, ...]  # follow the command's body
    wait: int  # milliseconds
    # what its answer makes of ours; None: it did not answer in time, or is gone
    then: "Callable[[Command | None], Answer]"


class Answer(NamedTuple):
    """An answer to a request. Its body is bytes, or pieces of the log that follow one another."""

    code: int
    remark: str | None = None
    fields: dict[str, str] = {}
    body: bytes = b""
    pieces: tuple[BodyPiece, ...] = ()  # follow the body
    hold: Hold | None = None
    question: Question | None = None  # the answer is what comes of this


def found(body: bytes = b"", **fields: object) -> Answer:
    """SUCCESS, with these fields; those that are None are left out."""
    texts = {name: str(value) for name, value in fields.items() if value is not None}
    return Answer(ResponseCode.SUCCESS, None, texts, body)


def refused(code: int, remark: str) -> Answer:
    return Answer(code, remark)
