"""Writes the segments of a new log from the records of one old log, or of several."""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import Fault, StoreChanged
from reput.store_format.files.protocol import Writer
from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.layouts import DLEDGER_HEAD_BYTES
from reput.store_format.log.records import RECORD_ROW, Bytes, Rows, head_bytes
from reput.store_format.log.walk import NO_CHECKS, Walk, most_rows
from reput.store_format.message.encode import blank
from reput.store_format.rewrite.placing import (
    Alike,
    Numbers,
    To,
    copy_rows,
    prepared_offsets,
    rewrite,
    stamp,
)
from reput.store_format.rewrite.selection import Looked, Looks
from reput.udfs.convert.new_records import NewRecords
from reput.udfs.convert.placed_records import OldLog, Piece, Placed, PlacedRecords
from reput.udfs.staging import SCANNED, Staging, attempt_name, ids_of

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
        """Have room up to the place `end`."""
        self.end = max(self.end, end)
        if end - self.base > len(self.out):
            larger = np.empty(end - self.base, np.uint8)
            larger[: len(self.out)] = self.out
            self.out = larger


class _Streams(NamedTuple):
    """Streams to close together."""

    streams: list["_Stream"]

    def close(self) -> None:
        for stream in self.streams:
            stream.steps.close()


class _Rows(NamedTuple):
    """Some rows of a window that are taken, and where they go."""

    window: Bytes
    rows: Rows
    looked: Looked | None  # None if only places change
    placed: Placed


class _Stream:
    """The records that one old log gives to a segment."""

    def __init__(self, task: WriteSegments, part: Part) -> None:
        self.log = task.logs[part.log]
        self._part = part
        self._records = PlacedRecords(task.staging, self.log, task.segment_bytes)
        changes = self.log.changes
        self._looks = (
            None
            if changes.keeps_sizes
            else Looks(changes, self.log.rules, self.log.split_properties)
        )
        self._host = np.frombuffer(changes.store_host, np.uint8)
        self.steps = self._all_steps()
        self._rows: _Rows | None = None
        self._done = 0

    def fill(self, chunk: _Chunk, stop: int) -> None:
        """Put the records whose places are before `stop` into a chunk."""
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
        links = prepared_offsets(some.window, rows, prepared)
        if links:
            prepared = self._records.links(prepared)
        if some.looked is not None:
            numbers = some.placed.numbers[begin:end]
            offsets = np.where(numbers < 0, rows["queueOffset"], numbers)
            to = To(places, offsets, prepared)
            assert self._looks is not None
            alike = Alike(
                self._looks.decided, self._looks.names, self._host, self.log.rules.ipv6_hosts
            )
            looked = some.looked.of(slice(begin, end))
            rewrite(some.window, rows, looked, to, alike, chunk.out, chunk.base)
            return
        length = int(rows["at"][-1] + rows["size"][-1] - rows["at"][0])
        if places[-1] - places[0] == rows["at"][-1] - rows["at"][0]:
            at = int(places[0]) - chunk.base
            first = int(rows["at"][0])
            chunk.out[at : at + length] = some.window[first : first + length]
        else:
            copy_rows(some.window, rows, places, chunk.out, chunk.base)
        stamp(chunk.out, chunk.base, rows, places, prepared if links else prepared[:0])

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
        head = head_bytes(segment.end, self.log.rules)
        at, stop = int(placed.offsets[0]) - head, int(placed.offsets[-1]) + 1
        reader = open_ahead(
            self.log.storage, segment.path, segment.state, at - segment.start,
            stop - segment.start + len(window), self.log.end - self.log.start,
        )  # fmt: skip
        done = 0
        with closing(reader):
            walk = Walk(
                segment.read_by(reader), segment.end, self.log.rules, NO_CHECKS, window, room
            )
            for step in walk.steps(at, stop):
                if step.fault not in (Fault.NONE, Fault.BLANK):
                    break
                for rows, looked in self._taken(step.window, step.rows, placed.offsets[done:]):
                    some = placed.between(done, done + len(rows))
                    if not np.array_equal(rows["physicalOffset"], some.offsets):
                        break
                    if looked is not None and not np.array_equal(looked.sizes, some.sizes):
                        break
                    done += len(rows)
                    if len(rows):
                        yield _Rows(step.window, rows, looked, some)
        if done < len(placed.offsets):
            raise StoreChanged(
                f"{segment.path}: changed during the conversion: its records after physical "
                f"offset {int(placed.offsets[done])} are others"
            )

    def _taken(
        self, window: Bytes, rows: Rows, offsets: Numbers
    ) -> Iterator[tuple[Rows, Looked | None]]:
        """The rows that are taken: those whose physicalOffset is among `offsets`."""
        if self._looks is None:
            yield rows, None
            return
        for looked, some in self._looks.look(window, rows):
            kept = np.flatnonzero(np.isin(some["physicalOffset"], offsets[: len(rows)]))
            if len(kept) == len(some):
                yield some, looked
            else:
                yield some[kept], looked.of(kept)
