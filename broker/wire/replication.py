"""Frames of both replication protocols, the ordinary one and that of controller mode, encoded and
read.
"""

import struct
from typing import NamedTuple

from reput.store_format.log.groups import Epoch

# ---
# Frames of RocketMQ's replication (HAConnection, HAClient; from 5.0.0 DefaultHAConnection).
#
# The slave sends an offset of 8 bytes: how far its log goes. The master sends an offset (8 bytes),
# a size (4 bytes) and `size` bytes of the log; a size of 0 is a heartbeat.
# docs/formats/replication.md has an example of each.

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


# ---
# Frames of replication in controller mode (AutoSwitchHAConnection, AutoSwitchHAClient; 5.0.0 on).
#
# Before the log both sides send a handshake: the slave 16 bytes, the master its epochs, that is
# which master began at which offset. A slave whose epochs differ has records that were never agreed
# on.

HANDSHAKE, TRANSFER = 1, 2  # HAConnectionState's ordinals
SLAVE_HANDSHAKE_BYTES = 16
SLAVE_REPORT_BYTES = 12
_SLAVE_HANDSHAKE = struct.Struct(">ihhq")
_SLAVE_REPORT = struct.Struct(">iq")
_MASTER_HEAD = struct.Struct(">iiqi")  # of handshakes and transfers
_MASTER_REST = struct.Struct(">qq")  # of a transfer: epochStartOffset, confirmOffset
_ENTRY = struct.Struct(">iq")
EPOCHS_MOST = 1000  # handShakeBuffer has no room for more


class SlaveHello(NamedTuple):
    """A slave's handshake."""

    from_last_file: bool
    async_learner: bool
    broker_id: int


class SlaveReport(NamedTuple):
    """How far a slave has come."""

    offset: int


class MasterHello(NamedTuple):
    """A master's handshake: where its log ends, its last epoch (-1: none), all its epochs."""

    end: int
    epoch: int
    epochs: tuple[Epoch, ...]


class Transfer(NamedTuple):
    """The head of a transfer; its bytes follow as LogChunks."""

    offset: int
    size: int
    epoch: Epoch
    confirmed: int  # records before it are on all replicas that are in sync


def encode_slave_hello(hello: SlaveHello) -> bytes:
    flags = int(hello.from_last_file), int(hello.async_learner)
    return _SLAVE_HANDSHAKE.pack(HANDSHAKE, *flags, hello.broker_id)


def encode_slave_report(offset: int) -> bytes:
    return _SLAVE_REPORT.pack(TRANSFER, offset)


def encode_master_hello(hello: MasterHello) -> bytes:
    entries = b"".join(_ENTRY.pack(*each) for each in hello.epochs[:EPOCHS_MOST])
    return _MASTER_HEAD.pack(HANDSHAKE, len(entries), hello.end, hello.epoch) + entries


def encode_transfer(offset: int, size: int, epoch: Epoch, confirmed: int) -> bytes:
    head = _MASTER_HEAD.pack(TRANSFER, size, offset, epoch.number)
    return head + _MASTER_REST.pack(epoch.start, confirmed)


class SwitchSlaveReader:
    """Takes what a slave in controller mode sends."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[SlaveHello | SlaveReport]:
        """The frames that are whole now. Raises ProtocolError."""
        self._rest += data
        found: list[SlaveHello | SlaveReport] = []
        while len(self._rest) >= 4:
            state = int.from_bytes(self._rest[:4], "big", signed=True)
            if state not in (HANDSHAKE, TRANSFER):
                raise ProtocolError(f"slave's frame: state {state} is neither handshake nor report")
            size = SLAVE_HANDSHAKE_BYTES if state == HANDSHAKE else SLAVE_REPORT_BYTES
            if len(self._rest) < size:
                break
            frame, self._rest = self._rest[:size], self._rest[size:]
            if state == HANDSHAKE:
                _, last, learner, broker_id = _SLAVE_HANDSHAKE.unpack(frame)
                found.append(SlaveHello(last == 1, learner == 1, broker_id))
                continue
            offset = _SLAVE_REPORT.unpack(frame)[1]
            if offset < 0:
                raise ProtocolError(f"slave's report: offset {offset} is negative")
            found.append(SlaveReport(offset))
        return found


class SwitchMasterReader:
    """Takes what a master in controller mode sends; holds no more than a handshake of 12 KB."""

    def __init__(self) -> None:
        self._rest = b""
        self._at, self._left = 0, 0

    def feed(self, data: bytes) -> list[MasterHello | Transfer | LogChunk]:
        """The frames that are whole now, in order; log bytes as they come. Raises ProtocolError."""
        found: list[MasterHello | Transfer | LogChunk] = []
        view = memoryview(data)
        while len(view):
            if self._left:
                taken = bytes(view[: self._left])
                view = view[len(taken) :]
                self._left -= len(taken)
                found.append(LogChunk(self._at, taken, not self._left))
                self._at += len(taken)
                continue
            wanted = max(self._wanted() - len(self._rest), 1)
            self._rest += bytes(view[:wanted])
            view = view[wanted:]
            if len(self._rest) == self._wanted():
                self._frame(found)
        return found

    def _wanted(self) -> int:
        """How long the frame's head is, as far as the bytes received tell."""
        if len(self._rest) < _MASTER_HEAD.size:
            return _MASTER_HEAD.size
        state, size = struct.unpack_from(">ii", self._rest)
        if state == TRANSFER:
            return _MASTER_HEAD.size + _MASTER_REST.size
        if state != HANDSHAKE:
            raise ProtocolError(f"master's frame: state {state} is neither handshake nor transfer")
        if not 0 <= size <= EPOCHS_MOST * _ENTRY.size or size % _ENTRY.size:
            raise ProtocolError(
                f"master's handshake: size {size} is not that of up to 1,000 epochs"
            )
        return _MASTER_HEAD.size + int(size)

    def _frame(self, found: list[MasterHello | Transfer | LogChunk]) -> None:
        frame, self._rest = self._rest, b""
        state, size, offset, epoch = _MASTER_HEAD.unpack_from(frame)
        if state == HANDSHAKE:
            entries = _ENTRY.iter_unpack(frame[_MASTER_HEAD.size :])
            found.append(MasterHello(offset, epoch, tuple(Epoch(*each) for each in entries)))
            return
        start, confirmed = _MASTER_REST.unpack_from(frame, _MASTER_HEAD.size)
        if not 0 <= size <= FRAME_MOST:
            raise ProtocolError(f"master's transfer: size {size} is not from 0 to {FRAME_MOST}")
        if offset < 0 and size:
            raise ProtocolError(f"master's transfer: offset {offset} is negative")
        found.append(Transfer(offset, size, Epoch(epoch, start), confirmed))
        self._at, self._left = offset, size
        if not size:
            found.append(LogChunk(offset, b"", True))
