"""A plan's segments on any storage as `Files`, for code that reads a log like a writer."""

from collections.abc import Callable
from typing import Protocol

from reput.store_format.files.protocol import Bytes, Files, InputStorage
from reput.store_format.log.oversize import Read
from reput.store_format.log.segments import Segment
from reput.store_format.names import COMMIT_LOG, segment_name


class SegmentFile(Protocol):
    """The part of OpenFile that reading a segment needs."""

    def read_at(self, at: int, buffer: Bytes) -> None: ...

    def close(self) -> None: ...


class LogFolder(Protocol):
    """The part of Files that opening a segment needs."""

    def open_read(self, path: str) -> SegmentFile: ...


class LogBytes:
    """Reads a log's segments by physical offset; one file is open at a time."""

    def __init__(self, files: LogFolder, segment_bytes: int) -> None:
        self._files, self._segment_bytes = files, segment_bytes
        self._segment = -1
        self._file: SegmentFile | None = None

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
        """Close the open file, if any."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SegmentFiles:
    """Segments on any storage, read-only.

    An incomplete last segment, like one being copied, reads as if zeros followed.
    """

    def __init__(
        self, storage: InputStorage, segments: list[Segment], segment_bytes: int,
        growing: Files | None = None,
    ) -> None:  # fmt: skip
        """growing: the store's files, if segments may grow while they are read; else None."""
        self._storage, self._segment_bytes, self._growing = storage, segment_bytes, growing
        self._segments = {f"{COMMIT_LOG}/{segment_name(s.start)}": s for s in segments}

    def names(self, folder: str) -> list[str]:
        """The segments' names, in order."""
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
