"""`LogReader`: a log's records as values, the one at a physical offset or all from an offset on;
and the log as `Files`.

It reads from any storage, over all segments of a log, which may lie in several folders. It holds
one window of the log; a body is only read when it is asked for. One record alone is read without
numba, which takes longer to load than a whole query may take; the walk is loaded at its first use.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from reput.store_format import layouts
from reput.store_format.faults import REASONS, Fault, StoreError
from reput.store_format.files.protocol import Bytes, Files, InputStorage, OpenFile, Reader
from reput.store_format.log.record import Read, read_body, read_one, record_from
from reput.store_format.log.record import Record as Record
from reput.store_format.log.rules import (
    NO_CHECKS,
    Checks,
    RecordRules,
    entry,
    head_bytes,
    store_timestamp_at,
)
from reput.store_format.log.segments import Segment
from reput.store_format.names import COMMIT_LOG, segment_name

if TYPE_CHECKING:
    from reput.store_format.log.walk import Buffers, Step, Walk

_OPEN_FILES = 8
_ONE_SHARE = 256  # this part of a window is read at first for one record,
_ONE_LEAST = 1 << 12  # but no fewer bytes than this


LiveBehind = Callable[[int], Iterable["Step"]]  # live records after a break, in its segment


class NoRecord(StoreError):
    """No sound record stands where one was asked for, or where the next one should start."""

    def __init__(self, path: str, place: int, offset: int, fault: Fault, size: int) -> None:
        """place: the physical offset; offset: the same in the file; size: the totalSize there."""
        self.path, self.place, self.offset, self.fault, self.size = path, place, offset, fault, size
        self.field, self.reason = REASONS.get(fault, ("totalSize", "a BLANK: the segment's end"))
        super().__init__(
            f"{path}: offset {offset} (physical {place}): {self.field}: {self.reason} "
            f"(totalSize {size})"
        )


class NotInLog(StoreError):
    """No segment has this physical offset: it has expired, or is past the log's end."""

    def __init__(self, place: int, start: int, end: int) -> None:
        self.place, self.start, self.end = place, start, end
        super().__init__(f"physical offset {place} is not in the log, [{start}, {end})")


def record_of(step: "Step", number: int, rules: RecordRules) -> Record:
    """Row `number` of a step as a value."""
    return record_from(step.window.data, step.rows[number].item(), rules)


def records_of(step: "Step", numbers: Any, rules: RecordRules) -> Iterator[Record]:
    """The rows of these numbers as values, much faster than one by one."""
    window = step.window.data
    for row in step.rows[numbers].tolist():
        yield record_from(window, row, rules)


def late_records_of(window: Bytes, rows: Any, rules: RecordRules) -> Iterator[Callable[[], Record]]:
    """Records of a window, each as a function that parses its bytes, which are kept until then.

    rows: RECORD_ROWs of records that are whole in the window.
    """
    held, rows = window.data, rows.copy()
    ats, ends = rows["at"].copy(), rows["at"] + rows["size"]
    for name in ("at", "bodyAt", "topicAt", "propertiesAt"):
        rows[name] -= ats
    for number, (at, end) in enumerate(zip(ats.tolist(), ends.tolist(), strict=True)):
        yield partial(_late_record, bytes(held[at:end]), rows, number, rules)


def _late_record(raw: bytes, rows: Any, number: int, rules: RecordRules) -> Record:
    return record_from(raw, rows[number].item(), rules)


