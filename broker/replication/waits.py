"""Whether a put counts as replicated: HAService.isSlaveOK and GroupTransferService, as a function.

Up to 4.9 a SYNC_MASTER answers SLAVE_NOT_AVAILABLE at once where no slave is near enough
(CommitLog.submitReplicaRequest). From 5.0.0 on it always waits (CommitLog.handleHA), until
`inSyncReplicas` replicas have the put, the master counted.
"""

from collections.abc import Iterable

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
