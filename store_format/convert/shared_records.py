"""Which records of a log an earlier store has too: the same bytes at the same physical offset.

A master and the slave that took over from it share their log up to where the two logs part (`reput
compare`). What an earlier store has after the end of its own log, such as a stale tail, does not
count, as nothing of it is taken.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.files.protocol import InputStorage, Reader
from reput.store_format.kernels.bytes import same_bytes
from reput.store_format.kernels.jit import kernel
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.segments import Segment

Marks = npt.NDArray[np.bool_]


class EarlierLog(NamedTuple):
    """A log whose records are taken. end: of its records, a physical offset."""

    storage: InputStorage
    segments: tuple[Segment, ...]
    end: int


@kernel
def _mark_alike(buf: Bytes, rows: Rows, other: Bytes, base: int, marks: Marks) -> None:
    """Mark rows whose bytes are also in `other`, which begins at the place `base`."""
    for i in range(len(rows)):
        row = rows[i]
        marks[i] |= same_bytes(buf, row.at, other, row.physicalOffset - base, row.size)


class SharedRecords:
    """Compares a walk's records with earlier logs; holds one open file, and a window of it."""

    def __init__(self, logs: tuple[EarlierLog, ...]) -> None:
        self._logs = logs
        self._open: dict[str, Reader] = {}
        self._buffer: Bytes = np.empty(0, np.uint8)

    def of(self, window: Bytes, rows: Rows) -> Marks:
        """For each row whether an earlier log has it too."""
        marks = np.zeros(len(rows), np.bool_)
        if not self._logs or not len(rows):
            return marks
        places = rows["physicalOffset"]
        ends = places + rows["size"]
        for log in self._logs:
            for segment in log.segments:
                if segment.end <= places[0] or ends[-1] <= segment.start:
                    continue
                within = (places >= segment.start) & (ends <= min(segment.end, log.end))
                if np.count_nonzero(within):
                    some = np.flatnonzero(within)
                    first, stop = int(some[0]), int(some[-1]) + 1  # they are in order
                    self._compare(log, segment, window, rows[first:stop], marks[first:stop])
        return marks

    def _compare(
        self, log: EarlierLog, segment: Segment, window: Bytes, rows: Rows, marks: Marks
    ) -> None:
        base = int(rows["physicalOffset"][0])
        if rows["bodyElided"][0]:  # it is the only row, and its body's CRC was compared
            head, size = int(rows["bodyAt"][0]), int(rows["size"][0])
            around = self._read(log, segment, base, head).copy()
            rest = len(window) - head
            around = np.concatenate((around, self._read(log, segment, base + size - rest, rest)))
            marks[0] |= np.array_equal(around, window)
            return
        length = int(rows["physicalOffset"][-1] + rows["size"][-1]) - base
        _mark_alike(window, rows, self._read(log, segment, base, length), base, marks)

    def _read(self, log: EarlierLog, segment: Segment, at: int, length: int) -> Bytes:
        reader = self._open.get(segment.path)
        if reader is None:
            self.close()
            reader = self._open[segment.path] = log.storage.open(segment.path, segment.state)
        if len(self._buffer) < length:
            self._buffer = np.empty(length, np.uint8)
        found = self._buffer[:length]
        reader.read_into(at - segment.start, found)
        return found

    def close(self) -> None:
        """Close the file that is open, if any."""
        while self._open:
            self._open.popitem()[1].close()