class LogReader:
    """Reads one log and keeps a few segments open. `close` raises if one of them has changed."""

    def __init__(
        self,
        storage: InputStorage,
        segments: list[Segment],
        rules: RecordRules,
        checks: Checks = NO_CHECKS,
        end: int | None = None,
    ) -> None:
        """segments: in order, as find_segments returns them; checks: the CRCs that are compared;
        end: where the log ended at an earlier look, so that a whole answer is of that moment.
        """
        self._end = end
        self.storage, self.segments = storage, segments
        self.rules, self.checks = rules, checks
        self._starts = [segment.start for segment in segments]
        self._open: OrderedDict[int, Reader] = OrderedDict()

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def start(self) -> int:
        """The log's smallest physical offset."""
        return self.segments[0].start

    @property
    def end(self) -> int:
        """Where the last segment ends, or as given; the last record may end earlier."""
        return self.segments[-1].end if self._end is None else self._end

    def segment_at(self, place: int) -> Segment:
        """The segment that holds a physical offset. Raises NotInLog."""
        number = bisect_right(self._starts, place) - 1
        if number < 0 or place >= self.segments[number].end:
            if not self.segments:
                raise NotInLog(place, 0, 0)
            raise NotInLog(place, self.start, self.end)
        return self.segments[number]

    def start_of(self, place: int) -> int:
        """Where a walk reads the record at `place`: there, or at its head. Raises NotInLog."""
        return place - head_bytes(self.segment_at(place).end, self.rules)

    def read_into(self, place: int, buffer: Bytes) -> None:
        """Fill the buffer from a physical offset; it may not reach past the segment's end."""
        self._read(self.segment_at(place), place, buffer)

    def record_at(self, place: int) -> Record:
        """The record that stands at a physical offset. Raises NoRecord, NotInLog."""
        segment = self.segment_at(place)
        ahead = max(self.storage.window_bytes // _ONE_SHARE, _ONE_LEAST)
        if self.checks == NO_CHECKS:
            read = partial(self._read, segment)
            fault, record = read_one(read, place, segment.end, self.rules, ahead)
            if record is not None:
                return record
            raise self._no_record(segment, place, fault)
        fault = Fault.ZEROS
        start = self.start_of(place)
        for step in self._walk(segment, ahead).steps(start, start + 1):
            if len(step.rows):
                return record_of(step, 0, self.rules)
            fault = step.fault
        raise self._no_record(segment, place, fault)

    def record_from(self, start: int) -> Record:
        """The record that a walk reads at `start` (see start_of). Raises NoRecord, NotInLog."""
        segment = self.segment_at(start)
        head = head_bytes(segment.end, self.rules)
        if head:
            raw = np.zeros(head + layouts.BLANK_BYTES, np.uint8)[: segment.end - start]
            self._read(segment, start, raw)
            window = raw.tobytes()
            fault, _ = entry(window, 0, len(window), segment.end - start, start, self.rules)
            if fault != Fault.NONE:
                raise self._no_record(segment, start, Fault(fault))
        return self.record_at(start + head)

    def records(self, place: int, stop: int | None = None) -> Iterator[Record]:
        """The records from the one at `place` on that start before `stop`; see `steps`."""
        for step in self.steps(place, stop):
            yield from records_of(step, slice(None), self.rules)

    def steps(
        self, place: int, stop: int | None = None, another: "Callable[[], Buffers] | None" = None
    ) -> Iterator["Step"]:
        """The records that start before `stop`, a window at a time, with fields in `Step.rows`.

        place: see `start_of`. A step is valid until the next one; or longer, if each is read
        into `another` buffers.

        Ends at `stop` or at the log's end, which is where zeros begin and all later segments are
        zeros. Raises NoRecord where the records break off in another way, and NotInLog where no
        segment has the offset `place`.
        """
        stop = self.end if stop is None else stop
        segment = self.segment_at(place)
        buffers = None if another is None else another()
        for number in range(self.segments.index(segment), len(self.segments)):
            segment = self.segments[number]
            fault, at = Fault.NONE, max(place, segment.start)
            if at >= stop:
                return
            walk = self._walk(segment, self.storage.window_bytes)
            if buffers is not None:
                walk.use(buffers)
            for step in walk.steps(at, min(stop, segment.end)):
                if len(step.rows):
                    yield step
                    if another is not None:
                        buffers = another()
                        walk.use(buffers)
                at, fault = step.next, step.fault
            if fault == Fault.ZEROS and self.is_zero_from(segment.end):
                return
            if fault not in (Fault.NONE, Fault.BLANK):
                raise self._no_record(segment, at, fault)

    def steps_past_damage(
        self, found: Callable[[NoRecord], None], behind: "LiveBehind | None" = None
    ) -> Iterator["Step"]:
        """The whole log's steps, also after a place where its records break off.

        found: called with each such place; behind: gives the live records after it in its segment.
        Without it the log is read on from the next segment. It also says what is live of a segment
        from a record on that is older than the one before: it may be of an older life of the log.
        """
        at, last = self.start, -1 << 63  # storeTimestamp of the last record
        while at < self.end:
            older = None  # where such a record is
            try:
                for step in self.steps(at):
                    if len(step.rows):
                        times = np.concatenate(([last], step.rows["storeTimestamp"]))
                        falls = np.flatnonzero(times[1:] < times[:-1])
                        if behind is not None and len(falls):
                            older = step.start(int(falls[0]))
                            yield step._replace(rows=step.rows[: falls[0]], next=older)
                            break
                        last = int(times[-1])
                    yield step
                if older is None:
                    return
                for _ in self.steps(older, self.segment_at(older).end):
                    pass  # up to its first break
            except NoRecord as error:
                found(error)
                at = error.place
            at = at if older is None else older
            for step in () if behind is None else behind(at):
                last = int(step.rows["storeTimestamp"][-1]) if len(step.rows) else last
                yield step
            at = self.next_start(at)

    def next_start(self, place: int) -> int:
        """Where the segment after that of a physical offset starts; the log's end after the last.

        It may start later than that of `place` ends: a file may be short, or missing.
        """
        number = bisect_right(self._starts, place)
        return self._starts[number] if number < len(self._starts) else self.end

    def hole_end(self) -> int:
        """Where the log's last hole ends, a missing or short segment; 0 without one."""
        pairs = pairwise(self.segments)
        return max((later.start for each, later in pairs if each.end < later.start), default=0)

    def body(self, record: Record) -> bytes:
        """The record's body, as it stands in the log (it may be compressed)."""
        return read_body(self.read_into, record)

    def store_timestamp(self, place: int, size: int) -> int:
        """StoreTimestamp (milliseconds) of the record that by its queue entry is at
        [place, place + size); -1 where the log does not have these bytes. Nothing else is read or
        checked (CommitLog.pickupStoreTimestamp).
        """
        try:
            segment = self.segment_at(place)
        except NotInLog:
            return -1
        if size < layouts.RECORD_FIXED_BYTES or place + size > segment.end:
            return -1
        head = np.empty(layouts.RECORD_FIXED_BYTES, np.uint8)
        self.read_into(place, head)
        raw = head.tobytes()
        sys_flag = int.from_bytes(
            raw[layouts.RECORD_AT.sysFlag : layouts.RECORD_AT.sysFlag + 4], "big"
        )
        at = int(store_timestamp_at(sys_flag, self.rules))
        return int.from_bytes(raw[at : at + layouts.TIMESTAMP_BYTES], "big", signed=True)

    def close(self) -> None:
        """Close all files. Raises StoreChanged where one was changed meanwhile."""
        while self._open:
            self._open.popitem()[1].close()

    def _walk(self, segment: Segment, window_bytes: int) -> "Walk":
        from reput.store_format.log.walk import Walk

        read = partial(self._read, segment)
        buffer = np.empty(min(window_bytes, segment.state.size), np.uint8)
        return Walk(read, segment.end, self.rules, self.checks, buffer)

    def _read(self, segment: Segment, place: int, buffer: Bytes) -> None:
        self.reader(segment).read_into(place - segment.start, buffer)

    def reader(self, segment: Segment) -> Reader:
        """The segment's file, which stays open until some others have been opened."""
        reader = self._open.get(segment.start)
        if reader is None:
            reader = self.storage.open(segment.path, segment.state)
            self._open[segment.start] = reader
            if len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        return reader

    def is_zero_from(self, place: int) -> bool:
        """Whether every segment that starts at this physical offset or after begins with zeros."""
        head = np.zeros(layouts.RECORD_HEAD_BYTES, np.uint8)
        for segment in self.segments[bisect_left(self._starts, place) :]:
            self.read_into(segment.start, head[: segment.state.size])
            if head.any():
                return False
        return True

    def _no_record(self, segment: Segment, place: int, fault: Fault) -> NoRecord:
        head = np.zeros(4, np.uint8)
        self.read_into(place, head[: segment.end - place])
        size = int.from_bytes(head.tobytes(), "big", signed=True)
        return NoRecord(segment.path, place, place - segment.start, fault, size)


# ---
# A plan's segments on any storage as `Files`, for code that reads a log like a writer.


class LogBytes:
    """Reads a log's segments by physical offset; one file is open at a time."""

    def __init__(self, files: Files, segment_bytes: int) -> None:
        self._files, self._segment_bytes = files, segment_bytes
        self._segment = -1
        self._file: OpenFile | None = None

    def read(self, at: int, buffer: Bytes) -> None:
        """Fill the buffer with the bytes at a physical offset; all lie in one segment."""
        segment = at - at % self._segment_bytes
        file = self._file
        if file is None or segment != self._segment:
            self.close()
            file = self._file = self._files.open_read(f"{COMMIT_LOG}/{segment_name(segment)}")
            self._segment = segment
        file.read_at(at - segment, buffer)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def segment_files(
    storage: InputStorage, segments: list[Segment], segment_bytes: int, growing: Files | None = None
) -> Files:
    """Segments on any storage, to be read only; `names`, `open_read` are all that these files have.

    An incomplete last segment, like one being copied, reads as if zeros followed. growing: the
    store's files, if segments may grow while they are read; else None.
    """
    return cast(Files, _SegmentFiles(storage, segments, segment_bytes, growing))


class _SegmentFiles:
    def __init__(
        self, storage: InputStorage, segments: list[Segment], segment_bytes: int,
        growing: Files | None,
    ) -> None:  # fmt: skip
        self._storage, self._segment_bytes, self._growing = storage, segment_bytes, growing
        self._segments = {f"{COMMIT_LOG}/{segment_name(s.start)}": s for s in segments}

    def names(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self._segments] if folder == COMMIT_LOG else []

    def open_read(self, path: str) -> "_LogFile":
        segment = self._segments[path]
        if self._growing is not None:
            file = self._growing.open_read(path)
            return _LogFile(file.read_at, file.close, segment.state.size, self._segment_bytes)
        reader = self._storage.open(segment.path, segment.state)
        return _LogFile(reader.read_into, reader.close, segment.state.size, self._segment_bytes)


class _LogFile:
    """One segment as a read-only OpenFile."""

    def __init__(
        self, read: Read, close: Callable[[], None], size: int, segment_bytes: int
    ) -> None:
        """size: bytes of the segment that exist."""
        self._read, self._close = read, close
        self._size, self._segment_bytes = size, segment_bytes

    def read_at(self, at: int, buffer: Bytes) -> None:
        there = max(min(self._size - at, len(buffer)), 0)
        if there:
            self._read(at, buffer[:there])
        buffer[there:] = 0

    def length(self) -> int:
        return self._segment_bytes

    def close(self) -> None:
        self._close()
