"""The log's files for answers: read, or sent to a socket without passing through Python."""

from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.faults import StoreChanged
from reput.store_format.files.disk import fill_from
from reput.store_format.files.protocol import InputStorage, Reader
from reput.store_format.log.reader import NotInLog
from reput.store_format.log.segments import Segment


class LogFile:
    """An open segment. It is closed once nothing refers to it, such as an answer being sent."""

    def __init__(self, storage: InputStorage, segment: Segment) -> None:
        self.start = segment.start
        self.reader: Reader = storage.open(segment.path, segment.state)
        fileno = getattr(self.reader, "fileno", None)
        # None where the segment is no file of this machine
        self.descriptor: int | None = None if fileno is None else int(fileno())
        # fills a buffer from an offset in the file; raises StoreChanged, OSError
        self.read_into: Callable[[int, Any], None] = self.reader.read_into
        if self.descriptor is not None:  # most reads are small, so each call in between counts
            self.read_into = partial(fill_from, self.descriptor, segment.path)

    def __del__(self) -> None:
        if hasattr(self, "reader"):
            with suppress(StoreChanged, OSError):  # the bytes that were sent were checked
                self.reader.close()


class LogRange(NamedTuple):
    """Bytes of one segment."""

    file: LogFile
    start: int  # in the file
    length: int

    def read(self) -> bytes:
        """The bytes. Raises StoreChanged where the file has become too short, OSError."""
        buffer = np.empty(self.length, np.uint8)
        self.file.read_into(self.start, buffer)
        return buffer.tobytes()


class LogFiles:
    """The segments of a log; each is opened when it is first needed, and stays open."""

    def __init__(self, storage: InputStorage, segments: list[Segment]) -> None:
        self._storage = storage
        self._open: dict[str, LogFile] = {}
        self.relist(segments)

    def relist(self, segments: list[Segment]) -> None:
        """Take the segments that exist now: some may be new, some gone, the last ones longer."""
        self._segments = segments
        self.starts = np.array([segment.start for segment in segments], np.int64)
        self.ends = np.array([segment.end for segment in segments], np.int64)
        paths = {segment.path for segment in segments}
        self._open = {path: file for path, file in self._open.items() if path in paths}
        self._files = [self._open.get(segment.path) for segment in segments]

    def read(self, number: int, place: int, buffer: Any) -> None:
        """Fill a buffer from a physical offset in a segment. Raises StoreChanged, OSError."""
        file = self._files[number] or self._file(number)
        file.read_into(place - file.start, buffer)

    def range(self, place: int, length: int) -> LogRange:
        """The bytes [place, place + length) by physical offsets. Raises NotInLog."""
        number = bisect_right(self.starts, place) - 1
        if number < 0 or place + length > self.ends[number]:
            raise NotInLog(place, int(self.starts[0]), int(self.ends[-1]))
        return LogRange(self._file(number), place - self._segments[number].start, length)

    def _file(self, number: int) -> LogFile:
        file = self._files[number]
        if file is None:
            segment = self._segments[number]
            file = self._files[number] = LogFile(self._storage, segment)
            self._open[segment.path] = file
        return file
