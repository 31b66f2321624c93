"""What a slave does next, in both replication protocols, and a master in the ordinary one; when a
put counts as replicated; what a slave asks by remoting. All pure: the caller has sockets and time.
"""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from reput.broker.wire import replication
from reput.broker.wire.codes import RequestCode
from reput.store_format.names import DELAY_OFFSETS, GROUPS, OFFSETS, TOPICS

# ---
# What a slave does with what its master sends, in both protocols: pure, the caller has the time.
#
# As HAClient (4.x), DefaultHAClient and AutoSwitchHAClient (5.x), with one difference: the first
# report is where the log is to begin. It is never 0, after which a master would send its last file
# only (#9580). Where the log is to begin at 0, 1 is reported. The byte that is then not sent is the
# first byte of the first record's size. It is 0 in every record below 16 MB; the lengths of a
# larger record would not add up.

HEARTBEAT_SECONDS = 5.0  # haSendHeartbeatInterval
HOUSEKEEPING_SECONDS = 20.0  # haHousekeepingInterval


class WrongOffset(replication.ProtocolError):
    """The master sends its log from another offset than was asked for."""


class Slave:
    """One connection to a master that is not under a controller. now: seconds of any clock."""

    _reader: replication.TransferReader | replication.SwitchMasterReader

    def __init__(self, start: int) -> None:
        """start: the physical offset where the master is to begin."""
        self._next = self._reported = max(start, 1)
        self._unsent = not start  # a master cannot be asked for the log's first byte
        self._sent_at = self._heard_at = 0.0
        self._reader = replication.TransferReader()

    def hello(self, now: float) -> bytes:
        self._sent_at = self._heard_at = now
        return replication.encode_report(self._reported)

    def receive(self, data: bytes, now: float) -> list[replication.LogChunk]:
        """The log's bytes in `data`, without heartbeats. Raises ProtocolError."""
        self._heard_at = now
        parts = [part for part in self._reader.feed(data) if self._log(part)]
        if parts and self._unsent:
            self._unsent = False
            parts.insert(0, replication.LogChunk(0, b"\0", False))
        return parts

    def report(self, end: int, now: float) -> bytes:
        """What is to be sent now: a report of how far the log goes, or no bytes."""
        return replication.encode_report(self._reported) if self._due(end, now) else b""

    def silent(self, now: float) -> bool:
        """Whether the master has sent nothing for so long that the connection counts as dead."""
        return now - self._heard_at > HOUSEKEEPING_SECONDS

    def _due(self, end: int, now: float) -> bool:
        if end <= self._reported and now - self._sent_at <= HEARTBEAT_SECONDS:
            return False
        self._reported, self._sent_at = max(end, self._reported), now
        return True

    def _log(self, part: replication.LogChunk) -> bool:
        """Whether `part` has the log's next bytes; False for a heartbeat. Raises WrongOffset."""
        if part.offset != self._next and (part.data or part.offset >= 0):
            raise WrongOffset(
                f"the master sends its log from {part.offset} on, but it was asked for "
                f"{self._next}: it has deleted that, or has another log"
            )
        self._next += len(part.data)
        return bool(part.data)


