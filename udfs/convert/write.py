"""Writes the segments of a new log from records of old ones, and dispatches these."""

from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format.dispatch.scan import End, IndexPuts, Outputs, Runs, ScanRules
from reput.store_format.faults import Fault, StoreChanged
from reput.store_format.files.protocol import Storage, Writer
from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.layouts import DLEDGER_HEAD_BYTES
from reput.store_format.log.records import RECORD_ROW, Bytes, Rows, head_bytes, walk
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import NO_CHECKS, Walk, most_rows
from reput.store_format.message.encode import blank
from reput.store_format.rewrite import placing
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import RecordSelector, Selection
from reput.udfs.convert.measure import measured_order, measured_records
from reput.udfs.rebuild.scan import RunFiles, scan_buffers, scanned_row
from reput.udfs.staging import SCANNED, Staging, attempt_name, ids_of, read_range, scan_name

# ---
# Dispatches the records of a new segment while they are in memory.
#
# So the files derived from the new log need no second reading of it.

_STRETCH_BYTES = 16 << 20  # no split is shorter by itself: a measuring task's buffers fit here


class NewRecords:
    """The records of one new segment, which is one split: its SCANNED row, and its run files."""

    def __init__(
        self, staging: Staging, rules: ScanRules, number: int, start: int, segment_bytes: int,
        window_bytes: int,
    ) -> None:  # fmt: skip
        """number: the segment's, from 0 on; window_bytes: as in the measuring tasks' buffers."""
        self._number, self._rules, self._segment_end = number, rules, start + segment_bytes
        self._run = scan_name(number)
        self._files = RunFiles(staging, self._run, number)
        self._end = End(first=start, next=start)
        buffers = scan_buffers(min(segment_bytes, _STRETCH_BYTES), window_bytes)
        self._outputs = Outputs(rules, buffers, self._end)
        self._rows = np.zeros(0, RECORD_ROW)
        self._sequence = np.full(4, -1, np.int64)

    def put(self, window: Bytes, at: int) -> None:
        """Dispatch the records that fill a window, which begins at the physical offset `at`.

        It walks the bytes as a scan would, and stops at the first record that a scan would refuse.
        """
        if self._end.fault != Fault.NONE:
            return
        if len(self._rows) < most_rows(len(window)):
            self._rows = np.zeros(most_rows(len(window)), RECORD_ROW)
        length = len(window)
        count, stood, code = walk(
            window, 0, length, length, self._segment_end - at, at, self._rules.records,
            self._rows, self._sequence,
        )  # fmt: skip
        rows, fault = self._rows[:count], Fault(code)
        good, refused = self._dispatch(window, rows)
        if refused != Fault.NONE:
            stood, fault = int(rows["at"][good]), refused
        self._end.next = at + stood
        if fault != Fault.NONE:
            self._end.fault, self._end.rest_is_zero = fault, False
            size = window[stood : stood + 4].tobytes()
            self._end.size = int.from_bytes(size, "big", signed=True)

    def _dispatch(self, window: Bytes, rows: Any) -> tuple[int, Fault]:
        steps = self._outputs.dispatch(window, rows)
        while True:
            try:
                self._keep(next(steps))
            except StopIteration as done:
                good, fault = done.value
                return good, fault

    def _keep(self, part: IndexPuts | Runs) -> None:
        if isinstance(part, IndexPuts):
            self._files.add_puts(part)
        else:
            self._files.add_runs(part)

    def finish(self, last: bool) -> dict[str, Any]:
        """Complete the files; returns the SCANNED row. last: no later segment has a record."""
        end = self._end
        if end.fault == Fault.NONE:
            end.fault = Fault.ZEROS if last else Fault.BLANK
            if not last:
                end.next = self._segment_end
        for part in self._outputs.empty():
            self._keep(part)
        self._files.finish()
        return scanned_row(self._number, self._run, end, self._files)


# ---
# Which records of an old log go where in the new one, split by split.

# Files of a split whose records were ordered before: the new physical offset of each record, and
# the new queueOffset of each of its puts (-1: it keeps its own); int64.
PLACES, NUMBERS = ".places", ".numbers"
_SPLITS_HELD = 4


class Piece(NamedTuple):
    """A split of an old log, of which records are taken."""

    start: int  # the physical offset of the split in its log
    first: int  # physical offset of its first record that is taken
    run: str  # the name of its files in staging
    taken: int  # records
    at: int  # where the new log ends before the first of these records
    segment: Segment  # that the split is in
    longest: int  # bytes of the longest record, before or after


