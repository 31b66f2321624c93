"""What a task of the Spark source reads: the records of one part of a log, and the live ones after
damage.

A part is a stretch of one segment. Only a walk from the segment's first record can tell which
records start in it. So each task walks from there, from size to size, and makes rows once its part
begins. The walk costs little beside making rows, and needs nothing from another task. It never
takes bytes within a body for a record, so the rows are the same however the log is cut
(docs/decisions/0015).
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from reput.store_format.damage.evidence import NextOffset
from reput.store_format.damage.liveness import Before, Given
from reput.store_format.damage.lives import Piece
from reput.store_format.damage.queue_ends import last_of_run
from reput.store_format.damage.ranges import KINDS, Damage, DamageKind, Ranges
from reput.store_format.damage.resync import NOT_FOUND, Prover, lost_its_end
from reput.store_format.damage.tolerant import TolerantScan
from reput.store_format.dispatch.scan import Buffers, End, Runs, ScanRules, scan, scan_rules
from reput.store_format.faults import REASONS, SALVAGE, DamageFound, Fault, StoreChanged
from reput.store_format.files.protocol import InputStorage, Reader
from reput.store_format.layouts import RECORD_HEAD_BYTES
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LiveBehind
from reput.store_format.log.rules import head_bytes
from reput.store_format.log.segments import Segment, Stretch, may_grow
from reput.store_format.log.walk import NO_CHECKS, Checks, Read, Step, Walk
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings
from reput.udfs.damage.lives import judged as judge
from reput.udfs.damage.lives import pieces_in, suspect
from reput.udfs.damage.segments import padded

FAIL, SKIP = "fail", "skip"
ON_DAMAGE = (FAIL, SKIP, SALVAGE)

WINDOW_BYTES = 4 << 20  # rows of one window are one Arrow batch: some thousands
logger = logging.getLogger("reput.source")
Tell = Callable[[str], None]
Result = TypeVar("Result")
Ended = tuple[int, Fault]  # where a walk ended, and why
Stretches = tuple[tuple[int, int], ...]  # [start, stop) of each, in order (see `live_of`)


class LogPart(NamedTuple):
    """Records that start in [start, stop) of a segment. known: a record at or before `start`."""

    segment: int  # its number
    known: int
    start: int
    stop: int


@dataclass(frozen=True)
class LogParts:
    """A log as tasks read it.

    on_damage: one of ON_DAMAGE; check_body: compare the bodies' CRCs; may_miss: a segment whose
    file is gone counts as without records, and is no error.
    """

    storage: InputStorage
    segments: tuple[Segment, ...]
    rules: ScanRules
    on_damage: str = FAIL
    check_body: bool = False
    may_miss: bool = False
    # where the committed part of a DLedger log ends, a physical offset; None: no limit
    agreed_to: int | None = None
    # What the whole log says of [.., judged_to): a segment's live stretches by where it begins, and
    # that those without are sound. What is after it is judged by the tasks that read it.
    live: Mapping[int, Stretches] = field(default_factory=dict)
    judged_to: int = -1

    def steps(self, part: LogPart, tell: Tell = logger.warning) -> Iterator[Step]:
        """The records of a part, a window at a time; each step is valid until the next one.

        tell: called with a line for each thing that is left out. Raises DamageFound if records may
        follow damage and on_damage is FAIL.
        """
        segment = self.segments[part.segment]
        try:
            reader = self.storage.open(segment.path, segment.state)
        except (FileNotFoundError, StoreChanged):
            if not self.may_miss:
                raise
            tell(f"{segment.path}: is gone, and its records with it")
            return
        try:
            yield from PartReader(self, part, reader, tell).steps()
        finally:
            reader.close()

    def around(self, part: LogPart) -> tuple["LogParts", LogPart]:
        """The segments and the part that one task needs: little is sent to it."""
        if self.on_damage == SALVAGE and part.stop > self.judged_to:
            return self, part  # earlier segments show which records are live
        n = part.segment
        begin = self.segments[n].start
        live = {begin: self.live[begin]} if begin in self.live else {}
        log = replace(self, segments=self.segments[n : n + 2], live=live)
        return log, part._replace(segment=0)

    def judged(self, to: int) -> "LogParts":
        """The log with what all of it says of its damaged segments, up to an offset.

        Only with SALVAGE; then this process reads the whole log, and several times where it is
        damaged. jobs/salvaging/lives.py has the same by tasks.
        """
        if self.on_damage != SALVAGE:
            return self
        numbers = range(len(self.segments))
        ends = [self._reader_of(n, PartReader.walked) for n in numbers]
        damaged = {n for n, (is_sound, _) in enumerate(ends) if not is_sound}
        fallen = suspect((n, vars(end)) for n, (_, end) in enumerate(ends))
        listed = damaged | fallen.intersection(numbers)
        pieces = [
            piece if n in listed else piece._replace(is_sure=True)
            for n in numbers if listed for piece in self._pieces(n)
        ]  # fmt: skip
        given: dict[int, list[Given]] = {n: [] for n in damaged}
        starts = [segment.start for segment in self.segments]
        for each in judge(pieces):
            number = bisect_right(starts, each.start) - 1
            if number in damaged or not each.live:
                given.setdefault(number, []).append(each)
        live = {starts[n]: self._live_in(n, tuple(given[n])) for n in sorted(given)}
        return replace(self, live=live, judged_to=to)

    def is_doubtful(self, number: int) -> bool:
        """Whether the chain of a segment's records breaks, or their times fall."""
        is_sound, end = self._reader_of(number, PartReader.walked)
        return end.fell_by > 0 or not is_sound

    def _live_in(self, number: int, given: tuple[Given, ...]) -> Stretches:
        return self._reader_of(number, lambda reader: reader.live_stretches(given))

    def _reader_of(self, number: int, what: "Callable[[PartReader], Result]") -> Result:
        segment = self.segments[number]
        part = LogPart(number, segment.start, segment.start, segment.end)
        with closing(self.storage.open(segment.path, segment.state)) as reader:
            return what(PartReader(self, part, reader))

    def _pieces(self, number: int) -> list[Piece]:
        return self._reading(number, lambda read, s: pieces_in(read, s.start, s.end, self.rules))

    def body(self, place: int, length: int) -> bytes:
        number = next(n for n, s in enumerate(self.segments) if s.start <= place < s.end)
        body = np.empty(length, np.uint8)
        self._reading(number, lambda read, _: read(place, body))
        return body.tobytes()

    def is_written_from(self, number: int) -> bool:
        """Whether any segment from `number` on begins with something other than zeros."""
        return any(
            self._reading(n, lambda read, s: bool(_head(read, s.start, s.end).any()))
            for n in range(number, len(self.segments))
        )

    def _reading(self, number: int, what: Callable[[Read, Segment], Result]) -> Result:
        segment = self.segments[number]
        with closing(self.storage.open(segment.path, segment.state)) as reader:
            return what(padded(reader, segment), segment)

    def last_time(self, number: int) -> int | None:
        """StoreTimestamp of the last record before segment `number`; None without such a record."""

        def last(read: Read, segment: Segment) -> int | None:
            found = None
            for step in new_walk(read, segment, self.rules, NO_CHECKS).steps(
                segment.start, segment.end
            ):
                if len(step.rows):
                    found = int(step.rows["storeTimestamp"][-1])
            return found

        times = (self._reading(n, last) for n in reversed(range(number)))
        return next((time for time in times if time is not None), None)

    def queues_before(self, number: int) -> dict[tuple[str, int], NextOffset]:
        """The queueOffset that each queue goes on from, before segment `number`."""
        found: dict[tuple[str, int], NextOffset] = {}

        def look(read: Read, segment: Segment) -> None:
            stretch = Stretch(segment.start, segment.end, segment.start, segment.end, segment.start)
            for part in scan(read, stretch, self.rules, Buffers(1 << 20)):
                if isinstance(part, Runs):
                    for i, queue in enumerate(part.queues):
                        if part.runs.count[i]:
                            last = last_of_run(part.runs, i, queue.batch)
                            found[queue.topic, queue.queue_id] = NextOffset(last, 0)

        for n in range(number):
            self._reading(n, look)
        return found


