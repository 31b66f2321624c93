"""A log that is copied: its segments on any storage, and its records as pieces."""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import NamedTuple

import numpy as np

from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Bytes, InputStorage
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.rules import Checks, RecordRules
from reput.store_format.log.segments import Segment, list_segments
from reput.store_format.log.walk import Buffers, Read, Walk, most_rows

_AHEAD = 3  # pieces that are read while a piece is written
_LONG_PIECE_BYTES = 1 << 20


class SourceCleaned(StoreError):
    """A part of the log that is to be copied was deleted by the source's broker."""


class LogPiece(NamedTuple):
    """Bytes of the log, with the end of its whole records. Offsets are physical."""

    at: int
    data: Bytes
    whole: int  # end of the last whole record; at or before `at`: no record ends in this piece
    last: int  # begin of the last whole record, -1 if none begins in this piece
    records: int
    timestamp: int  # storeTimestamp of the last record, 0 if there is none
    fault: Fault = Fault.NONE  # fault with which the log ends after `whole`
    times: tuple[int, ...] = ()  # the least and the greatest storeTimestamp, if there is a record


_NO_END = 1 << 62


class LogLimit(NamedTuple):
    """How much of a log is to be copied."""

    offset: int = _NO_END  # no record that ends after this physical offset

    def of(self, rows: np.ndarray) -> int:
        """How many of the first `rows` (RECORD_ROW, in the log's order) are within the limit."""
        ends = rows["physicalOffset"] + rows["size"]
        return int(np.searchsorted(ends, self.offset, "right"))


ALL_WANTED = LogLimit()


class SourceLog:
    """Segments in folders of any storage; an incomplete last segment reads as if zeros followed.

    `refresh` lists the segments anew. Not for use by two threads at once.
    """

    def __init__(self, storage: InputStorage, folders: list[str], segment_bytes: int) -> None:
        self.storage, self.folders, self.segment_bytes = storage, folders, segment_bytes
        self.segments: dict[int, Segment] = {}
        self._local = DiskFiles("") if isinstance(storage, LocalStorage) else None
        self._open: tuple[int, Read, Callable[[], None]] | None = None
        self.refresh()

    def refresh(self) -> None:
        """List the segments anew, up to the first hole. Raises StoreError if there are none."""
        found, _, findings = list_segments(self.storage, self.folders, self.segment_bytes)
        self.close()
        kept: dict[int, Segment] = {}
        for segment in found:
            if segment.state.size > self.segment_bytes:
                raise StoreError(
                    f"{segment.path}: has {segment.state.size} bytes, but mappedFileSizeCommitLog "
                    f"is {self.segment_bytes}"
                )
            if kept and segment.start != max(kept) + self.segment_bytes:
                break  # a segment before it is lost, or not copied yet: the log ends there
            kept[segment.start] = segment
            if segment.state.size < self.segment_bytes:
                break
        if not kept:
            said = "; ".join(f"{each.path}: {each.reason}" for each in findings)
            raise StoreError(f"{', '.join(self.folders)}: no segments{said and '; '}{said}")
        self.segments = kept
        self.behind = [each for each in found if each.start > max(kept)]

    @property
    def start(self) -> int:
        return min(self.segments)

    @property
    def stop(self) -> int:
        """The physical end of the last segment, as far as it exists."""
        return self.segments[max(self.segments)].end

    def path(self, at: int) -> str:
        """The file that holds a physical offset, for messages."""
        segment = self.segments.get(at - at % self.segment_bytes)
        return segment.path if segment else f"{self.folders[0]} at {at}"

    def read(self, at: int, buffer: Bytes) -> None:
        """Fill a buffer that lies within one segment. Raises SourceCleaned, StoreError, OSError."""
        start = at - at % self.segment_bytes
        segment = self.segments.get(start)
        if segment is None:
            raise SourceCleaned(
                f"{', '.join(self.folders)}: has nothing at {at}; its log is from {self.start} to "
                f"{self.stop}"
            )
        there = max(min(segment.end - at, len(buffer)), 0)
        if there:
            self._reader(segment)(at - start, buffer[:there])
        buffer[there:] = 0

    def _reader(self, segment: Segment) -> Read:
        if self._open is None or self._open[0] != segment.start:
            self.close()
            try:
                if self._local is not None:  # its length may change while it is read
                    file = self._local.open_read(segment.path)
                    self._open = segment.start, file.read_at, file.close
                else:
                    reader = self.storage.open(segment.path, segment.state)
                    self._open = segment.start, reader.read_into, reader.close
            except FileNotFoundError:
                raise SourceCleaned(
                    f"{segment.path}: is gone: the source was cleaned while it was copied"
                ) from None
        assert self._open is not None
        return self._open[1]

    def written(self) -> list[int]:
        """The starts of the segments that begin with anything but zeros, in order."""
        return [start for start in sorted(self.segments) if any(self.head(start))]

    def head(self, start: int) -> bytes:
        """The first eight bytes of a segment."""
        head = np.zeros(8, np.uint8)
        self.read(start, head)
        return head.tobytes()

    def close(self) -> None:
        """Close the open file. Raises StoreChanged if it changed but must not."""
        if self._open is not None:
            close, self._open = self._open[2], None
            close()