@dataclass(frozen=True)
class OldLog:
    """A log that is written anew: which records are taken, what changes. end: of its records."""

    storage: Storage
    rules: ScanRules
    changes: Changes
    pieces: tuple[Piece, ...]
    start: int
    end: int
    ordered: bool = False  # places and queueOffsets were worked out before, and are in staging


class Placed(NamedTuple):
    """The records of a piece.

    offsets: old physical offsets; places: new ones; sizes: new sizes, in bytes; own: new
    queueOffsets, -1 for a record that keeps its own; firsts: where the numbers of its puts begin;
    numbers: those of all puts of the piece.
    """

    offsets: placing.Numbers
    places: placing.Numbers
    sizes: placing.Numbers
    own: placing.Numbers
    firsts: placing.Numbers
    numbers: placing.Numbers

    def between(self, first: int, stop: int) -> "Placed":
        offsets, places, sizes, own, firsts = (each[first:stop] for each in self[:-1])
        return Placed(offsets, places, sizes, own, firsts, self.numbers)


class PlacedRecords:
    """Reads where the records of an old log go. Holds a few splits."""

    def __init__(self, staging: Staging, log: OldLog, segment_bytes: int) -> None:
        """segment_bytes: of the new log's segments."""
        self._staging, self._log, self._segment_bytes = staging, log, segment_bytes
        self._starts = np.array([piece.first for piece in log.pieces], np.int64)
        self._held: OrderedDict[int, Placed] = OrderedDict()

    def of(self, number: int) -> Placed:
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        piece = self._log.pieces[number]
        measured = measured_records(self._staging, piece.run, piece.taken)
        own, numbers = np.full(piece.taken, -1), np.empty(0, np.int64)
        if self._log.ordered:
            counts = measured_order(self._staging, piece.run, piece.taken)["puts"]
            places = self._column(piece.run + PLACES, piece.taken)
            numbers = self._column(piece.run + NUMBERS, int(counts.sum()))
            firsts = np.cumsum(counts) - counts
            own[counts > 0] = numbers[firsts[counts > 0]]
        else:
            places, _, _ = placed(measured, piece.at, self._segment_bytes)
            firsts = np.zeros(piece.taken, np.int64)
        offsets = measured["offset"].astype(np.int64) + piece.start
        sizes = measured["size"].astype(np.int64)
        found = Placed(offsets, places, sizes, own, firsts, numbers)
        self._held[number] = found
        if len(self._held) > _SPLITS_HELD:
            self._held.popitem(last=False)
        return found

    def _column(self, name: str, count: int) -> placing.Numbers:
        return read_range(self._staging, name, 0, 8 * count).view(np.int64)

    def links(self, offsets: placing.Numbers) -> placing.Numbers:
        """The new physical offsets for links, which are old ones. 0 is no link, and stays."""
        return np.where(offsets == 0, 0, self.found(offsets)[0])

    def from_on(self, offset: int) -> int | None:
        """The new physical offset of the first record that is taken from an old one on."""
        for number in range(
            max(int(self._starts.searchsorted(offset, "right")) - 1, 0), len(self._starts)
        ):
            records = self.of(number)
            at = int(records.offsets.searchsorted(offset))
            if at < len(records.offsets):
                return int(records.places[at])
        return None

    def found(self, offsets: placing.Numbers) -> tuple[placing.Numbers, placing.Numbers]:
        """The new physical offsets for old ones, and the new size of each record.

        An offset out of the log, as of an expired record, stays. One at which no record is that is
        taken becomes 0. In both cases the size is 0.
        """
        places, sizes = offsets.copy(), np.zeros(len(offsets), np.int64)
        log = self._log
        asked = np.flatnonzero((offsets >= log.start) & (offsets < log.end))
        numbers = np.searchsorted(self._starts, offsets[asked], "right") - 1
        places[asked] = 0
        for number in np.unique(numbers[numbers >= 0]).tolist():
            records = self.of(number)
            some = asked[numbers == number]
            at = np.searchsorted(records.offsets, offsets[some])
            at = np.minimum(at, len(records.offsets) - 1)
            hit = records.offsets[at] == offsets[some]
            places[some[hit]], sizes[some[hit]] = records.places[at[hit]], records.sizes[at[hit]]
        return places, sizes


