"""What a slave does with what its master sends, in both protocols: pure, the caller has the time.

As HAClient (4.x), DefaultHAClient and AutoSwitchHAClient (5.x), with one difference: the first
report is where the log is to begin. It is never 0, after which a master would send its last file
only (#9580). Where the log is to begin at 0, 1 is reported. The byte that is then not sent is the
first byte of the first record's size. It is 0 in every record below 16 MB; the lengths of a larger
record would not add up.
"""

from typing import Protocol

from reput.broker.replication.ha_frames import (
    LogChunk,
    ProtocolError,
    TransferReader,
    encode_report,
)
from reput.broker.replication.switch_frames import (
    MasterHello,
    SlaveHello,
    SwitchMasterReader,
    Transfer,
    encode_slave_hello,
    encode_slave_report,
)
from reput.store_format.log.groups import Epoch

HEARTBEAT_SECONDS = 5.0  # haSendHeartbeatInterval
HOUSEKEEPING_SECONDS = 20.0  # haHousekeepingInterval


class WrongOffset(ProtocolError):
    """The master sends its log from another offset than was asked for."""


class Slave(Protocol):
    """One connection to a master."""

    def hello(self, now: float) -> bytes:
        """What is sent on a new connection. now, here and below: seconds of any clock."""

    def receive(self, data: bytes, now: float) -> list[LogChunk]:
        """The log's bytes in `data`, without heartbeats. Raises ProtocolError."""

    def report(self, end: int, now: float) -> bytes:
        """What is to be sent now: a report of how far the log goes, or no bytes."""

    def silent(self, now: float) -> bool:
        """Whether the master has sent nothing for so long that the connection counts as dead."""


class _Common:
    """Reports, heartbeats and silence, which both protocols have."""

    def __init__(self, start: int) -> None:
        """start: the physical offset where the master is to begin."""
        self._next = self._reported = start
        self._sent_at = self._heard_at = 0.0

    def silent(self, now: float) -> bool:
        return now - self._heard_at > HOUSEKEEPING_SECONDS

    def _due(self, end: int, now: float) -> bool:
        if end <= self._reported and now - self._sent_at <= HEARTBEAT_SECONDS:
            return False
        self._reported, self._sent_at = max(end, self._reported), now
        return True

    def _log(self, part: LogChunk) -> bool:
        """Whether `part` has the log's next bytes; False for a heartbeat. Raises WrongOffset."""
        if part.offset != self._next and (part.data or part.offset >= 0):
            raise WrongOffset(
                f"the master sends its log from {part.offset} on, but it was asked for "
                f"{self._next}: it has deleted that, or has another log"
            )
        self._next += len(part.data)
        return bool(part.data)


class DefaultSlave(_Common):
    """A slave of a master that is not under a controller."""

    def __init__(self, start: int) -> None:
        super().__init__(max(start, 1))
        self._unsent = not start  # a master cannot be asked for the log's first byte
        self._reader = TransferReader()

    def hello(self, now: float) -> bytes:
        self._sent_at = self._heard_at = now
        return encode_report(self._reported)

    def receive(self, data: bytes, now: float) -> list[LogChunk]:
        self._heard_at = now
        parts = [part for part in self._reader.feed(data) if self._log(part)]
        if parts and self._unsent:
            self._unsent = False
            parts.insert(0, LogChunk(0, b"\0", False))
        return parts

    def report(self, end: int, now: float) -> bytes:
        return encode_report(self._reported) if self._due(end, now) else b""


class SwitchSlave(_Common):
    """A slave in controller mode. It takes part in no election: an asynchronous learner.

    epochs: those of the master; empty until they are received.
    """

    def __init__(self, start: int, known: tuple[Epoch, ...] = ()) -> None:
        """known: the epochs of the log that is there; the master's must continue them."""
        super().__init__(start)
        self._reader = SwitchMasterReader()
        self._known, self._shaken, self._asked = known, False, False
        self.epochs: tuple[Epoch, ...] = ()
        self.confirmed = 0

    def hello(self, now: float) -> bytes:
        self._sent_at = self._heard_at = now
        return encode_slave_hello(SlaveHello(False, True, 0))

    def receive(self, data: bytes, now: float) -> list[LogChunk]:
        self._heard_at = now
        parts = []
        for each in self._reader.feed(data):
            if isinstance(each, MasterHello):
                self._take(each)
            elif not self._shaken:
                raise ProtocolError("the master sends its log before its handshake")
            elif isinstance(each, Transfer):
                self.confirmed = max(each.confirmed, self.confirmed)
            elif self._log(each):
                parts.append(each)
        return parts

    def _take(self, hello: MasterHello) -> None:
        for mine, theirs in zip(self._known, hello.epochs, strict=False):
            if mine != theirs:
                raise WrongOffset(
                    f"the master's epoch {theirs.number} began at {theirs.start}, this replica's "
                    f"epoch {mine.number} at {mine.start}: what is behind was never agreed on"
                )
        self.epochs, self._shaken = hello.epochs, True

    def report(self, end: int, now: float) -> bytes:
        if not self._shaken:
            return b""
        if not self._asked:  # the first report, not the hello, says where the master is to begin
            self._asked, self._sent_at = True, now
        elif not self._due(end, now):
            return b""
        return encode_slave_report(self._reported)
