"""What is kept of before: queues that expired, the checkpoint."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.publish import Built
from reput.jobs.pipeline.link import Linked
from reput.store_format.derived import checkpoint
from reput.store_format.derived.queue_files import BadQueue, QueueEntry, pre_blank
from reput.store_format.derived.queues import FileQueues, Queues
from reput.store_format.layouts import QUEUE_ENTRY, QUEUE_ENTRY_BYTES, RECORD_FIXED_BYTES
from reput.store_format.names import CONSUME_QUEUE, INDEX, QueuePath
from reput.store_format.rocksdb.database import RocksDBError, RocksDBMissing
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder
from reput.udfs.staging import Staging, queue_file_name

# ---
# Queues of a store whose messages have all expired, so that the log has no record of them.
#
# A broker must know the last position of each, or it would number the next message from 0.
# `install` keeps a store's own queue files. This module finds the last entries for a new RocksDB,
# and makes queue files from the last entries in an old RocksDB.

Queue = tuple[str, int]


class LastEntry(NamedTuple):
    """The last entry of a queue."""

    place: int  # physicalOffset
    position: int  # queueOffset
    size: int = RECORD_FIXED_BYTES  # the shortest possible, if the true size is unknown
    tags_code: int = 0


def expired_queues(plan: Plan, live: set[Queue], warnings: list[str]) -> dict[Queue, LastEntry]:
    """The last entries of the store's queues without a live message. Raises RocksDBMissing.

    live: the queues with live messages.
    warnings: gets a line if the RocksDB of queues cannot be read.
    """
    log_start = plan.segments[0].start
    if not log_start:
        return {}
    storage, store = plan.storage, plan.store
    folder = queues_folder(storage, store)
    files = FileQueues(storage, store, lambda batch: 0)
    found = dict(_ends(files, live))
    if folder is not None:
        try:
            found |= _ends_in_rocksdb(RocksDBQueues(storage, store, folder), live)
        except RocksDBMissing:
            raise
        except RocksDBError as error:
            warnings.append(f"{error}: queues without a live message begin at position 0 again")
    return {queue: last for queue, last in found.items() if last.place < log_start}


def _ends_in_rocksdb(queues: RocksDBQueues, live: set[Queue]) -> dict[Queue, LastEntry]:
    try:
        found = {name: LastEntry(*last) for name, last in queues.maxima.items() if name not in live}
        return found | dict(_ends(queues, live))
    finally:
        queues.close()


def _ends(queues: Queues, live: set[Queue]) -> Iterator[tuple[Queue, LastEntry]]:
    for topic in queues.topics():
        for queue_id, batch in queues.of(topic):
            if batch or (topic, queue_id) in live:
                continue
            queue = queues.open(topic, queue_id, batch)
            try:
                last = queue.last()
            except BadQueue:
                continue  # the store may be rebuilt because this queue is damaged
            finally:
                queue.close()
            if last is not None and last.position == queue.maximum() - 1:
                yield (topic, queue_id), _last(last)


def _last(entry: QueueEntry) -> LastEntry:
    return LastEntry(entry.physical_offset, entry.position, entry.size, entry.tags_code)


def files_of_expired(
    plan: Plan, staging: Staging, live: set[Queue], length: int, warnings: list[str]
) -> list[Built]:
    """Make a queue file in staging for each expired queue if the store has queues in RocksDB;
    BUILT rows. length: bytes of a queue file; warnings: as for expired_queues.
    """
    if queues_folder(plan.storage, plan.store) is None:
        return []
    return expired_files(staging, expired_queues(plan, live, warnings), length)


def expired_files(staging: Staging, ends: Mapping[Queue, LastEntry], length: int) -> list[Built]:
    """Make a queue file in staging with the last entry of each queue in `ends`; BUILT rows."""
    built = []
    for (topic, queue_id), last in sorted(ends.items()):
        number, before = divmod(last.position, length // QUEUE_ENTRY_BYTES)
        entry = np.zeros(1, QUEUE_ENTRY)
        entry["physicalOffset"], entry["size"] = last.place, last.size
        entry["tagsCode"] = last.tags_code
        name = queue_file_name()
        output = staging.storage.create(staging.path(name), digest=True)
        output.write(pre_blank(before))
        output.write(entry.tobytes())
        written = output.finish(length)
        built.append({
            "folder": str(QueuePath(CONSUME_QUEUE, topic, queue_id)), "number": number,
            "name": name, "length": written.length, "used": (before + 1) * QUEUE_ENTRY_BYTES,
            "sha256": written.sha256, "entries": 1, "skipped": 0, "begin": 0, "end": 0,
        })  # fmt: skip
    return built


# ---
# The checkpoint that goes with a set of derived files.


def new_checkpoint(plan: Plan, linked: Linked, built: list[Built]) -> bytes:
    """The checkpoint file of a store with these derived files."""
    with_records = [row for row in linked.accepted if row["records"]]
    dispatched = [row["last_dispatched"] for row in with_records if row["last_dispatched"] >= 0]
    return checkpoint.encode(
        checkpoint.after_rebuild(
            plan.profile,
            last_timestamp=with_records[-1]["last_timestamp"] if with_records else 0,
            last_dispatched=dispatched[-1] if dispatched else 0,
            index_end=max((row["end"] for row in built if row["folder"] == INDEX), default=0),
            last_record=with_records[-1]["last_record"] if with_records else 0,
        )
    )
