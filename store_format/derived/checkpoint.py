"""The `checkpoint` file (StoreCheckpoint), six longs at the start of 4,096 bytes; and which records
it shows to have been durable at a crash.
"""

from typing import NamedTuple

import numpy as np

from reput.store_format.files.protocol import Files, read_small
from reput.store_format.layouts import CHECKPOINT, CHECKPOINT_FILE_BYTES
from reput.store_format.names import CHECKPOINT as FILE
from reput.store_format.release.profiles import Profile


class Checkpoint(NamedTuple):
    """Timestamps in milliseconds, offsets in bytes; 0 where a release does not write one."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0
    logics_physical_offset: int = 0


def encode(checkpoint: Checkpoint) -> bytes:
    """The file's 4,096 bytes."""
    return np.array(tuple(checkpoint), CHECKPOINT).tobytes().ljust(CHECKPOINT_FILE_BYTES, b"\0")


def decode(raw: bytes) -> Checkpoint:
    """Read a checkpoint file. Raises ValueError if it is shorter than its fields."""
    if len(raw) < CHECKPOINT.itemsize:
        raise ValueError(f"{len(raw)} bytes; a checkpoint has {CHECKPOINT_FILE_BYTES}")
    return Checkpoint(*np.frombuffer(raw, CHECKPOINT, 1)[0].item())


def read_checkpoint(files: Files) -> Checkpoint:
    """A store's checkpoint; zeros where there is none, or it is too short."""
    if not files.exists(FILE):
        return Checkpoint()
    raw = read_small(files, FILE, CHECKPOINT_FILE_BYTES)
    return decode(raw) if len(raw) >= CHECKPOINT.itemsize else Checkpoint()


def after_rebuild(
    profile: Profile, last_timestamp: int, last_dispatched: int, index_end: int, last_record: int
) -> Checkpoint:
    """The checkpoint of a store whose queues and index hold everything in the log.

    last_timestamp: the last record's storeTimestamp. last_dispatched: the storeTimestamp of the
    last record with a queue entry. last_record: the last record's physical offset (RocketMQ notes
    where it starts, not where it ends). index_end: the greatest endTimestamp of the index files.
    With this as indexMsgTimestamp a broker deletes no index file even after a crash
    (IndexService.load); RocketMQ itself only notes the last *full* file's.
    """
    return Checkpoint(
        physic_msg_timestamp=max(last_timestamp, 0),
        logics_msg_timestamp=max(last_dispatched, 0),
        index_msg_timestamp=max(index_end, 0),
        confirm_phy_offset=last_record if profile.checkpoint_confirm_offset else 0,
        logics_physical_offset=last_record if profile.checkpoint_logics_offset else 0,
    )
