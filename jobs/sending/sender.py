"""Sends messages to a live cluster: the checkpoint that outlives a kill, and the loop that sends,
backs off, and finds out what became of a request without an answer.
"""

import fcntl
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Any, NamedTuple

from reput.broker.wire.producing import (
    BUSY,
    READABLE,
    STORED,
    UNIQUE_KEY,
    Outgoing,
    TargetBroker,
    end_request,
    number_of,
    pull_request,
    pulled,
    send_request,
)
from reput.broker.wire.remoting import BadFrame, Command
from reput.jobs.replicating.peers import Cluster, NotReached
from reput.store_format.faults import PeerFailed, StoreError
from reput.store_format.log.rules import record_rules
from reput.store_format.message.message import parse_properties
from reput.store_format.release.profiles import RELEASES, profile

# ---
# The checkpoint: a file of JSON lines that says what was sent, and which request is under way, so
# that a killed run goes on. A line is written before each request and after it.

Place = tuple[int, int]
Queue = tuple[TargetBroker, int]
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnderWay(NamedTuple):
    """A request whose answer is not known. start: from there on its queue would have it; maybe:
    whether another request with its message got no answer before.
    """

    places: list[Place]
    topic: str
    broker: str
    queue: int
    start: int | None
    maybe: bool


class Checkpoint:
    """after: everything up to there was sent or failed. failed: places to be tried again."""

    def __init__(self, path: str, about: Mapping[str, Any], times: list[int | None]) -> None:
        """Open, or begin, the checkpoint of what `about` says, under a lock. Raises StoreError if
        it is another's, or in use; OSError. times: since and until, which its first run decided.
        """
        self.path, self.times, self.sent = path, times, 0
        self.after: Place = (-1, -1)
        self.failed, self.twice = set[Place](), list[Place]()
        self.under_way: UnderWay | None = None
        self._file = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read({"format": "reput-send-1", **about})
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, BlockingIOError):
                raise StoreError(f"{path}: another `reput send` has this checkpoint") from None
            raise

    def _read(self, about: dict[str, Any]) -> None:
        with open(self._file, "rb", closefd=False) as file:
            whole, _, torn = file.read().rpartition(b"\n")
        if not whole:
            os.ftruncate(self._file, 0)
            self._write({**about, "times": self.times})
            return
        first, *lines = whole.split(b"\n")
        try:
            known = json.loads(first)
            self.times = list(known.pop("times"))
            for line in lines:
                self._take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StoreError(f"{self.path}: is no checkpoint of `reput send`; it stays") from None
        if known != about:
            raise StoreError(f"{self.path}: is the checkpoint of another source, selection or "
                             "target: name another with --checkpoint")  # fmt: skip
        if torn:  # its process was killed within a line
            os.ftruncate(self._file, len(whole) + 1)

    def _take(self, line: dict[str, Any]) -> None:
        if "send" in line:
            places, *rest = line["send"]
            self.under_way = UnderWay([_place(each) for each in places], *rest)
            return
        self.under_way = None
        sent, failed = ([_place(each) for each in line.get(n, ())] for n in ("sent", "failed"))
        self.sent += len(sent)
        self.failed = (self.failed - set(sent)) | set(failed)
        self.twice += [*sent, *failed] if line.get("twice") else []
        self.after = max([self.after, *sent, *failed])

    def is_done(self, place: Place) -> bool:
        return place <= self.after and place not in self.failed

    def note(self, what: str, group: Iterable[Outgoing], *more: Any, twice: bool = False) -> None:
        """Note that messages are now sent (`send`; more: the other fields of UnderWay), were `sent`
        or `failed`; without messages, that the request was not obeyed.
        """
        places: list[Any] = [each.place for each in group]
        line = {what: [places, *more] if more else places, **({"twice": True} if twice else {})}
        self._take(line)
        self._write(line)
        if more:
            os.fdatasync(self._file)

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def _place(pair: Any) -> Place:
    major, minor = map(int, pair)
    return major, minor


# ---
# The loop.

_BACKOFF = 0.1, 5.0  # seconds: first and longest wait while brokers are busy or away
_SETTLED_SECONDS = 10.0  # after that a batch that is not in its queue was never stored
_LOOK_SECONDS = 0.5
_BATCH_BYTES = 1 << 20  # a broker takes 4 MB by default (maxMessageSize)
_RULES = record_rules(profile(RELEASES[-1]))
_NO_ROUTE = "the name server knows no broker that takes messages of this topic"


class _Doubt(OSError):
    """A request got no answer, and its queue does not have its messages."""