def pieces(
    source: SourceLog, start: int, wanted: LogLimit, rules: RecordRules, checks: Checks
) -> Iterator[LogPiece]:
    """The pieces of a log from the record at `start` to its end, its first fault, or the limit.

    A piece is valid until five more pieces were taken. Raises StoreError, OSError.
    """
    at, size = start, source.segment_bytes
    window = min(source.storage.window_bytes, size)
    buffers: Iterator[Buffers] = cycle(
        [
            (np.empty(window, np.uint8), np.zeros(most_rows(window), RECORD_ROW))
            for _ in range(_AHEAD + 4)
        ]
    )
    while at - at % size in source.segments and at < wanted.offset:
        segment = at - at % size
        end = segment + size
        walk = Walk(source.read, end, rules, checks, *next(buffers))
        fault = Fault.NONE
        for step in walk.steps(at, end):
            rows, stop, fault = step.rows, step.next, step.fault
            good = wanted.of(rows)
            if good < len(rows):  # stop at the first record beyond the limit
                stop, fault = int(rows["physicalOffset"][good]), Fault.NONE
            about = (
                (int(rows["physicalOffset"][good - 1]), good, int(rows["storeTimestamp"][good - 1]))
                if good else (-1, 0, 0)
            )  # fmt: skip
            stored = rows["storeTimestamp"][:good]
            times = (int(stored.min()), int(stored.max())) if good else ()
            if good and rows["bodyElided"][0]:
                yield from _long(source, at, stop, about, times)
            elif stop > at or fault not in (Fault.NONE, Fault.BLANK):
                said = fault if fault != Fault.BLANK else Fault.NONE
                yield LogPiece(at, step.window[: stop - at], stop, *about, said, times)
            at = stop
            if good < len(rows):
                return
            if good:
                walk.use(next(buffers))
        if fault not in (Fault.BLANK, Fault.NONE):
            return
        if at < end:
            if end > wanted.offset:
                return
            yield from _long(source, at, end, (-1, 0, 0))
            at = end


def _long(
    source: SourceLog, at: int, end: int, about: tuple[int, int, int], times: tuple[int, ...] = ()
) -> Iterator[LogPiece]:
    """The pieces of a record longer than a window, or of the rest of a segment after its BLANK."""
    while at < end:
        data = np.empty(min(_LONG_PIECE_BYTES, end - at), np.uint8)
        source.read(at, data)
        if at + len(data) == end:
            yield LogPiece(at, data, end, *about, times=times)
        else:
            yield LogPiece(at, data, at, -1, 0, 0)
        at += len(data)


def read_ahead(produced: Iterator[LogPiece]) -> Generator[LogPiece, None, None]:
    """The pieces of `produced`, read by a thread in advance; raises the errors of reading."""
    with ThreadPoolExecutor(1, "read-ahead") as reading:
        ahead = deque(reading.submit(next, produced, None) for _ in range(_AHEAD))
        try:
            while (piece := ahead.popleft().result()) is not None:
                ahead.append(reading.submit(next, produced, None))
                yield piece
        finally:
            reading.shutdown(cancel_futures=True)


class RateLimit:
    """Limits a copy to `rate` bytes a second; None: no limit."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._since, self._bytes = clock(), 0

    def wait_for(self, size: int) -> float:
        """The seconds to wait after `size` more bytes."""
        if self._rate is None:
            return 0.0
        self._bytes += size
        ahead = self._bytes / self._rate - (self._clock() - self._since)
        if ahead < -1.0:  # after a pause the copy does not catch up at full speed
            self._since, self._bytes = self._clock(), 0
        return max(ahead, 0.0)