def placed(
    measured: Any, at: int, segment_bytes: int
) -> tuple[placing.Numbers, placing.Numbers, int]:
    """(new physical offsets of MEASURED_RECORD rows, indices of those that begin a segment, where
    the last one ends). at: where the new log ends before the first.
    """
    places = np.empty(len(measured), np.int64)
    begins = np.empty(len(measured), np.int64)
    end, count = placing.place(measured["size"], at, segment_bytes, places, begins)
    return places, begins[:count], end


# ---
# Writes the segments of a new log from the records of one old log, or of several.

_CHUNK_BYTES = 1 << 20

# One row for each segment of the new log: a SCANNED row with the segment's file.
SEGMENT_WRITTEN = SCANNED
for _name, _kind in (
    ("start", pa.int64()),
    ("name", pa.string()),  # in staging
    ("length", pa.int64()),
):
    SEGMENT_WRITTEN = SEGMENT_WRITTEN.append(pa.field(_name, _kind))


class Part(NamedTuple):
    """The records of an old log for one new segment: from record `first` of `first_piece` to before
    record `stop` of `last_piece`.
    """

    log: int
    first_piece: int
    first: int
    last_piece: int
    stop: int


class NewSegment(NamedTuple):
    """A segment of the new log. last: no record follows in a later segment."""

    start: int
    parts: tuple[Part, ...]
    last: bool


@dataclass(frozen=True)
class WriteSegments:
    """Writes those of `segments` whose indices arrive in the column `id`."""

    staging: Staging
    logs: tuple[OldLog, ...]
    segments: tuple[NewSegment, ...]
    segment_bytes: int
    rules: ScanRules  # of the new log, by which its records are dispatched

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            row = self._write(number)
            yield pa.RecordBatch.from_pylist([row], SEGMENT_WRITTEN)

    def _write(self, number: int) -> dict[str, Any]:
        segment = self.segments[number]
        name = attempt_name("segment")
        output = self.staging.storage.create(self.staging.path(name), published=True)
        records = NewRecords(
            self.staging, self.rules, number, segment.start, self.segment_bytes,
            self.logs[0].storage.window_bytes,
        )  # fmt: skip
        streams = [_Stream(self, part) for part in segment.parts]
        with closing(_Streams(streams)):
            at = self._copy(streams, segment.start, output, records)
        end = segment.start + self.segment_bytes
        if not segment.last:
            output.write(blank(end - at))
        output.finish(self.segment_bytes)
        return {
            **records.finish(segment.last), "start": segment.start, "name": name,
            "length": self.segment_bytes,
        }  # fmt: skip

    def _copy(self, streams: list["_Stream"], at: int, output: Writer, records: NewRecords) -> int:
        """Write all records of the streams, by their new places. Returns where the last ends."""
        chunk = _Chunk(np.empty(_CHUNK_BYTES, np.uint8))
        while True:
            chunk.base = chunk.end = at
            for stream in streams:
                stream.fill(chunk, at + _CHUNK_BYTES)
            if chunk.end == at:
                return at
            made = chunk.out[: chunk.end - at]
            output.write(made)
            records.put(made, at)
            at = chunk.end


class _Chunk:
    """A stretch of the new log in memory; `out` grows where a record reaches past it."""

    def __init__(self, out: Bytes) -> None:
        self.out, self.base, self.end = out, 0, 0

    def reserve(self, end: int) -> None:
        self.end = max(self.end, end)
        if end - self.base > len(self.out):
            larger = np.empty(end - self.base, np.uint8)
            larger[: len(self.out)] = self.out
            self.out = larger


class _Streams(NamedTuple):
    streams: list["_Stream"]

    def close(self) -> None:
        for stream in self.streams:
            stream.steps.close()


class _Rows(NamedTuple):
    """Some rows of a window that are taken, and where they go."""

    window: Bytes
    rows: Rows
    selection: Selection | None  # None if only places change
    placed: Placed