class SwitchSlave(Slave):
    """A slave in controller mode. It takes part in no election: an asynchronous learner."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self._next = self._reported = start
        self._unsent = self._asked = False
        self._reader = self._frames = replication.SwitchMasterReader()

    def hello(self, now: float) -> bytes:
        self._sent_at = self._heard_at = now
        return replication.encode_slave_hello()

    def report(self, end: int, now: float) -> bytes:
        if not self._frames.shaken:
            return b""
        if not self._asked:  # the first report, not the hello, says where the master is to begin
            self._asked, self._sent_at = True, now
        elif not self._due(end, now):
            return b""
        return replication.encode_slave_report(self._reported)


# ---
# What a master does for one slave: which bytes it sends next, when a heartbeat, when it gives up.
#
# Pure: the caller has log, sockets and time. As HAConnection (4.x) and DefaultHAConnection (5.x),
# with one difference: a new slave, which reports 0, gets the whole log and not only its last file
# (#9580).

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


class SlaveConnection:
    """One slave's connection. acked: up to where the slave has the log; -1: no report yet."""

    def __init__(self, now: float, batch: int = TRANSFER_BYTES) -> None:
        self.acked = -1
        self._next = -1  # the next byte to send
        self._heard_at = self._sent_at = now
        self._batch = batch
        self._reader = replication.ReportReader()

    def receive(self, data: bytes, log: MasterLog, now: float) -> None:
        """Take bytes that the slave sent. Raises ProtocolError."""
        self._heard_at = now
        offset = self._reader.feed(data)
        if offset is not None:
            self._reported(offset, log)

    def next(self, log: MasterLog, now: float) -> Send | None:
        """What to send now; None where nothing is due."""
        if self._next < 0:
            return None
        size = self._size(log)
        if not size and now - self._sent_at <= HEARTBEAT_SECONDS:
            return None
        self._sent_at, at = now, self._next
        self._next += size
        return Send(replication.encode_header(at, size), at, size)

    def silent(self, now: float) -> bool:
        """Whether the slave has sent nothing for so long that the connection counts as dead."""
        return now - self._heard_at > HOUSEKEEPING_SECONDS

    def _reported(self, offset: int, log: MasterLog) -> None:
        """Take a report. ProtocolError: the slave's log ends after (since 4.9.5) or before ours."""
        if offset > log.end:
            raise replication.ProtocolError(
                f"report: the slave's log goes on to {offset}, the master's only to {log.end}"
            )
        self.acked = offset
        if self._next < 0:
            self._next = offset if offset else log.start
            if self._next < log.start:
                raise replication.ProtocolError(
                    f"report: the slave stands at {offset}, but the log now begins at {log.start}"
                )

    def _size(self, log: MasterLog) -> int:
        """How many bytes are sent next: a slave cannot append bytes across a segment's end."""
        left = log.segment_bytes - self._next % log.segment_bytes
        return max(min(log.end - self._next, left, self._batch), 0)


# ---
# Whether a put counts as replicated: HAService.isSlaveOK and GroupTransferService, as a function.
#
# Up to 4.9 a SYNC_MASTER answers SLAVE_NOT_AVAILABLE at once where no slave is near enough
# (CommitLog.submitReplicaRequest). From 5.0.0 on it always waits (CommitLog.handleHA), until
# `inSyncReplicas` replicas have the put, the master counted.

PUT_OK = "PUT_OK"  # PutMessageStatus, as in message/refusals
FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


def is_slave_ok(put_end: int, connected: bool, pushed: int, gap: int) -> bool:
    """Whether a slave is near enough to wait for (HAService.isSlaveOK).

    put_end: where the put ends. connected: whether any slave is connected. pushed: the greatest
    offset that any slave ever reported. gap: haSlaveFallbehindMax (4.x), haMaxGapNotInSync (5.x).
    """
    return connected and put_end - pushed < gap


def is_replicated(put_end: int, acked: Iterable[int], pushed: int, replicas: int) -> bool:
    """Whether enough replicas have a put (GroupTransferService.doWaitTransfer).

    replicas: how many must have it, the master counted; 1 or less means any slave, as in 4.x.
    """
    if replicas <= 1:
        return pushed >= put_end
    return 1 + sum(offset >= put_end for offset in acked) >= replicas


# ---
# What a slave asks a broker besides its log, by the remoting protocol, as bytes.
#
# GET_BROKER_RUNTIME_INFO tells where the log begins, GET_BROKER_CONFIG how long its segments are.
# The other requests are SlaveSynchronize's: their bodies are the files in the master's config/.

CONFIG_FILES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TOPICS,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GROUPS,
    RequestCode.GET_ALL_CONSUMER_OFFSET: OFFSETS,
    RequestCode.GET_ALL_DELAY_OFFSET: DELAY_OFFSETS,
}


def runtime_info(body: bytes) -> dict[str, str]:
    """The figures of GET_BROKER_RUNTIME_INFO (KVTable). Raises ProtocolError."""
    try:
        table: dict[str, Any] = json.loads(body)["table"]
        return {str(name): str(value) for name, value in table.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise replication.ProtocolError(
            f"GET_BROKER_RUNTIME_INFO: cannot be read: {error}"
        ) from None