class _Unknown(PeerFailed):
    """A batch got no answer, and its queue cannot be read."""


class Sender:
    """Sends, one request at a time, as is asked (jobs/send.py)."""

    def __init__(self, cluster: Cluster, checkpoint: Checkpoint, asked: Any) -> None:
        self.cluster, self.checkpoint, self.asked = cluster, checkpoint, asked
        self.topics: Counter[str] = Counter()
        self._turns, self._due = count(), time.monotonic()
        self._starts: dict[tuple[str, TargetBroker, int], int | None] = {}

    def run(self, messages: Iterator[Outgoing]) -> None:
        """Send messages, in the order of their places. Raises PeerFailed if brokers are away for
        too long: a later run goes on.
        """
        doubt, first, rest = self.checkpoint.under_way, list[Outgoing](), list[Outgoing]()
        while doubt and len(first) < len(doubt.places) and (one := next(messages, None)):
            (first if one.place in doubt.places else rest).append(one)
            if one.place > max(doubt.places):
                break
        if doubt and first:
            self._resume(first, doubt)
        for group in requests_of(chain(rest, messages), self.asked.batch, self.asked.ordered):
            self._send(group)
            if self.asked.rate is not None:
                now = time.monotonic()
                self._due = max(self._due, now - 1) + len(group) / self.asked.rate
                time.sleep(max(self._due - now, 0))

    def _resume(self, group: list[Outgoing], doubt: UnderWay) -> None:
        """Go on with the request during which an earlier run was killed."""
        brokers = [each for each in self.cluster.route(doubt.topic) if each.name == doubt.broker]
        until = time.monotonic() + self.asked.patience
        at = brokers[0] if brokers else TargetBroker(doubt.broker, ("", 0), 1), doubt.queue
        found = self._settled(group, at, doubt.start, until)
        if found is None:
            self._send(group, maybe=len(group) == 1)
        else:
            self._done(group, at, found, maybe=doubt.maybe)

    def _send(self, group: list[Outgoing], maybe: bool = False) -> None:
        """Send a request until it is stored or refused. maybe: whether its message, of which there
        is one, may be stored already. Raises PeerFailed.
        """
        until, wait = time.monotonic() + self.asked.patience, _BACKOFF[0]
        avoided, refused = set[str](), set[str]()
        if group[0].refused:
            return self._fail(group, group[0].refused)
        while True:
            at: Queue | None = None
            try:
                route = self.cluster.route(group[0].topic)
                at = self._pick(route, group[0], avoided | refused)
                if at is None:
                    return self._fail(group, _NO_ROUTE, maybe)
                code, why = self._tried(group, at, until, maybe)
            except _Unknown:
                raise
            except (PeerFailed, OSError, BadFrame) as error:
                code, why = min(BUSY), str(error)
                maybe = maybe or (isinstance(error, _Doubt) and len(group) == 1)
            if code is None:
                return None
            name = at[0].name if at else ""
            if code in BUSY:
                if time.monotonic() + wait > until:
                    raise PeerFailed(f"topic {group[0].topic}: {why}; given up: run again to go on")
                avoided.add(name)
                time.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, _BACKOFF[1])
                self.cluster.forget(group[0].topic)
            elif len(group) > 1:
                for one in group:
                    self._send([one])
                return None
            else:
                refused.add(name)
                if self.asked.ordered or refused >= {each.name for each in route}:
                    return self._fail(group, why, maybe)

    def _pick(
        self, route: list[TargetBroker], message: Outgoing, avoided: set[str]
    ) -> Queue | None:
        """A queue: in order always the same of a source's queue, else the next one's turn."""
        if not self.asked.ordered:
            route = [each for each in route if each.name not in avoided] or route
        turn = message.queue_id if self.asked.ordered else next(self._turns)
        turn %= sum(each.queues for each in route) or 1
        for broker in route:
            if turn < broker.queues:
                return broker, turn
            turn -= broker.queues
        return None

    def _tried(
        self, group: list[Outgoing], at: Queue, until: float, maybe: bool
    ) -> tuple[int | None, str]:
        """(None, "") where the messages are stored, else the answer's code and why they are not.
        Raises OSError, BadFrame; _Doubt and _Unknown, if it cannot be said.
        """
        topic, (broker, queue) = group[0].topic, at
        start = self._start(topic, at)
        if len(group) > 1 and start is None:
            return _SINGLY, ""
        self.checkpoint.note("send", group, topic, broker.name, queue, start, maybe)
        try:
            answer = self.cluster.ask(broker.address, send_request(group, queue, _now()))
        except NotReached:
            answer = Command(min(BUSY), remark="cannot be reached")
        except (OSError, BadFrame) as error:
            found = self._settled(group, at, start, until)
            if found is None:
                raise _Doubt(f"{broker.name}: {error}") from None
            answer = Command(_OK, fields={"queueOffset": str(found)})
        if answer.code in STORED:
            offset = number_of(answer, "queueOffset")
            self._done(group, at, offset, STORED[answer.code], maybe)
            return None, ""
        if not maybe:  # else a kill now would forget the request before this one
            self.checkpoint.note("none", ())
        return answer.code, f"{broker.name}: {answer.remark or ''} (code {answer.code})"

    def _start(self, topic: str, at: Queue) -> int | None:
        """A position at or before the queue's end; None if the queue cannot be read, so that
        nobody could find out what became of a batch. Raises OSError, BadFrame.
        """
        key, (broker, queue) = (topic, *at), at
        if key not in self._starts:
            end = number_of(self.cluster.ask(broker.address, end_request(topic, queue)), "offset")
            probe = self.cluster.ask(broker.address, pull_request(topic, queue, max(end, 0)))
            self._starts[key] = end if end >= 0 and probe.code in READABLE else None
        return self._starts[key]

    def _settled(
        self, group: list[Outgoing], at: Queue, start: int | None, until: float
    ) -> int | None:
        """Where the queue has the messages; None if it has not. A batch is looked for until it must
        have been stored: sent again too early, all of it would be there twice. Raises _Unknown.
        """
        settled = time.monotonic() + (_SETTLED_SECONDS if len(group) > 1 else 0)
        while True:
            try:
                found = None if start is None else self._found(group, at, start, until)
                if found is not None or time.monotonic() >= settled:
                    return found
            except (OSError, BadFrame) as error:
                if len(group) == 1:
                    return None
                if time.monotonic() > max(until, settled):
                    raise _Unknown(
                        f"broker {at[0].name}: nobody knows whether {len(group)} messages under "
                        f"way were stored ({error}): run again when its queue can be read"
                    ) from None
            time.sleep(_LOOK_SECONDS)

    def _found(self, group: list[Outgoing], at: Queue, start: int, until: float) -> int | None:
        wanted, (broker, queue) = {each.unique for each in group}, at
        while True:
            answer = self.cluster.ask(broker.address, pull_request(group[0].topic, queue, start))
            for record in pulled(answer.body or b"", _RULES) if answer.code == _OK else ():
                if parse_properties(record.properties).get(UNIQUE_KEY) in wanted:
                    return record.queue_offset
            if answer.code not in READABLE or time.monotonic() > until + _SETTLED_SECONDS:
                raise BadFrame(f"code {answer.code} {answer.remark or ''}")
            after = number_of(answer, "nextBeginOffset")
            if after <= start:
                return None
            start = after

    def _done(
        self, group: list[Outgoing], at: Queue, offset: int, remark: str = "", maybe: bool = False
    ) -> None:
        topic, (broker, queue) = group[0].topic, at
        self.checkpoint.note("sent", group, twice=maybe)
        self._starts[topic, broker, queue] = max(offset, 0) + len(group)
        self.topics[topic] += len(group)
        for number, each in enumerate(group):
            self._say(each, "sent", broker.name, queue, offset + number, maybe, remark)

    def _fail(self, group: list[Outgoing], why: str, maybe: bool = False) -> None:
        self.checkpoint.note("failed", group, twice=maybe)
        for each in group:
            self._say(each, "failed", None, None, None, maybe, why)

    def _say(self, message: Outgoing, status: str, *more: Any) -> None:
        self.asked.row({**message.source, "status": status, "to": message.topic,
                    **dict(zip(_COLUMNS, more, strict=True))})  # fmt: skip


_COLUMNS = "broker", "toQueue", "toOffset", "maybeTwice", "remark"
_OK, _SINGLY = 0, -1


def requests_of(messages: Iterable[Outgoing], most: int, ordered: bool) -> Iterator[list[Outgoing]]:
    """The messages by requests, in order: those of a batch have one topic, and in order one queue
    of the source.
    """
    held: list[Outgoing] = []
    size = 0
    for one in messages:
        first = held[0] if held else one
        joins = (
            len(held) < most and size + one.size <= _BATCH_BYTES and one.topic == first.topic
            and one.fits_batch and first.fits_batch
            and (not ordered or one.queue_id == first.queue_id)
        )  # fmt: skip
        if held and not joins:
            yield held
            held, size = [], 0
        held.append(one)
        size += one.size
    if held:
        yield held


def _now() -> int:
    return time.time_ns() // 1_000_000
