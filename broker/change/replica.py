"""Writes a replica of a log, so that at every moment it ends where a whole record ends.

Bytes come in the log's order, but not always in whole records. The first eight bytes after the last
whole record (the next record's size and magic number) are kept back until the bytes up to a later
record's end are there. Until then zeros are in their place, and a broker that starts meanwhile
takes the log to end there, as after its own crash (CommitLog.recoverAbnormally).
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reput.broker.change.install import read_note as read_own_note
from reput.store_format.files.protocol import Bytes, Data, Files, OpenFile, replace_small
from reput.store_format.names import COMMIT_LOG, segment_name

NOTE = "reput-replica.json"
_HEAD_BYTES = 8  # size and magic number
_ZEROS = bytes(_HEAD_BYTES)


class ReplicaLog:
    """The segments of a replica that are written to. Offsets are physical.

    end: where the whole records end. written: where the bytes end, of which those at `end` are
    kept back.
    """

    def __init__(self, files: Files, segment_bytes: int, end: int) -> None:
        self.files, self.segment_bytes = files, segment_bytes
        self.end = self.written = end
        self._head = bytearray()  # the bytes kept back, from `end` on
        self._open: dict[int, OpenFile] = {}  # segments written to since the last sync

    def write(self, data: Data) -> None:
        """Take the bytes that come at `written`; they may end anywhere. Raises OSError.

        A segment must be whole, and committed, before the next segment begins: otherwise a killed
        replica would have records after its end.
        """
        view = memoryview(data).cast("B")
        while len(view):
            at = self.written
            segment = self._segment_of(at)
            if segment != self._segment_of(self.end):
                raise ValueError(f"the segment at {segment} begins before {self.end} is committed")
            part = view[: segment + self.segment_bytes - at]
            view = view[len(part) :]
            kept = max(min(self._head_end(self.end) - at, len(part)), 0)
            file = self._file(segment)
            if kept:
                self._head += part[:kept]
            if len(part) > kept:
                file.write_at(at + kept - segment, part[kept:])
            self.written += len(part)

    def commit(self, to: int) -> None:
        """Let the log end at `to`, where a record ends and before which all records are sound.

        end < to <= written. Raises OSError; the log then ends where it did, or at `to`.
        """
        head = bytearray()
        if self.written > to:  # the next record has begun, and its first bytes are kept back
            segment = self._segment_of(to)
            head = bytearray(min(self._head_end(to), self.written) - to)
            file = self._file(segment)
            file.read_at(to - segment, np.frombuffer(head, np.uint8))
            file.write_at(to - segment, _ZEROS[: len(head)])
        segment = self._segment_of(self.end)
        self._file(segment).write_at(self.end - segment, bytes(self._head))
        self.end, self._head = to, head

    def rewind(self) -> None:
        """Forget what was written after the last whole record; it will be sent again."""
        self.written = self.end
        self._head.clear()

    def clear_end(self) -> None:
        """Write zeros where the next record begins: a killed run may have left its first bytes."""
        segment = self._segment_of(self.end)
        if self.files.exists(_path(segment)):
            zeros = _ZEROS[: self._head_end(self.end) - self.end]
            self._file(segment).write_at(self.end - segment, zeros)

    def read(self, at: int, buffer: Bytes) -> None:
        """Fill a buffer from one segment, including the bytes that are kept back."""
        segment = self._segment_of(at)
        self._file(segment).read_at(at - segment, buffer)
        low, high = max(at, self.end), min(at + len(buffer), self.end + len(self._head))
        if low < high:
            kept = self._head[low - self.end : high - self.end]
            buffer[low - at : high - at] = np.frombuffer(kept, np.uint8)

    def sync(self) -> None:
        """Make durable what was written. Raises OSError."""
        for file in self._open.values():
            file.sync()
        self.close()

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _segment_of(self, at: int) -> int:
        return at - at % self.segment_bytes

    def _head_end(self, at: int) -> int:
        """Where the bytes end that are kept back of a record at an offset; within its segment."""
        return min(at + _HEAD_BYTES, self._segment_of(at) + self.segment_bytes)

    def _file(self, segment: int) -> OpenFile:
        file = self._open.get(segment)
        if file is None:
            file = self._open[segment] = self._opened(segment)
        return file

    def _opened(self, segment: int) -> OpenFile:
        """Open or make a segment, with its full length: a broker accepts no other."""
        path = _path(segment)
        if self.files.exists(path):
            file = self.files.open(path)
            if file.length() < self.segment_bytes:  # there was a crash while it was being made
                file.set_length(self.segment_bytes)
            return file
        self.files.make_folder(COMMIT_LOG)
        file = self.files.create(path, self.segment_bytes)
        file.sync()
        self.files.sync_folder(COMMIT_LOG)
        return file


class Standing(NamedTuple):
    """The note beside a replica: how far the replica is durable, and what was put beside it."""

    source: str
    end: int  # records are whole and durable up to here
    last: int  # where the last whole record begins, -1 if there is none
    config: dict[str, str]  # files of config/ that were copied, and their SHA-256


def read_standing(files: Files) -> Standing | None:
    """The user's own note beside a replica; None where there is none, or it is not sound."""
    note = read_own_note(files, NOTE)
    if note is None:
        return None
    source, end, last = note.get("source"), note.get("end"), note.get("last")
    config = note.get("config")
    if type(end) is not int or type(last) is not int or end < 0 or not isinstance(config, dict):
        return None
    return Standing(str(source), end, last, {str(k): str(v) for k, v in config.items()})


def write_standing(files: Files, standing: Standing) -> None:
    replace_small(files, NOTE, json.dumps(standing._asdict()).encode(), own=True)
    files.sync_folder("")


def first_difference(
    read: Callable[[int, Bytes], Any], other: Callable[[int, Bytes], Any], start: int, end: int,
    segment_bytes: int, window: int = 1 << 20,
) -> int:  # fmt: skip
    """The first physical offset in [start, end) where two logs differ; `end` if they do not."""
    one, two = np.empty(window, np.uint8), np.empty(window, np.uint8)
    at = start
    while at < end:
        length = min(window, end - at, segment_bytes - at % segment_bytes)
        read(at, one[:length])
        other(at, two[:length])
        differs = np.flatnonzero(one[:length] != two[:length])
        if len(differs):
            return at + int(differs[0])
        at += length
    return end


def _path(segment: int) -> str:
    return f"{COMMIT_LOG}/{segment_name(segment)}"
