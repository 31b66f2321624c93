"""What shows after a crash which records were durable for sure, or at least written as a whole.

The writer, when it opens a store, `recover` and `check` use these rules, so that all end a log at
the same record.
"""

from typing import Any

from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.index_header import index_files
from reput.store_format.derived.queue_files import queue_folder
from reput.store_format.derived.queue_reader import QueueReader
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Bytes
from reput.store_format.kernels.java_text import decode
from reput.store_format.names import UnsafeName

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


def was_dispatched(store: Folder, window: Bytes, row: Any) -> bool:
    """Whether the index or the record's own queue reaches a record (a RECORD_ROW of the window).

    ReputMessageService dispatches a record only after it was written as a whole.
    """
    place = int(row["physicalOffset"])
    heads = (head for _, head in index_files(store) if head.entries)
    if any(head.end_offset >= place for head in heads):
        return True
    at = int(row["topicAt"])
    topic = decode(window[at : at + int(row["topicLength"])].tobytes())
    for batch in (False, True):
        try:
            folder = queue_folder(store.path, topic, int(row["queueId"]), batch)
            last = QueueReader(Folder(store.storage, folder), batch).last()
        except (StoreError, UnsafeName):
            continue  # a queue that cannot be read shows nothing
        if last is not None and last.physical_offset >= place:
            return True
    return False
