"""Frames of RocketMQ's replication (HAConnection, HAClient; from 5.0.0 DefaultHAConnection).

The slave sends an offset of 8 bytes: how far its log goes. The master sends an offset (8 bytes), a
size (4 bytes) and `size` bytes of the log; a size of 0 is a heartbeat.
docs/formats/replication.md has an example of each.
"""

import struct
from typing import NamedTuple

REPORT_BYTES = 8
HEADER_BYTES = 12
# DefaultHAClient.READ_MAX_BUFFER_SIZE: a slave waits for ever for the end of a longer frame
FRAME_MOST = (4 << 20) - HEADER_BYTES
_REPORT = struct.Struct(">q")
_HEADER = struct.Struct(">qi")


class ProtocolError(ValueError):
    """The other side sent what no RocketMQ sends; the text has field, value and reason."""


class LogChunk(NamedTuple):
    """Bytes of the log as received; without any, a heartbeat. offset: physical, of the first."""

    offset: int
    data: bytes
    frame_ends: bool  # whether these bytes are the last of their frame


def encode_report(offset: int) -> bytes:
    """What a slave sends: how far its log goes."""
    return _REPORT.pack(offset)


def encode_header(offset: int, size: int) -> bytes:
    """What a master sends before `size` bytes of its log."""
    return _HEADER.pack(offset, size)


class ReportReader:
    """Takes what a slave sends, in whatever pieces it comes."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """The last whole report of all received so far (as in processReadEvent); None if none.

        Raises ProtocolError for a negative offset.
        """
        whole = self._rest + data
        count = len(whole) // REPORT_BYTES
        self._rest = whole[count * REPORT_BYTES :]
        if not count:
            return None
        (offset,) = _REPORT.unpack_from(whole, (count - 1) * REPORT_BYTES)
        if offset < 0:
            raise ProtocolError(f"report: offset {offset} is negative")
        return int(offset)


class TransferReader:
    """Takes what a master sends, in whatever pieces it comes; holds no more than a header."""

    def __init__(self) -> None:
        self._header = b""
        self._at, self._left = 0, 0  # of the current frame: the next byte's offset, bytes to come

    def feed(self, data: bytes) -> list[LogChunk]:
        """The log's bytes in `data`, in order. Raises ProtocolError for an impossible header."""
        parts: list[LogChunk] = []
        view = memoryview(data)
        while len(view):
            if not self._left:
                view = self._take_header(view, parts)
                continue
            taken = bytes(view[: self._left])
            view = view[len(taken) :]
            self._left -= len(taken)
            parts.append(LogChunk(self._at, taken, not self._left))
            self._at += len(taken)
        return parts

    def _take_header(self, view: memoryview, parts: list[LogChunk]) -> memoryview:
        wanted = HEADER_BYTES - len(self._header)
        self._header += bytes(view[:wanted])
        if len(self._header) == HEADER_BYTES:
            self._at, self._left = _HEADER.unpack(self._header)
            self._header = b""
            if self._at < 0:
                raise ProtocolError(f"transfer header: offset {self._at} is negative")
            if not 0 <= self._left <= FRAME_MOST:
                raise ProtocolError(
                    f"transfer header: size {self._left} is not from 0 to {FRAME_MOST}, what a "
                    f"slave can take"
                )
            if not self._left:
                parts.append(LogChunk(self._at, b"", True))
        return view[wanted:]
