"""Sends messages to a live cluster: the checkpoint that outlives a kill, and the loop that sends,
backs off, and finds out what became of a request without an answer.
"""

import errno
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
_FORMAT = "reput-send-1"


class UnderWay(NamedTuple):
    """A request whose answer is not known. of: its source's queue; start: from there on its queue
    would have it; maybe: whether another request with its message got no answer before.
    """

    places: list[Place]
    topic: str
    of: int
    broker: str
    queue: int
    start: int | None
    maybe: bool


class Checkpoint:
    """after: everything up to there was sent or failed. failed: places to be tried again. limits:
    since and until of a run that goes on; only since if all but `failed` was sent.
    """

    def __init__(self, path: str, about: Mapping[str, Any]) -> None:
        """Open, or begin, the checkpoint of what `about` says, under a lock. Raises StoreError if
        it is another's, or in use; OSError.
        """
        self.path, self.sent = path, 0
        self.limits: list[int | None] = []
        self.after, self.last = (-1, -1), ""  # last: the UNIQ_KEY of what is there
        self.failed, self.twice = set[Place](), list[Place]()
        self.queues: dict[tuple[str, int], tuple[str, int]] = {}  # of a topic and a source's queue
        self.under_way: UnderWay | None = None
        self._file = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read({"format": _FORMAT, **about})
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, BlockingIOError):
                raise StoreError(f"{path}: another `reput send` has this checkpoint") from None
            raise

    def _read(self, about: dict[str, Any]) -> None:
        with open(self._file, "rb", closefd=False) as file:
            whole, end, torn = file.read().rpartition(b"\n")
        first, *lines = whole.split(b"\n") if end else [_line(about)[:-1]]
        try:
            known = json.loads(first)
            if not end and not first.startswith(torn):
                raise ValueError
            for line in lines:
                self._take(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StoreError(f"{self.path}: is no checkpoint of `reput send`; it stays") from None
        if known != about:
            raise StoreError(f"{self.path}: is the checkpoint of another source, selection or "
                             "target: name another with --checkpoint")  # fmt: skip
        if torn:  # its process was killed within a line
            os.ftruncate(self._file, len(whole + end))
        if not end:
            self._write(about)

    def _take(self, line: dict[str, Any]) -> None:
        if "limits" in line:
            self.limits = [None if each is None else int(each) for each in line["limits"]]
        elif "send" in line:
            places, *rest = line["send"]
            made = self.under_way = UnderWay([_place(each) for each in places], *rest)
            self.queues[made.topic, made.of] = made.broker, made.queue
        else:
            self.under_way = None
            sent, failed = ([_place(each) for each in line.get(n, ())] for n in ("sent", "failed"))
            self.sent += len(sent)
            self.failed = (self.failed - set(sent)) | set(failed)
            self.twice += [*sent, *failed] if line.get("twice") else []
            if (newest := max([self.after, *sent, *failed])) != self.after:
                self.after, self.last = newest, line["last"]

    def is_done(self, place: Place) -> bool:
        return place <= self.after and place not in self.failed

    def limit(self, limits: list[int | None]) -> None:
        """Note what a later run takes of the source."""
        if limits != self.limits:
            self._note({"limits": limits})

    def note(self, what: str, group: list[Outgoing], *more: Any, twice: bool = False) -> None:
        """Note that messages are now sent (`send`; more: the other fields of UnderWay), were `sent`
        or `failed`; without messages, that the request was not obeyed.
        """
        places: list[Any] = [each.place for each in group]
        last = {"last": group[-1].unique} if group and not more else {}
        self._note({what: [places, *more] if more else places, **last,
                    **({"twice": True} if twice else {})})  # fmt: skip
        if more:
            os.fdatasync(self._file)

    def _note(self, line: dict[str, Any]) -> None:
        self._write(line)
        self._take(line)

    def _write(self, line: dict[str, Any]) -> None:
        raw = _line(line)
        if os.write(self._file, raw) != len(raw):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def close(self) -> None:
        os.close(self._file)


def _line(of: Mapping[str, Any]) -> bytes:
    return json.dumps(of).encode() + b"\n"


def _place(pair: Any) -> Place:
    major, minor = map(int, pair)
    return major, minor


# ---
# The loop.

_PATIENCE_SECONDS = 60.0  # how long brokers may be busy or away
_BACKOFF = 0.1, 5.0  # seconds: first and longest wait meanwhile
_SETTLED_SECONDS = 10.0  # after that a batch that is not in its queue was never stored
_LOOK_SECONDS = 0.5
_BATCH_BYTES = 1 << 20  # a broker takes 4 MB by default (maxMessageSize)
_RULES = record_rules(profile(RELEASES[-1]))
_NO_ROUTE = "the name server knows no broker that takes messages of this topic"
_HELD_BACK = "held back: a message before it in its queue failed"
_OK, _SINGLY = 0, -1


class _NotStored(Exception):
    """code: the answer's; maybe: no answer came, and the queue does not have the messages."""

    def __init__(self, code: int, why: str, maybe: bool = False) -> None:
        super().__init__(why)
        self.code, self.maybe = code, maybe


class Sender:
    """Sends, one request at a time, as is asked (jobs/send.py)."""

    def __init__(self, cluster: Cluster, checkpoint: Checkpoint, asked: Any) -> None:
        self.cluster, self.checkpoint, self.asked = cluster, checkpoint, asked
        self.topics: Counter[str] = Counter()
        self._turns, self._due = count(), time.monotonic()
        self._starts: dict[tuple[str, TargetBroker, int], int | None] = {}
        self._stuck = set[tuple[str, int]]()  # in order: topics and source's queues that failed

    def run(self, messages: Iterator[Outgoing]) -> None:
        """Send messages, in the order of their places. Raises PeerFailed if brokers are away for
        too long: a later run goes on; OSError if the checkpoint cannot be written.
        """
        doubt, first, rest = self.checkpoint.under_way, list[Outgoing](), list[Outgoing]()
        while doubt and len(first) < len(doubt.places) and (one := next(messages, None)):
            (first if one.place in doubt.places else rest).append(one)
            if one.place > max(doubt.places):
                break
        if doubt and first:
            self._resume(first, doubt)
        elif doubt:
            self.asked.tell(
                f"the message at {doubt.places[0][0]:,} was under way when a run ended, and is no "
                "longer chosen: nobody knows whether it was sent"
            )
        most = min(self.asked.batch, self.asked.rate or self.asked.batch)
        for group in requests_of(chain(rest, messages), most, self.asked.ordered):
            self._send(group)
            if self.asked.rate is not None:
                now = time.monotonic()
                self._due = max(self._due, now - 1) + len(group) / self.asked.rate
                time.sleep(max(self._due - now, 0))

    def _resume(self, group: list[Outgoing], doubt: UnderWay) -> None:
        """Go on with the request during which an earlier run was killed."""
        brokers = [each for each in self.cluster.route(doubt.topic) if each.name == doubt.broker]
        until = time.monotonic() + _PATIENCE_SECONDS
        at = brokers[0] if brokers else TargetBroker(doubt.broker, ("", 0), 1), doubt.queue
        found = self._settled(group, at, doubt.start, until)
        if found is None:
            self._send(group, maybe=len(group) == 1)
        else:
            self._done(group, at, found, "", maybe=doubt.maybe)

    def _send(self, group: list[Outgoing], maybe: bool = False) -> None:
        """Send a request until it is stored or refused. maybe: whether its message, of which there
        is one, may be stored already. Raises PeerFailed.
        """
        until, wait, first = time.monotonic() + _PATIENCE_SECONDS, _BACKOFF[0], group[0]
        avoided, refused = set[str](), set[str]()
        if first.refused or (first.topic, first.queue_id) in self._stuck:
            return self._fail(group, first.refused or _HELD_BACK, maybe)
        while True:
            at: Queue | None = None
            try:
                route = self.cluster.route(first.topic)
                at = self._pick(route, first, avoided | refused)
                start = self._start(first.topic, at) if at else None
            except (PeerFailed, OSError, BadFrame) as error:
                failed = _NotStored(min(BUSY), str(error))
            else:
                if at is None:
                    return self._fail(group, _NO_ROUTE, maybe)
                try:
                    stored = self._tried(group, at, start, until, maybe)
                    return self._done(group, at, *stored, maybe)
                except _NotStored as error:
                    failed = error
            maybe = maybe or failed.maybe
            self._starts.clear()  # a broker that lost power may have lost its queues' ends, too
            name = at[0].name if at else ""
            if failed.code in BUSY:
                if time.monotonic() + wait > until:
                    raise PeerFailed(f"topic {first.topic}: {failed}; given up: run again to go on")
                avoided.add(name)
                time.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, _BACKOFF[1])
                self.cluster.forget(first.topic)
            elif len(group) > 1:
                for one in group:
                    self._send([one])
                return None
            else:
                refused.add(name)
                if self.asked.ordered or refused >= {each.name for each in route}:
                    return self._fail(group, str(failed), maybe)

    def _pick(
        self, route: list[TargetBroker], message: Outgoing, avoided: set[str]
    ) -> Queue | None:
        """A queue: in order always the same of a source's queue, else the next one's turn. Raises
        OSError if that queue's broker is away.
        """
        known = self.checkpoint.queues.get((message.topic, message.queue_id))
        if not self.asked.ordered:
            route = [each for each in route if each.name not in avoided] or route
        elif known is not None:
            for broker in route:
                if broker.name == known[0] and known[1] < broker.queues:
                    return broker, known[1]
            raise NotReached(f"{known[0]}: its queue {known[1]} is not in the route")
        turn = message.queue_id if self.asked.ordered else next(self._turns)
        turn %= sum(each.queues for each in route) or 1
        for broker in route:
            if turn < broker.queues:
                return broker, turn
            turn -= broker.queues
        return None

    def _tried(
        self, group: list[Outgoing], at: Queue, start: int | None, until: float, maybe: bool
    ) -> tuple[int, str]:
        """The first position where messages are stored, and a remark. Raises _NotStored; PeerFailed
        if nobody knows, OSError if the checkpoint cannot be written.
        """
        first, (broker, queue) = group[0], at
        if len(group) > 1 and start is None:
            raise _NotStored(_SINGLY, "")
        self.checkpoint.note(
            "send", group, first.topic, first.queue_id, broker.name, queue, start, maybe
        )
        now = time.time_ns() // 1_000_000
        try:
            answer = self.cluster.ask(broker.address, send_request(group, queue, now))
        except NotReached as error:
            answer = Command(min(BUSY), remark=str(error))
        except (OSError, BadFrame) as error:
            found = self._settled(group, at, start, until)
            if found is None:
                raise _NotStored(min(BUSY), f"{broker.name}: {error}", len(group) == 1) from None
            return found, ""
        if answer.code in STORED:
            return number_of(answer, "queueOffset"), STORED[answer.code]
        if not maybe:  # else a kill now would forget the request before this one
            self.checkpoint.note("none", [])
        raise _NotStored(answer.code, f"{broker.name}: {answer.remark or ''} (code {answer.code})")

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
        have been stored: sent again too early, all of it would be there twice. Raises PeerFailed
        for a batch whose queue cannot be read.
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
                    raise PeerFailed(
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
        self, group: list[Outgoing], at: Queue, offset: int, remark: str, maybe: bool
    ) -> None:
        topic, (broker, queue) = group[0].topic, at
        self.checkpoint.note("sent", group, twice=maybe)
        self._starts[topic, broker, queue] = max(offset, 0) + len(group)
        self.topics[topic] += len(group)
        for number, each in enumerate(group):
            self._say(each, "sent", broker.name, queue, offset + number, maybe, remark)

    def _fail(self, group: list[Outgoing], why: str, maybe: bool) -> None:
        self.checkpoint.note("failed", group, twice=maybe)
        if self.asked.ordered:
            self._stuck.add((group[0].topic, group[0].queue_id))
        for each in group:
            self._say(each, "failed", None, None, None, maybe, why)

    def _say(self, message: Outgoing, status: str, *more: Any) -> None:
        self.asked.row({**message.source, "status": status, "to": message.topic,
                    **dict(zip(_COLUMNS, more, strict=True))})  # fmt: skip


_COLUMNS = "broker", "toQueue", "toOffset", "maybeTwice", "remark"


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
