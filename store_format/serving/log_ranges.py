"""Ranges of the log's files that make an answer's body: they need not pass through Python."""

from bisect import bisect_right
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from reput.store_format.faults import StoreChanged
from reput.store_format.log.segments import Segment
from reput.store_format.storage.protocol import Reader, Storage


class LogFile:
    """An open segment. It is closed when nobody holds it any more: an answer on its way may."""

    def __init__(self, storage: Storage, segment: Segment) -> None:
        self.path = segment.path
        self.reader: Reader = storage.open(segment.path, segment.state)

    @property
    def descriptor(self) -> int | None:
        """Its file descriptor; None where it is no file of this machine."""
        fileno = getattr(self.reader, "fileno", None)
        return None if fileno is None else fileno()

    def __del__(self) -> None:
        if hasattr(self, "reader"):
            with suppress(StoreChanged, OSError):  # what was sent was checked
                self.reader.close()


class LogRange(NamedTuple):
    """Bytes of one segment."""

    file: LogFile
    start: int  # in the file
    length: int

    def read(self) -> bytes:
        """The bytes. Raises StoreChanged where the file has become too short, OSError."""
        buffer = np.empty(self.length, np.uint8)
        self.file.reader.read_into(self.start, buffer)
        return buffer.tobytes()


class LogFiles:
    """The open segments of a log; each is opened when it is first asked for."""

    def __init__(self, storage: Storage, segments: list[Segment]) -> None:
        self._storage = storage
        self._open: dict[str, LogFile] = {}
        self.relist(segments)

    def relist(self, segments: list[Segment]) -> None:
        """Take the segments that are there now: some are new, some gone, the last ones longer."""
        self._segments = segments
        self._starts = [segment.start for segment in segments]
        paths = {segment.path for segment in segments}
        self._open = {path: file for path, file in self._open.items() if path in paths}

    def range(self, place: int, length: int) -> LogRange | None:
        """The bytes [place, place + length) by physical offsets; None where no segment has them."""
        number = bisect_right(self._starts, place) - 1
        if number < 0 or place + length > self._segments[number].end:
            return None
        segment = self._segments[number]
        file = self._open.get(segment.path)
        if file is None:
            file = self._open[segment.path] = LogFile(self._storage, segment)
        return LogRange(file, place - segment.start, length)
