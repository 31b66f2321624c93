"""What goes with a set of derived files besides what the log gives: queues whose messages have all
expired, and the checkpoint; and what a copy of a store takes over.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from reput.broker.change.compaction import settle
from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.publish import Built
from reput.jobs.pipeline.link import Linked
from reput.store_format.derived import checkpoint
from reput.store_format.derived.queue_files import BadQueue, QueueEntry, layout_of, pre_blank
from reput.store_format.derived.queues import FileQueues, Queues
from reput.store_format.discover.config import has_database
from reput.store_format.discover.store import StoreAt
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import FileState, InputStorage, Storage
from reput.store_format.layouts import QUEUE_ENTRY_BYTES, RECORD_FIXED_BYTES
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMPACTION,
    CONFIG,
    CONSUME_QUEUE,
    INDEX,
    QueuePath,
)
from reput.store_format.notes import Notes
from reput.store_format.query.compacted import compacted_topics
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.settings import settings_from
from reput.store_format.rocksdb.database import RocksDBError, RocksDBMissing
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder
from reput.udfs.staging import Staging, queue_file_name

# ---
# Queues of a store whose messages have all expired, so that the log has no record of them.
#
# A broker must know the last position of each, or it would number the next message from 0 (#8753).
# `install` keeps a store's own queue files. This module finds the last entries, for a new RocksDB
# or for the queue files of another store.

_PIECE_BYTES = 1 << 20

Queue = tuple[str, int]
QueueBytes = Callable[[str], int]


class LastEntry(NamedTuple):
    place: int  # physicalOffset
    position: int  # queueOffset; of a batch queue's entry that of its first message
    size: int = RECORD_FIXED_BYTES  # the shortest possible, if the true size is unknown
    tags_code: int = 0
    messages: int = 0  # of a batch queue's entry; 0: of another queue's
    store_timestamp: int = 0  # milliseconds; of a batch queue's entry

    @property
    def batch(self) -> bool:
        return self.messages > 0


def expired_queues(
    plan: Plan, live: Callable[[], set[Queue]], warnings: list[str]
) -> dict[Queue, LastEntry]:
    """The last entries of the store's queues without a live message. Raises RocksDBMissing.

    live: gives the queues with live messages; only asked where some may have expired.
    warnings: gets a line if the RocksDB of queues cannot be read.
    """
    log_start = plan.segments[0].start
    known = live() if log_start else set[Queue]()
    return last_entries(plan.queues_at, log_start, known, warnings)


def last_entries(
    store: Folder, log_start: int, live: set[Queue], warnings: list[str]
) -> dict[Queue, LastEntry]:
    """Last entries of expired queues in a store whose log begins at physical offset `log_start`."""
    if not log_start:
        return {}
    folder = queues_folder(store)
    files = FileQueues(store, lambda batch: 0)
    found = dict(_ends(files, live))
    if folder is not None:
        try:
            found |= _ends_in_rocksdb(RocksDBQueues(store.path, folder), live)
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
            if (topic, queue_id) in live:
                continue
            queue = queues.open(topic, queue_id, batch)
            try:
                last = queue.last()
            except BadQueue:
                continue  # the store may be rebuilt because this queue is damaged
            finally:
                queue.close()
            if last is not None and last.position + last.messages == queue.maximum():
                yield (topic, queue_id), _last(last, batch)


def _last(entry: QueueEntry, batch: bool) -> LastEntry:
    last = LastEntry(entry.physical_offset, entry.position, entry.size, entry.tags_code)
    if not batch:
        return last
    return last._replace(messages=entry.messages, store_timestamp=entry.store_timestamp or 0)


def files_of_expired(
    plan: Plan, staging: Staging, live: Callable[[], set[Queue]], queue_bytes: QueueBytes,
    warnings: list[str],
) -> list[Built]:  # fmt: skip
    """Make a queue file in staging for each expired queue if the set goes without the store's own
    files: these are in RocksDB, or the set is for a copy of the store. BUILT rows.
    warnings: as for expired_queues.
    """
    if plan.queues_of is None and queues_folder(plan.folder) is None:
        return []
    return expired_files(staging, expired_queues(plan, live, warnings), queue_bytes)


class ExpiredFile(NamedTuple):
    """The file of a queue with its last entry alone. number: of the file; length: its bytes."""

    folder: str
    number: int
    content: bytes
    length: int


def expired_file(queue: Queue, last: LastEntry, queue_bytes: QueueBytes) -> ExpiredFile:
    """A queue's file; queue_bytes: the length of the files in a queue's folder."""
    folder = str(QueuePath(BATCH_CONSUME_QUEUE if last.batch else CONSUME_QUEUE, *queue))
    length = queue_bytes(folder)
    entry = np.zeros(1, layout_of(last.batch))
    entry["physicalOffset"], entry["size"] = last.place, last.size
    entry["tagsCode"] = last.tags_code
    if last.batch:  # its entries tell their positions, and begin its first file
        entry["storeTimestamp"], entry["baseOffset"] = last.store_timestamp, last.position
        entry["batchSize"], entry["compactedOffset"] = last.messages, -1
        return ExpiredFile(folder, 0, entry.tobytes(), length)
    number, before = divmod(last.position, length // QUEUE_ENTRY_BYTES)
    return ExpiredFile(folder, number, pre_blank(before) + entry.tobytes(), length)


def expired_files(
    staging: Staging, ends: Mapping[Queue, LastEntry], queue_bytes: QueueBytes
) -> list[Built]:
    """Make a queue file in staging with the last entry of each queue in `ends`; BUILT rows."""
    built = []
    for queue, last in sorted(ends.items()):
        made = expired_file(queue, last, queue_bytes)
        name = queue_file_name()
        output = staging.storage.create(staging.path(name), digest=True)
        output.write(made.content)
        written = output.finish(made.length)
        built.append({
            "folder": made.folder, "number": made.number, "name": name, "length": written.length,
            "used": len(made.content), "sha256": written.sha256, "entries": 1, "skipped": 0,
            "ended": 0, "odd": [], "begin": 0, "end": 0, "first": True,
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


# ---
# What a copy of a store takes over, as neither the log gives it nor a broker makes it anew.


class Copied(Protocol):
    """The part of a summary that tells of copies."""

    copied: list[str]
    warnings: list[str]


class StateCopy(NamedTuple):
    """A copy of a store's state, from a store to one that is being made."""

    source: InputStorage
    store: str
    storage: Storage
    target: str
    about: Copied

    def copy(self, names: Collection[str]) -> None:
        """Copy what has these names in the store's root: files, with their .bak, and folders."""
        for name, state in Folder(self.source, self.store).listed():
            if name.removesuffix(".bak") in names and state is not None:
                self._file(name, state)
            elif name in names:
                self._folder(name)

    def _folder(self, folder: str) -> None:
        """Copy a folder's files and the folders in it, of config/ only the RocksDBs; anything else
        is left out, with a warning.
        """
        deep = folder.partition("/")[0] != CONFIG
        self.storage.make_folders(f"{self.target}/{folder}")
        for name, state in Folder(self.source, f"{self.store}/{folder}").listed():
            path = f"{folder}/{name}"
            if state is not None:
                self._file(path, state)
            elif deep or has_database(Folder(self.source, f"{self.store}/{path}")):
                self._folder(path)
            else:
                said = f"{self.store}/{path}: is not a regular file: not copied"
                self.about.warnings.append(said)

    def _file(self, path: str, state: FileState) -> None:
        reader = self.source.open(f"{self.store}/{path}", state)
        output = self.storage.create(f"{self.target}/{path}")
        for at in range(0, state.size, _PIECE_BYTES):
            piece = np.empty(min(_PIECE_BYTES, state.size - at), np.uint8)
            reader.read_into(at, piece)
            output.write(piece)
        output.finish(state.size)
        reader.close()
        self.about.copied.append(path)


def settle_copy(at: StoreAt, warnings: list[str]) -> None:
    """Bring a new store's `compaction/` to its log, if it is on a local disk. warnings: gets what
    was done, and what was not.
    """
    release = at.rocketmq or RELEASES[-1]
    if isinstance(at.storage, LocalStorage):
        notes = Notes()
        done = settle(DiskFiles(at.path), at.folder, release, at.settings, notes)
        warnings += [*done.lines, *notes.lines]
    elif compacted_topics(at.folder, settings_from(at.settings), release):
        warnings.append(
            f"{at.path}/{COMPACTION}: is not brought to the log; once the store is on a local "
            "disk, `reput recover` does so"
        )
