"""Frames of both replication protocols, the ordinary one and that of controller mode, encoded and
read.
"""

import struct
from typing import NamedTuple

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


class _LogReader:
    """Takes what a master sends, in whatever pieces it comes; holds no more than a frame's head."""

    def __init__(self) -> None:
        self._head = b""
        self._at, self._left = 0, 0  # of the current frame: the next byte's offset, bytes to come

    def feed(self, data: bytes) -> list[LogChunk]:
        """The log's bytes in `data`, in order. Raises ProtocolError."""
        found: list[LogChunk] = []
        view = memoryview(data)
        while len(view):
            if self._left:
                taken = bytes(view[: self._left])
                view = view[len(taken) :]
                self._left -= len(taken)
                found.append(LogChunk(self._at, taken, not self._left))
                self._at += len(taken)
                continue
            wanted = max(self._wanted() - len(self._head), 1)
            self._head += bytes(view[:wanted])
            view = view[wanted:]
            if len(self._head) == self._wanted():
                head, self._head = self._head, b""
                self._take(head, found)
        return found

    def _wanted(self) -> int:
        """How long the frame's head is, as far as the bytes received tell."""
        raise NotImplementedError

    def _take(self, head: bytes, found: list[LogChunk]) -> None:
        raise NotImplementedError

    def _begin(self, offset: int, size: int, what: str, found: list[LogChunk]) -> None:
        """Go on with so many bytes of the log; without any it is a heartbeat."""
        if not 0 <= size <= FRAME_MOST:
            raise ProtocolError(
                f"{what}: size {size} is not from 0 to {FRAME_MOST}, what a slave can take"
            )
        self._at, self._left = offset, size
        if not size:
            found.append(LogChunk(offset, b"", True))


class TransferReader(_LogReader):
    """Takes what an ordinary master sends."""

    def _wanted(self) -> int:
        return HEADER_BYTES

    def _take(self, head: bytes, found: list[LogChunk]) -> None:
        offset, size = _HEADER.unpack(head)
        if offset < 0:
            raise ProtocolError(f"transfer header: offset {offset} is negative")
        self._begin(offset, size, "transfer header", found)


# ---
# Frames of replication in controller mode (AutoSwitchHAConnection, AutoSwitchHAClient; 5.0.0 on).
#
# Before the log both sides send a handshake: the slave 16 bytes, the master its epochs, that is
# which master began at which offset. A slave whose epochs differ has records that were never agreed
# on.

HANDSHAKE, TRANSFER = 1, 2  # HAConnectionState's ordinals
_SLAVE_HANDSHAKE = struct.Struct(">ihhq")
_SLAVE_REPORT = struct.Struct(">iq")
_MASTER_HEAD = struct.Struct(">iiqi")  # of handshakes and transfers
_MASTER_REST = struct.Struct(">qq")  # of a transfer: epochStartOffset, confirmOffset
_EPOCH_BYTES = 12
EPOCHS_MOST = 1000  # handShakeBuffer has no room for more


def encode_slave_hello(from_last_file: bool = False, broker_id: int = 0) -> bytes:
    """A slave's handshake, of an asynchronous learner: it takes part in no election."""
    return _SLAVE_HANDSHAKE.pack(HANDSHAKE, from_last_file, True, broker_id)


def encode_slave_report(offset: int) -> bytes:
    """What a slave sends later: how far it has come."""
    return _SLAVE_REPORT.pack(TRANSFER, offset)


class SwitchMasterReader(_LogReader):
    """Takes what a master in controller mode sends. Its epochs, of up to 12 KB, and how far all
    replicas are, are passed over: a replica is no member of its group. shaken: they have come.
    """

    shaken = False

    def _wanted(self) -> int:
        if len(self._head) < _MASTER_HEAD.size:
            return _MASTER_HEAD.size
        state, size = struct.unpack_from(">ii", self._head)
        if state == TRANSFER:
            return _MASTER_HEAD.size + _MASTER_REST.size
        if state != HANDSHAKE:
            raise ProtocolError(f"master's frame: state {state} is neither handshake nor transfer")
        if not 0 <= size <= EPOCHS_MOST * _EPOCH_BYTES or size % _EPOCH_BYTES:
            raise ProtocolError(
                f"master's handshake: size {size} is not that of up to 1,000 epochs"
            )
        return _MASTER_HEAD.size + int(size)

    def _take(self, head: bytes, found: list[LogChunk]) -> None:
        state, size, offset, _ = _MASTER_HEAD.unpack_from(head)
        if state == HANDSHAKE:
            self.shaken = True
            return
        if offset < 0 and size > 0:
            raise ProtocolError(f"master's transfer: offset {offset} is negative")
        self._begin(offset, size, "master's transfer", found)
        if not self.shaken:
            raise ProtocolError("the master sends its log before its handshake")
