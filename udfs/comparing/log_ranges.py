"""Compares ranges of logs byte by byte.

A task is given numbers of groups of pieces, and yields a row for each log that differs from the
first log in a piece. A piece of each log is read once, a window at a time, and not kept: a checksum
would tell less and cost more than comparing.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.kernels.bytes import Bytes, first_unlike
from reput.store_format.log.record import Read
from reput.udfs.staging import ids_of, in_batches, schema
from reput.udfs.table.log_parts import LogParts

_WINDOW_MOST = 8 << 20

# One row for each piece and log that differs from the first log; physical offsets.
UNLIKE = schema(
    log=pa.int32(),  # its number among the logs
    start=pa.int64(),  # of the piece
    first=pa.int64(),  # the first byte that differs
    last=pa.int64(),  # the end of the last window that differs
)
Row = dict[str, int]


class ComparedPiece(NamedTuple):
    """The bytes [start, end) that lie in one segment of the first log and of each of `logs`."""

    start: int
    end: int
    logs: tuple[int, ...]


@dataclass(frozen=True)
class CompareRanges:
    """Turns numbers of groups of pieces into UNLIKE rows.

    groups: where in `pieces` each group starts. Raises StoreChanged, OSError.
    """

    logs: tuple[LogParts, ...]
    pieces: tuple[ComparedPiece, ...]
    groups: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return in_batches(self._rows(batches), UNLIKE)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        ends = (*self.groups[1:], len(self.pieces))
        window = min(max(log.storage.window_bytes for log in self.logs), _WINDOW_MOST)
        buffers = np.empty(window, np.uint8), np.empty(window, np.uint8)
        for group in ids_of(batches):
            for piece in self.pieces[self.groups[group] : ends[group]]:
                yield from self._unlike(piece, buffers)

    def _unlike(self, piece: ComparedPiece, buffers: tuple[Bytes, Bytes]) -> list[Row]:
        found: dict[int, Row] = {}
        ours, theirs = buffers
        with ExitStack() as stack:
            read = self._open(0, piece, stack)
            others = {number: self._open(number, piece, stack) for number in piece.logs}
            for at in range(piece.start, piece.end, len(ours)):
                length = min(len(ours), piece.end - at)
                read(at, ours[:length])
                for number, other in others.items():
                    other(at, theirs[:length])
                    place = first_unlike(ours, theirs, length)
                    if place < length:
                        first = {"log": number, "start": piece.start, "first": at + place}
                        found.setdefault(number, first)["last"] = at + length
        return list(found.values())

    def _open(self, number: int, piece: ComparedPiece, stack: ExitStack) -> Read:
        log = self.logs[number]
        segment = next(s for s in log.segments if s.start <= piece.start < s.end)
        whole = sum(each.state.size for each in log.segments)
        begin, end = piece.start - segment.start, piece.end - segment.start
        reader = open_ahead(log.storage, segment.path, segment.state, begin, end, whole)
        stack.callback(reader.close)
        return segment.read_by(reader)
