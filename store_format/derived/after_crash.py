"""What a checkpoint says after a crash: which records were durable, and which are derived again.

One rule for all that ends a log after a crash (the writer as it opens, and recover), so that they
end it at the same place.
"""

from reput.store_format.derived.checkpoint import Checkpoint

_SLACK = 3_000  # milliseconds: StoreCheckpoint.getMinTimestamp


def vouched_for(checkpoint: Checkpoint) -> int:
    """Records stored up to this time (milliseconds) were in the log and its queues, for sure."""
    return min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) - _SLACK


def was_durable(timestamp: int, checkpoint: Checkpoint | None) -> bool:
    """Whether a record that was stored at this time was durable before the crash.

    Where such a record follows a fault, the fault is damage: a log becomes durable from its start
    on, so that a crash tears only what was stored later. Where it was not, fault and record are
    what a crash leaves. checkpoint: None where the file is lost; a writer makes it before its
    first record, so that then each record may have been durable.
    """
    return checkpoint is None or timestamp < checkpoint.physic_msg_timestamp
