"""Cuts off what a crash left after a log's end.

All sound records are kept. The rest of the last segment is filled with zeros and later segments are
removed, so that nothing that was cut can come back. RocketMQ only moves its write position
(CommitLog.recoverAbnormally), after which some of the old records do come back.
"""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from reput.store_format.files.protocol import Bytes, Files, OpenFile
from reput.store_format.names import COMMIT_LOG, segment_name


def segment_path(segment: int) -> str:
    """The file of the segment that begins at a physical offset."""
    return f"{COMMIT_LOG}/{segment_name(segment)}"


class LogCutter:
    """Cuts the segments of a log; offsets are physical, sizes in bytes."""

    def __init__(
        self, files: Files, segments: list[int], segment_bytes: int, window: Bytes, keep: str
    ) -> None:
        """segments: their physical offsets; `cut` takes those it removes out of the list.

        window: the buffer for reading. keep: a folder where what is cut off is kept, in files named
        by their physical offset; '' for nowhere.
        """
        self._files, self._segments, self._segment_bytes = files, segments, segment_bytes
        self._window, self._keep = window, keep

    def to_cut(self, end: int) -> int:
        """How many bytes after the end are not zero."""
        after = [s for s in self._segments if s + self._segment_bytes > end]
        return sum(self._non_zero(segment, max(segment, end)) for segment in after)

    def cut(self, end: int, after_blank: bool) -> int:
        """Leave nothing after the end; returns how many bytes other than zero were cut off.

        after_blank: the log ends with a BLANK, so `end` belongs to the segment that ends there.
        """
        segments, cut_bytes = self._segments, 0
        number = max(n for n, s in enumerate(segments) if n == 0 or s < end)
        if end in segments and not after_blank:
            number = segments.index(end)
        for segment in reversed(segments[number + 1 :]):
            used = self._non_zero(segment, segment)
            if used or segment > end + self._segment_bytes:
                cut_bytes += used
                self._remove(segment, bool(used))
        segment = segments[number]
        used = self._non_zero(segment, end)
        if used:
            cut_bytes += used
            if self._keep:
                self._copy_away(segment, end)
            self._zero(segment, end)
        return cut_bytes

    def _remove(self, segment: int, holds_bytes: bool) -> None:
        if self._keep and holds_bytes:
            self._files.make_folder(self._keep)
            self._files.rename(segment_path(segment), self._new_name(segment))
            self._files.sync_folder(self._keep)
        else:
            self._files.remove(segment_path(segment))
        self._segments.remove(segment)
        self._files.sync_folder(COMMIT_LOG)

    def _new_name(self, offset: int) -> str:
        """A free name in `keep`: what is cut now never overwrites what was cut before."""
        name, number = f"{self._keep}/{segment_name(offset)}", 0
        while self._files.exists(name if not number else f"{name}.{number}"):
            number += 1
        return f"{name}.{number}" if number else name

    def _copy_away(self, segment: int, at: int) -> None:
        """Copy a segment's bytes from a place to its end, durably, into a file of `keep`."""
        self._files.make_folder(self._keep)
        part = f"{self._keep}/{segment_name(at)}.part"
        if self._files.exists(part):  # left by a run that was killed here
            self._files.remove(part)
        with (
            closing(self._files.open_read(segment_path(segment))) as source,
            closing(self._files.create(part)) as kept,
        ):
            used = 0
            for start, window in self._windows(source, segment, at):
                if window.any():
                    used = start - at + int(np.flatnonzero(window)[-1]) + 1
                    kept.write_at(start - at, window)
            kept.set_length(used)
            kept.sync()
        self._files.rename(part, self._new_name(at))
        self._files.sync_folder(self._keep)

    def _zero(self, segment: int, at: int) -> None:
        """Write zeros over all other bytes from a place to the segment's end.

        The file never becomes shorter meanwhile: from its length the next open takes the size.
        """
        with closing(self._files.open(segment_path(segment))) as file:
            for start, window in self._windows(file, segment, at):
                other = np.flatnonzero(window)
                if len(other):
                    low, high = int(other[0]), int(other[-1]) + 1
                    file.write_at(start - segment + low, np.zeros(high - low, np.uint8))
            file.sync()

    def _non_zero(self, segment: int, at: int) -> int:
        """How many bytes from a place to the segment's end are not zero."""
        with closing(self._files.open_read(segment_path(segment))) as file:
            windows = self._windows(file, segment, at)
            return sum(int(np.count_nonzero(window)) for _, window in windows)

    def _windows(self, file: OpenFile, segment: int, at: int) -> Iterator[tuple[int, Bytes]]:
        """(offset, bytes) of the parts from a place to the segment's end, all in the one window."""
        end = segment + self._segment_bytes
        for start in range(at, end, len(self._window)):
            window = self._window[: end - start]
            file.read_at(start - segment, window)
            yield start, window