def live_of(
    segment: Segment, lost: Sequence[tuple[int, int]], end: int, is_last: bool
) -> Stretches:
    """The live stretches of a segment, without its lost ranges; the last live record ends at `end`.

    is_last: nothing live follows the segment. Else an empty stretch shows up to where the last
    ranges are lost.
    """
    live, at = [], segment.start
    for start, stop in [*lost, (end, end)]:
        if start > at:
            live.append((at, min(start, end)))
        at = max(at, stop)
    live = [(start, stop) for start, stop in live if start < stop]
    return tuple(live if is_last or at <= end else [*live, (at, at)])


def new_walk(read: Read, segment: Segment, rules: ScanRules, checks: Checks) -> Walk:
    """A walk of a segment in windows of WINDOW_BYTES."""
    buffer = np.empty(min(WINDOW_BYTES, segment.end - segment.start), np.uint8)
    return Walk(read, segment.end, rules.records, checks, buffer)


def _head(read: Read, at: int, end: int) -> np.ndarray:
    head = np.zeros(RECORD_HEAD_BYTES, np.uint8)
    read(at, head[: end - at])
    return head


class PartReader:
    def __init__(
        self, log: LogParts, part: LogPart, reader: Reader, tell: Tell = logger.warning
    ) -> None:
        self.log, self.part, self.tell = log, part, tell
        self.segment = log.segments[part.segment]
        passes = log.on_damage == SALVAGE
        self.read = padded(reader, self.segment) if passes else self.segment.read_by(reader)
        # salvage keeps a record with nothing but a wrong bodyCRC: it has its place in a queue
        self.checks = Checks(body=log.check_body and not passes)
        self.last_time: int | None = None

    def steps(self) -> Iterator[Step]:
        part = self.part
        if self.log.on_damage == SALVAGE:
            yield from self._live()
            return
        at, fault = yield from self._records(part.known, part.start, part.stop)
        if at < part.start:
            return  # the log breaks off before this part: the earlier part reports that
        if fault == Fault.NONE and at == self.segment.end and not self.log.storage.back_to_back:
            fault = Fault.SHORT_TAIL  # RocketMQ ends every full segment with a BLANK
        if fault == Fault.NONE or (fault == Fault.BLANK and self._is_whole_blank(at)):
            return
        if self.log.on_damage == SKIP:
            self._skip(at, fault)
        else:
            self._refuse_if_live(at, fault)

    def live_end(self) -> int:
        """Where the last whole record ends in the last segment of a log that may grow."""
        at, fault, last = self.part.known, Fault.NONE, None
        for step in self._walk(NO_CHECKS).steps(at, self.part.stop):
            if len(step.rows):
                self._note(step)
                torn = lost_its_end(step.window, step.rows, True)
                last = int(step.rows["physicalOffset"][-1]) if torn else None
            at, fault = step.next, step.fault
        if fault in (Fault.NONE, Fault.BLANK):
            return self.segment.end
        if fault == Fault.ZEROS:
            return at if last is None else last
        if self._next_live(at) == NOT_FOUND:
            return at
        if self.log.on_damage == SALVAGE:
            judged = self.log.live.get(self.segment.start) if at < self.log.judged_to else None
            live = self.live_stretches() if judged is None else judged
            return live[-1][1] if live else self.segment.start
        if self.log.on_damage == FAIL:
            self._refuse_if_live(at, fault)
        return at

    def _records(self, known: int, start: int, stop: int) -> Generator[Step, None, Ended]:
        """Walk from `known` and yield the records in [start, stop); returns the walk's Ended."""
        at, fault = known, Fault.NONE
        for step in self._walk(NO_CHECKS).steps(at, start):
            at, fault = step.next, step.fault
            self._note(step)
        if fault != Fault.NONE:
            return at, fault
        for step in self._walk(self.checks).marked(at, stop):
            if step.wrong is not None and self.log.on_damage == SKIP:
                self._skip_rows(step)
                step = step._replace(rows=step.rows[step.wrong == 0], wrong=None)
            step = step.until_wrong()
            if len(step.rows):
                self._note(step)
                yield step
            at, fault = step.next, step.fault
            if fault != Fault.NONE:
                break
        return at, fault

    def _walk(self, checks: Checks) -> Walk:
        return new_walk(self.read, self.segment, self.log.rules, checks)

    def _note(self, step: Step) -> None:
        if len(step.rows):
            self.last_time = int(step.rows["storeTimestamp"][-1])

    def _is_whole_blank(self, at: int) -> bool:
        head = _head(self.read, at, self.segment.end)
        size = 4 if head_bytes(self.segment.end, self.log.rules.records) else 0  # the size's place
        raw = head[size : size + 4].tobytes()
        return int.from_bytes(raw, "big", signed=True) == self.segment.end - at

    def _where(self, at: int, fault: Fault) -> str:
        fault = Fault.BLANK_SIZE if fault == Fault.BLANK else fault
        name, reason = REASONS[fault]
        offset = at - self.segment.start
        return f"{self.segment.path}: offset {offset} (physical {at}): {name} {reason}"

    def _refuse_if_live(self, at: int, fault: Fault) -> None:
        """Raise DamageFound if anything that may be live follows, so the log goes on."""
        if fault == Fault.ZEROS and not self._is_written(at):
            if not self.log.is_written_from(self.part.segment + 1):
                return
            what = "but a later segment is written"
        else:
            live = self._next_live(at)
            if live == NOT_FOUND and not self.log.is_written_from(self.part.segment + 1):
                return
            what = f"the first at offset {live}" if live >= 0 else "in a later segment"
            what = f"live records may follow, {what}"
        raise DamageFound(
            f"{self._where(at, fault)}; {what}: onDamage (--on-damage) skip leaves out the "
            "rest of the segment, salvage what is damaged or stale"
        )

    def _next_live(self, at: int) -> int:
        """The next record that proves itself and was not stored before the last one."""
        prover = Prover(self.read, at, self.segment.end, self.log.rules.records)
        found = prover.next_record(at + 1)
        while found != NOT_FOUND:
            parts = prover.lengths(found)
            if parts and (self.last_time is None or parts.store_timestamp >= self.last_time):
                return found
            found = prover.next_record(found + 1)
        return NOT_FOUND

    def _is_written(self, at: int) -> bool:
        walk = new_walk(self.read, self.segment, self.log.rules, NO_CHECKS)
        return any(bool(window.any()) for _, window in walk.windows(at, self.segment.end))

    def _skip(self, at: int, fault: Fault) -> None:
        ends_log = not self.log.is_written_from(self.part.segment + 1)
        if fault == Fault.ZEROS and ends_log and not self._is_written(at):
            return
        left = self.segment.end - at
        self.tell(f"{self._where(at, fault)}; {left:,} bytes up to the segment's end are left out")

    def _skip_rows(self, step: Step) -> None:
        assert step.wrong is not None
        for number in np.flatnonzero(step.wrong).tolist():
            place, fault = int(step.rows["physicalOffset"][number]), Fault(step.wrong[number])
            self.tell(f"{self._where(place, fault)}; the record is left out")

    def _live(self) -> Iterator[Step]:
        """The part's live records, as `reput rebuild --on-damage salvage` has them."""
        part, judged_to = self.part, self.log.judged_to
        if part.start < judged_to:
            stop = min(part.stop, judged_to)
            yield from self._within(self.log.live.get(self.segment.start), part.start, stop)
        if part.stop > judged_to:
            if part.start < judged_to:  # there a record begins
                self.part = part._replace(known=judged_to, start=judged_to)
            live = None if self.walked()[0] else self.live_stretches()
            yield from self._within(live, self.part.start, part.stop)
        if part.stop >= self.segment.end:
            self._tell_hole()

    def _within(self, live: Stretches | None, begin: int, end: int) -> Iterator[Step]:
        """The records of [begin, end) in live stretches, None for all; tells what is lost there."""
        if live is None:
            yield from self._records(self.part.known, begin, end)
            return
        at = self.segment.start
        for start, stop in live:
            if begin <= at < min(start, end):
                self.tell(f"{self.segment.path}: physical {at}: {start - at:,} bytes left out")
            at = stop
            if start < end and begin < stop:
                yield from self._records(start, max(start, begin), min(stop, end))

    def _tell_hole(self) -> None:
        """Tell what is missing between the segment's file and the next one."""
        end, following = self.segment.end, self.part.segment + 1
        later = next((s.start for s in self.log.segments[following : following + 1]), end)
        if end < later and self.log.is_written_from(following):
            missing = f"{later - end:,} bytes up to physical {later} are missing"
            self.tell(f"{self.segment.path}: physical {end}: {missing}")

    def walked(self) -> tuple[bool, End]:
        """Whether the segment's chain of records does not break, and what was walked.

        All parts of a segment get the same answer, so the rows do not depend on the cuts. A part of
        a stream, which begins within a segment, asks only up to its own end: what follows is still
        being written.
        """
        part, segment = self.part, self.segment
        stop = segment.end if part.known == segment.start else part.stop
        checks = Checks(
            property=self.log.rules.check_property_crc,
            split_properties=self.log.rules.dispatch.split_properties,
        )
        at, fault, end = part.known, Fault.NONE, End()
        for step in self._walk(checks).steps(part.known, stop):
            at, fault = step.next, step.fault
            end.count(step.rows)
        if fault == Fault.ZEROS:
            later = part.segment + 1
            return not self._is_written(at) and not self.log.is_written_from(later), end
        if fault == Fault.BLANK:
            return self._is_whole_blank(at), end
        return fault == Fault.NONE and (at != segment.end or self.log.storage.back_to_back), end

    def live_stretches(self, given: tuple[Given, ...] = ()) -> Stretches:
        """The segment's live stretches. given: what is said of its pieces already."""
        log, number = self.log, self.part.segment
        queues: dict[tuple[str, int], NextOffset] | None = None

        def known(topic: str, queue_id: int) -> NextOffset | None:
            nonlocal queues
            queues = log.queues_before(number) if queues is None else queues
            return queues.get((topic, queue_id))

        ends_log = not log.is_written_from(number + 1)
        before = Before(log.last_time(number), known, ends_log, given)
        found = TolerantScan(self.read, self.segment.start, self.segment.end, log.rules, before)
        lost: list[tuple[int, int]] = []
        for part in found.run():
            if isinstance(part, Damage) and part.kind != DamageKind.CONTENT:
                lost.append((part.offset, part.end))
            elif isinstance(part, Ranges):
                rows = part.rows[part.rows["kind"] != KINDS.index(DamageKind.CONTENT)]
                lost += zip(rows["offset"].tolist(), rows["end"].tolist(), strict=True)
            elif isinstance(part, End) and part.fault == Fault.ZEROS and not ends_log:
                lost.append((part.next, self.segment.end))
        return live_of(self.segment, lost, found.live.end, ends_log)


# ---
# The live records after damage in a segment, for commands that count them as the check does.


def live_behind(
    storage: InputStorage, segments: Sequence[Segment], profile: Profile, settings: Settings,
    batch_topics: Sequence[str], limit: int | None = None,
) -> LiveBehind:  # fmt: skip
    """A function that gives a segment's live records from an offset on, past damage, to `limit`.

    A broker may be writing to the log.
    """
    rules = replace(
        scan_rules(profile, settings, tuple(batch_topics), heads_from=heads_from(segments)),
        check_property_crc=profile.property_crc,
    )
    log: LogParts | None = None  # judged when it is first asked, as most logs are not damaged

    def behind(place: int) -> Iterator[Step]:
        nonlocal log
        if log is None:
            log = LogParts(storage, tuple(may_grow(list(segments), -1)), rules, SALVAGE)
            log = log.judged(segments[-1].end)
        number = next(n for n, s in enumerate(log.segments) if s.start <= place < s.end)
        segment = log.segments[number]
        stop = segment.end if limit is None else min(segment.end, limit)
        return log.steps(LogPart(number, segment.start, place, stop), lambda _: None)

    return behind
