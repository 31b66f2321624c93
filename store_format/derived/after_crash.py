"""What a checkpoint shows after a crash: which records were durable for sure.

The writer, when it opens a store, and `recover` both use this rule, so that both end a log at the
same record.
"""

from reput.store_format.derived.checkpoint import Checkpoint

_SLACK = 3_000  # milliseconds: StoreCheckpoint.getMinTimestamp


def vouched_for(checkpoint: Checkpoint) -> int:
    """Records stored up to this time (milliseconds) were durable in log and queues for sure."""
    return min(checkpoint.physic_msg_timestamp, checkpoint.logics_msg_timestamp) - _SLACK


def was_durable(timestamp: int, checkpoint: Checkpoint | None) -> bool:
    """Whether a record that was stored at this time was durable before the crash.

    If such a record follows a fault, the fault is damage: a log becomes durable from its start on,
    so a crash can only tear what was stored later. If the record was not durable, both it and the
    fault are what a crash leaves. checkpoint: None where the file is lost. The writer creates it
    before its first record, so any record may have been durable then.
    """
    return checkpoint is None or timestamp < checkpoint.physic_msg_timestamp
