"""What a master does for one slave: which bytes it sends next, when a heartbeat, when it gives up.

Pure: the caller has log, sockets and time. As HAConnection (4.x) and DefaultHAConnection (5.x), and
AutoSwitchHAConnection in controller mode, with one difference: a new slave, which reports 0, gets
the whole log and not only its last file (#9580).
"""

from typing import NamedTuple, Protocol

from reput.broker.replication.ha_frames import ProtocolError, ReportReader, encode_header
from reput.broker.replication.slave import HEARTBEAT_SECONDS, HOUSEKEEPING_SECONDS
from reput.broker.replication.switch_frames import (
    MasterHello,
    SlaveHello,
    SwitchSlaveReader,
    encode_master_hello,
    encode_transfer,
)
from reput.store_format.log.groups import Epoch

TRANSFER_BYTES = 32 << 10  # haTransferBatchSize


class Send(NamedTuple):
    """What is sent to the slave now: `header`, then `size` bytes of the log from `at` on."""

    header: bytes
    at: int = 0
    size: int = 0


class MasterLog(NamedTuple):
    """The log as it is now. Offsets are physical."""

    start: int
    end: int
    segment_bytes: int


class SlaveConnection(Protocol):
    """One slave's connection. acked: up to where the slave has the log; -1: no report yet."""

    acked: int

    def receive(self, data: bytes, log: MasterLog, now: float) -> None:
        """Take bytes that the slave sent. Raises ProtocolError."""

    def next(self, log: MasterLog, now: float) -> Send | None:
        """What to send now; None where nothing is due."""

    def silent(self, now: float) -> bool:
        """Whether the slave has sent nothing for so long that the connection counts as dead."""


class _Common:
    def __init__(self, now: float, batch: int) -> None:
        self.acked = -1
        self._next = -1  # the next byte to send
        self._heard_at = self._sent_at = now
        self._batch = batch

    def silent(self, now: float) -> bool:
        return now - self._heard_at > HOUSEKEEPING_SECONDS

    def _reported(self, offset: int, log: MasterLog) -> None:
        """Take a report. ProtocolError: the slave's log ends after (since 4.9.5) or before ours."""
        if offset > log.end:
            raise ProtocolError(
                f"report: the slave's log goes on to {offset}, the master's only to {log.end}"
            )
        self.acked = offset
        if self._next < 0:
            self._next = offset if offset else log.start
            if self._next < log.start:
                raise ProtocolError(
                    f"report: the slave stands at {offset}, but the log now begins at {log.start}"
                )

    def _size(self, log: MasterLog) -> int:
        """How many bytes are sent next: a slave cannot append bytes across a segment's end."""
        left = log.segment_bytes - self._next % log.segment_bytes
        return max(min(log.end - self._next, left, self._batch), 0)

    def _heartbeat_due(self, now: float) -> bool:
        return now - self._sent_at > HEARTBEAT_SECONDS


class DefaultConnection(_Common):
    """A slave that is not under a controller."""

    def __init__(self, now: float, batch: int = TRANSFER_BYTES) -> None:
        super().__init__(now, batch)
        self._reader = ReportReader()

    def receive(self, data: bytes, log: MasterLog, now: float) -> None:
        self._heard_at = now
        offset = self._reader.feed(data)
        if offset is not None:
            self._reported(offset, log)

    def next(self, log: MasterLog, now: float) -> Send | None:
        if self._next < 0:
            return None
        size = self._size(log)
        if not size and not self._heartbeat_due(now):
            return None
        self._sent_at, at = now, self._next
        self._next += size
        return Send(encode_header(at, size), at, size)


class SwitchConnection(_Common):
    """A slave in controller mode: the master sends its epochs first. epochs: one if none given."""

    def __init__(
        self, now: float, batch: int = TRANSFER_BYTES, epochs: tuple[Epoch, ...] = ()
    ) -> None:
        super().__init__(now, batch)
        self._reader = SwitchSlaveReader()
        self._epochs, self._hello_due = epochs, False

    def receive(self, data: bytes, log: MasterLog, now: float) -> None:
        self._heard_at = now
        for each in self._reader.feed(data):
            if isinstance(each, SlaveHello):
                self._hello_due = True
                continue
            self._reported(each.offset, log)

    def next(self, log: MasterLog, now: float) -> Send | None:
        epochs = self._epochs or (Epoch(1, log.start),)
        if self._hello_due:
            self._hello_due, self._sent_at = False, now
            return Send(encode_master_hello(MasterHello(log.end, epochs[-1].number, epochs)))
        if self._next < 0:
            return None
        current = [each for each in epochs if each.start <= self._next] or [epochs[0]]
        later = [each.start for each in epochs if each.start > self._next]
        size = self._size(log)
        if later:  # bytes that are sent at once are all of one epoch
            size = min(size, later[0] - self._next)
        if not size and not self._heartbeat_due(now):
            return None
        self._sent_at, at = now, self._next
        self._next += size
        return Send(encode_transfer(at, size, current[-1], log.end), at, size)