class _Stream:
    """The records that one old log gives to a segment."""

    def __init__(self, task: WriteSegments, part: Part) -> None:
        self.log = task.logs[part.log]
        self._part = part
        self._records = PlacedRecords(task.staging, self.log, task.segment_bytes)
        changes = self.log.changes
        self._selector = None if changes.keeps_sizes else RecordSelector(changes, self.log.rules)
        self._host = np.frombuffer(changes.store_host, np.uint8)
        self.steps = self._all_steps()
        self._rows: _Rows | None = None
        self._done = 0

    def fill(self, chunk: _Chunk, stop: int) -> None:
        while True:
            if self._rows is None:
                self._rows, self._done = next(self.steps, None), 0
                if self._rows is None:
                    return
            begin, places = self._done, self._rows.placed.places
            end = int(np.searchsorted(places, stop))
            if end > begin:
                self._put(self._rows, begin, end, chunk)
                self._done = end
            if self._done < len(places):
                return
            self._rows = None

    def _put(self, some: _Rows, begin: int, end: int, chunk: _Chunk) -> None:
        rows, places = some.rows[begin:end], some.placed.places[begin:end]
        chunk.reserve(int(places[-1] + some.placed.sizes[end - 1]))
        prepared = np.empty(len(rows), np.int64)
        links = placing.prepared_offsets(some.window, rows, prepared)
        if links:
            prepared = self._records.links(prepared)
        if some.selection is not None:
            part = some.placed.between(begin, end)
            offsets = np.where(part.own < 0, rows["queueOffset"], part.own)
            to = placing.To(places, offsets, prepared, part.firsts, part.numbers)
            assert self._selector is not None
            alike = placing.Alike(
                self._selector.decided, self._selector.names, self._host,
                self.log.rules.records.ipv6_hosts, self.log.changes.digits,
            )  # fmt: skip
            selection = some.selection.of(slice(begin, end))
            placing.rewrite(some.window, rows, selection, to, alike, chunk.out, chunk.base)
            return
        length = int(rows["at"][-1] + rows["size"][-1] - rows["at"][0])
        if places[-1] - places[0] == rows["at"][-1] - rows["at"][0]:
            at = int(places[0]) - chunk.base
            first = int(rows["at"][0])
            chunk.out[at : at + length] = some.window[first : first + length]
        else:
            placing.copy_rows(some.window, rows, places, chunk.out, chunk.base)
        placing.stamp(chunk.out, chunk.base, rows, places, prepared if links else prepared[:0])

    def _all_steps(self) -> Generator[_Rows, None, None]:
        part = self._part
        window = np.empty(0, np.uint8)
        for number in range(part.first_piece, part.last_piece + 1):
            piece = self.log.pieces[number]
            first = part.first if number == part.first_piece else 0
            stop = part.stop if number == part.last_piece else piece.taken
            if first == stop:
                continue
            least = max(
                piece.longest + DLEDGER_HEAD_BYTES, min(self.log.storage.window_bytes, _CHUNK_BYTES)
            )
            if len(window) < least:
                window = np.empty(least, np.uint8)
                room = np.zeros(most_rows(least), RECORD_ROW)
            placed = self._records.of(number).between(first, stop)
            yield from self._steps(piece, placed, window, room)

    def _steps(self, piece: Piece, placed: Placed, window: Bytes, room: Rows) -> Iterator[_Rows]:
        """Walk the records of one piece that go into the segment."""
        segment = piece.segment
        head = head_bytes(segment.end, self.log.rules.records)
        at, stop = int(placed.offsets[0]) - head, int(placed.offsets[-1]) + 1
        reader = open_ahead(
            self.log.storage, segment.path, segment.state, at - segment.start,
            stop - segment.start + len(window), self.log.end - self.log.start,
        )  # fmt: skip
        done = 0
        with closing(reader):
            walk = Walk(
                segment.read_by(reader), segment.end, self.log.rules.records, NO_CHECKS, window,
                room,
            )  # fmt: skip
            for step in walk.steps(at, stop):
                if step.fault not in (Fault.NONE, Fault.BLANK):
                    break
                for rows, selection in self._taken(step.window, step.rows, placed.offsets[done:]):
                    some = placed.between(done, done + len(rows))
                    if not np.array_equal(rows["physicalOffset"], some.offsets):
                        break
                    if selection is not None and not np.array_equal(selection.sizes, some.sizes):
                        break
                    done += len(rows)
                    if len(rows):
                        yield _Rows(step.window, rows, selection, some)
        if done < len(placed.offsets):
            raise StoreChanged(
                f"{segment.path}: changed during the conversion: its records after physical "
                f"offset {int(placed.offsets[done])} are others"
            )

    def _taken(
        self, window: Bytes, rows: Rows, offsets: placing.Numbers
    ) -> Iterator[tuple[Rows, Selection | None]]:
        """The rows that are taken: those whose physicalOffset is among `offsets`."""
        if self._selector is None:
            yield rows, None
            return
        for selection, some in self._selector.select(window, rows):
            kept = np.flatnonzero(np.isin(some["physicalOffset"], offsets[: len(rows)]))
            if len(kept) == len(some):
                yield some, selection
            else:
                yield some[kept], selection.of(kept)
