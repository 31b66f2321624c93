"""The verdict on a store's derived files: what is wrong with them, and what only looks wrong.

All commands that judge a store use this module, so that their verdicts agree. Not wrong are

- files that hold or begin with expired messages: RocketMQ deletes the log's first segments, and
  derived files later and only whole (reput.store_format.derived.extent);
- files that end before the log does, if the store's broker runs or was killed: it dispatches the
  rest while it runs, or when it starts (CommitLog.recoverAbnormally);
- the next file of a queue, made but not yet written to (`recover` removes it);
- missing files of a topic that was deleted (AdminBrokerProcessor.deleteTopic).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from reput.jobs.engines.engine import Row, TaskRows
from reput.jobs.judging import report
from reput.jobs.judging.rocksdb import ROCKSDB_STORE, compare_index, compare_rocksdb
from reput.jobs.opening.open_writer import dispatched_again_from
from reput.jobs.outputs.publish import Built, OfQueues, name_files, of_queues
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import NO_PUTS, OldIndex, Pipeline
from reput.store_format import names
from reput.store_format.damage.contradictions import OldQueues
from reput.store_format.derived.extent import begins_expired, expired_puts
from reput.store_format.derived.index_header import IndexHeader, index_files, read_header
from reput.store_format.derived.queue_files import decode_entries, is_batch, is_message, layout_of
from reput.store_format.discover.config import configured_topics, files_are_live
from reput.store_format.files.folder import Folder, read_part
from reput.store_format.files.protocol import InputStorage, open_followed
from reput.store_format.log.there import Stranger, derived_files
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import every_put_counts_up_to
from reput.store_format.rocksdb.queues import queues_folder
from reput.udfs.compare.files import (
    DIFFERENCE,
    LOOK,
    LOOKED,
    NEVER,
    PAIR,
    CompareFiles,
    LookAtFiles,
    has_mark_only,
)
from reput.udfs.staging import HASHES, MESSAGES, attempt_name

# ---
# Compares the entries of a batch queue one by one, wherever they stand in its files.
#
# A batch entry has its own queueOffset, and a rebuilt queue begins in file 0. If a queue's first
# messages have expired, the same entries stand at other places in RocketMQ's files.

BatchEntryAt = tuple[str, int, Any]  # a file, an offset in it, the entry there (BATCH_QUEUE_ENTRY)


def batch_entries(
    storage: InputStorage, files: Iterable[tuple[str, int]]
) -> Iterator[BatchEntryAt]:
    """The entries of batch queue files. files: (path, number of used bytes from its start)."""
    for path, used in files:
        entries = decode_entries(read_part(storage, path, 0, used), True)
        for number, entry in enumerate(entries):
            yield path, number * entries.itemsize, entry


def first_difference(
    wanted: Iterable[BatchEntryAt], there: Iterable[BatchEntryAt], last: str, log_start: int
) -> tuple[report.Difference, int] | None:
    """(the first difference, physicalOffset of its entry); None if there is no difference.

    Only entries of live messages count: physicalOffset >= log_start.
    last: path of the last file, to name in the difference if entries are missing at the end.
    """
    live = (each for each in there
            if is_message(each[2]) and each[2]["physicalOffset"] >= log_start)  # fmt: skip
    for _, _, entry in wanted:
        place = int(entry["physicalOffset"])
        found = next(live, None)
        if found is None:
            return report.Difference(last, 0, report.MISSING_AT_END, None, None), place
        path, at, other = found
        if other.tobytes() != entry.tobytes():
            name = next(n for n in entry.dtype.names if other[n] != entry[n])
            return report.Difference(path, at, name, int(other[name]), int(entry[name])), place
    more = next(live, None)
    if more is None:
        return None
    path, at, entry = more
    place = int(entry["physicalOffset"])
    return report.Difference(path, at, report.ONE_TOO_MANY, place, 0), place


_FILE_QUEUES = (f"{names.CONSUME_QUEUE}/", f"{names.BATCH_CONSUME_QUEUE}/")


@dataclass
class Verdict:
    """The result. Paths begin with the judged folder."""

    named: list[Built]  # the derived files, each with its path below a store
    differences: list[report.Difference] = field(default_factory=list)
    # files that a broker will complete
    behind: list[report.Difference] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)  # files that RocketMQ's cleaning removes next
    unused: list[str] = field(default_factory=list)  # queues' next files, made but not written to
    deleted_topics: list[str] = field(default_factory=list)  # whose messages the log still has
    index: list[str] = field(default_factory=list)  # index files there, in the log's order
    expired_index: int = 0  # how many of them are before the first that was derived
    files: int = 0  # derived files that were compared, or that should have been there
    strangers: list[Stranger] = field(default_factory=list)  # among queues' files
    in_rocksdb: list[str] = field(default_factory=list)  # numbers of compared rows, as texts
    two_kinds: bool = False  # of queues: in files, and in RocksDB too
    rocksdb: list[str] = field(default_factory=list)  # why rows were not compared
    of_queues: OfQueues = field(default_factory=OfQueues)

    def notes(self) -> list[str]:
        """Neutral lines about what is no fault."""
        lines = list(self.rocksdb)
        if self.behind:
            lines.append(
                f"short of the log's end: {counted(len(self.behind), 'derived file')}, with which "
                f"the broker goes on when it starts (or has by now, where it runs)"
            )
        if self.expired:
            lines.append(
                f"{counted(len(self.expired), 'file')} of expired messages only, which RocketMQ's "
                f"cleaning removes next"
            )
        if self.unused:
            lines.append(
                f"{counted(len(self.unused), 'queue file')} of zeros only at a queue's end, from "
                f"{self.unused[0]} on: brokers count entries in such a file that it does not have, "
                f"or do not start; recover removes it"
            )
        if self.deleted_topics:
            lines.append(f"{counted(len(self.deleted_topics), 'deleted topic')} in the log")
        return [*lines, *self.of_queues.ended, *self.of_queues.shifted]


def judge(job: Pipeline, linked: Linked, against: Folder, of_set: bool = False) -> Verdict:
    """Derive all files from the log and compare them with those in the folder `against`.

    of_set: it has a set that `rebuild` made. Raises StoreError.
    """
    return _Judging(job, linked, against, of_set).verdict()


class _Judging:
    def __init__(self, job: Pipeline, linked: Linked, against: Folder, of_set: bool) -> None:
        self.job, self.linked = job, linked
        self.against, self.of_set = against, of_set
        self.slots = job.plan.settings.max_hash_slot_num
        self.log_start, self.log_end = job.plan.segments[0].start, linked.end
        own = against.path == job.plan.store
        self.growing = own and job.plan.in_use
        self.again_from = NEVER
        if own and (self.growing or names.ABORT in dict(against.listed())):
            self.again_from = dispatched_again_from(job.plan)
        self.early: Mapping[int, int] = {}  # see IndexFiles.begins_early
        self.topics: Collection[str] | None = None  # the topics of config/topics.json
        if own:  # faults of that file are in the plan already, so the notes are dropped
            self.topics = configured_topics(job.plan.folder, Notes())

    def verdict(self) -> Verdict:
        found, strangers = derived_files(self.against)
        files = set(found)
        headed = index_files(self.against)
        index = [f"{names.INDEX}/{each.name}" for each, _ in headed]
        self.job.lives = self.job.lives._replace(queues=OldQueues(self.against))
        expired_index, before = self._expired_index(index)
        puts, _ = self.job.index(self.linked, before)
        self.early = puts.begins_early([head for _, head in headed[expired_index:]])
        built = self.job.build(self.linked, before._replace(begins=self.early))
        zone = self.job.plan.index_zone
        verdict = Verdict(name_files(built, self.job.queue_bytes, None, zone))
        verdict.index = index
        verdict.expired_index, verdict.strangers = expired_index, strangers
        verdict.expired = [self._path(path) for path in index[:expired_index]]
        in_files, in_rocksdb = self._read(verdict, files)
        compared = in_rocksdb and compare_rocksdb(
            self.job, verdict.named, self.log_end, self.against, self._deleted
        )
        alone = bool(compared and not in_files)
        verdict.two_kinds = bool(compared and in_files)
        indexed = compare_index(self.job, self.linked, self.against, bool(index))
        for each in filter(None, (compared or None, indexed)):
            verdict.in_rocksdb += each.what()
            verdict.rocksdb += each.notes
            verdict.differences += each.differences
            verdict.behind += each.behind
        kept = [row for row in verdict.named if not (alone and row["folder"] != names.INDEX)]
        if indexed is not None and not index:
            kept = [row for row in kept if row["folder"] != names.INDEX]
        verdict.files = len(kept)
        index = index[expired_index:]
        wanted = [row for row in kept if row["folder"] == names.INDEX]
        partner = dict(zip((row["path"] for row in wanted), index, strict=False))
        for path in index[len(wanted) :]:
            # begun by a broker after the job began, or the last file, with a writer's mark alone
            since = self.growing and self._index_header(path).begin_offset >= self.log_end
            marked = path == index[-1] and has_mark_only(self._index_header(path))
            if not since and not marked:
                more = report.Difference(self._path(path), 0, report.NO_SUCH_FILE, None, None)
                verdict.differences.append(more)
        queues = {path for path in files if not (alone or path.startswith(f"{names.INDEX}/"))}
        streams, pairs = self._streams(kept, queues), []
        for row in kept:
            if row["folder"] in streams:
                continue
            of_queue = row["path"] if row["path"] in queues else None
            there = partner.get(row["path"]) if row["folder"] == names.INDEX else of_queue
            if there is None:
                self._missing(verdict, row)
                continue
            queues.discard(there)
            pairs.append(self._pair(row, there))
        self._compare(verdict, pairs)
        for folder in sorted(streams):
            rows = [row for row in verdict.named if row["folder"] == folder]
            self._compare_batches(verdict, folder, rows, queues)
        self._left(verdict, queues)
        said, queue_bytes = (self.job.staging, verdict.named), self.job.queue_bytes
        verdict.of_queues = of_queues(*said, queue_bytes)
        # of a queue with other entries the log does not tell what is in none
        other = {each.path for each in verdict.differences if each.wanted is not None}
        if other and verdict.of_queues.left_out:
            paths = {row["path"] for row in verdict.named if self._path(row["path"]) not in other}
            left_out = of_queues(*said, queue_bytes, paths).left_out
            verdict.of_queues = verdict.of_queues._replace(left_out=left_out)
        verdict.differences.sort(key=lambda difference: difference.path)
        verdict.expired.sort()
        verdict.unused.sort()
        return verdict

    def _read(self, verdict: Verdict, files: Iterable[str]) -> tuple[bool, bool]:
        """Whether a broker reads queue files, and queues in RocksDB, of those that are there."""
        plan, there = self.job.plan, [path for path in files if path.startswith(_FILE_QUEUES)]
        folder = queues_folder(self.against)
        if not there or self.against.path != plan.store or not folder:
            return bool(there), True
        live = files_are_live(plan.folder)
        if plan.settings.store_type == ROCKSDB_STORE or live is False:
            verdict.rocksdb.append(
                f"{counted(len(there), 'queue file')} not compared: a broker with storeType="
                f"{ROCKSDB_STORE} does not read them"
            )
            return False, True
        if live and not plan.settings.rocksdb_cq_double_write_enable:
            verdict.rocksdb.append(f"{folder}: not compared: a broker has gone on in files since")
            return True, False
        return True, True

    def _path(self, path: str) -> str:
        return f"{self.against}/{path}"

    def _pair(self, row: Built, path: str) -> Row:
        return {
            "folder": row["folder"],
            "there": self._path(path),
            "derived": self.job.staging.path(row["name"]),
            "used": row["used"],
            "unknown_before": row["folder"] == names.INDEX
            and (row["number"] in self.early or (self.log_start > 0 and not row["number"])),
        }

    def _compare(self, verdict: Verdict, pairs: list[Row]) -> None:
        if not pairs:
            return
        task = CompareFiles(
            self.against.storage, self.job.staging.storage, self.slots, self.log_end,
            self.log_start, self.again_from, self.growing,
            every_put_counts_up_to(self.job.plan.eras), self.of_set,
        )  # fmt: skip
        asked = self._table(pairs, PAIR).run(task, DIFFERENCE)
        used = sum(pair["used"] for pair in pairs)
        with self.job.stages.by_tasks("compared", used, "bytes"):
            rows = asked.collect()
        for row in rows:
            found = verdict.behind if row.pop("behind") else verdict.differences
            found.append(report.Difference(**row))

    def _table(self, rows: list[Row], columns: pa.Schema) -> TaskRows:
        return self.job.engine.table(pa.Table.from_pylist(rows, columns), self.job.cores * 4)

    # --- the index ---------------------------------------------------------------------------

    def _expired_index(self, index: list[str]) -> tuple[int, OldIndex]:
        """(number of index files with expired messages only, expired puts in the file after them).

        Only the last file that begins with an expired message may also have live messages.
        """
        if not self.log_start or not self.job.plan.settings.message_index_enable:
            return 0, NO_PUTS
        partly = -1
        for number, path in enumerate(index):
            with closing(open_followed(self.against.storage, self._path(path))) as file:
                if begins_expired(file, self.slots, self.log_start):
                    partly = number
        if partly < 0:
            return 0, NO_PUTS
        staging, run, count = self.job.staging, attempt_name("expired"), 0
        file = open_followed(self.against.storage, self._path(index[partly]))
        hashes = staging.storage.create(staging.path(run + HASHES))
        messages = staging.storage.create(staging.path(run + MESSAGES))
        for puts in expired_puts(file, self.slots, self.log_start):
            hashes.write(puts.hashes)
            messages.write(puts.messages.view(np.uint8))
            count += len(puts.hashes)
        file.close()
        hashes.finish(4 * count)
        messages.finish(puts.messages.itemsize * count)
        return partly, OldIndex(run, count)

    def _index_header(self, path: str) -> IndexHeader:
        with closing(open_followed(self.against.storage, self._path(path))) as file:
            return read_header(file)

    # --- queues ------------------------------------------------------------------------------

    def _missing(self, verdict: Verdict, row: Built) -> None:
        """Judge a missing file: deleted with its topic, not made yet, or lost."""
        path = row["path"]
        topic = "" if row["folder"] == names.INDEX else names.parse_queue_path(row["folder"]).topic
        if topic and self._deleted(topic):
            if topic not in verdict.deleted_topics:
                verdict.deleted_topics.append(topic)
            return
        found = report.Difference(self._path(path), 0, report.MISSING, None, None)
        behind = self.again_from < NEVER and self._first_place(row) >= self.again_from
        (verdict.behind if behind else verdict.differences).append(found)

    def _deleted(self, topic: str) -> bool:
        """Whether the store's list of topics lacks the topic, and it has no queue file either."""
        if not self.topics or topic in self.topics or topic.startswith(names.LMQ_PREFIX):
            return False
        return not any(
            self.against.listed(f"{kind}/{topic}")
            for kind in (names.CONSUME_QUEUE, names.BATCH_CONSUME_QUEUE)
        )

    def _first_place(self, row: Built) -> int:
        """The first physicalOffset in a derived file; the log's end if it has no entry."""
        staging = self.job.staging
        path, storage = staging.path(row["name"]), staging.storage
        if row["folder"] == names.INDEX:
            with closing(open_followed(storage, path)) as file:
                head = read_header(file)
            return head.begin_offset if head.entries else self.log_end
        if not row["entries"]:
            return self.log_end
        batch = is_batch(row["folder"])
        size = layout_of(batch).itemsize
        raw = read_part(storage, path, row["used"] - row["entries"] * size, size)
        return int(decode_entries(raw, batch)[0]["physicalOffset"])

    def _streams(self, named: Iterable[Built], there: set[str]) -> set[str]:
        """Folders of the batch queues that are compared entry by entry, not place by place.

        The reason is in verdict.py: after an expiry the same entries stand at other places.
        """
        if not self.log_start:
            return set()
        batch = f"{names.BATCH_CONSUME_QUEUE}/"
        have = {path.rpartition("/")[0] for path in there if path.startswith(batch)}
        return {row["folder"] for row in named if row["folder"].startswith(batch)} & have

    def _compare_batches(
        self, verdict: Verdict, folder: str, rows: list[Built], queues: set[str]
    ) -> None:
        """Compare a batch queue's entries, from that of the first live message on."""
        paths = sorted(path for path in queues if path.rpartition("/")[0] == folder)
        queues.difference_update(paths)
        size = self.job.queue_bytes(folder)
        lengths = {path: _size(self.against.storage, self._path(path)) for path in paths}
        wrong = [path for path in paths if lengths[path] != size]
        verdict.differences += [
            report.Difference(self._path(path), 0, report.FILE_LENGTH, lengths[path], size)
            for path in wrong
        ]
        if wrong:
            return
        staging = self.job.staging
        wanted = batch_entries(
            staging.storage, [(staging.path(row["name"]), row["used"]) for row in rows]
        )
        there = batch_entries(self.against.storage, [(self._path(path), size) for path in paths])
        found = first_difference(wanted, there, self._path(paths[-1]), self.log_start)
        if found is None:
            return
        difference, place = found
        if difference.field == report.ONE_TOO_MANY and self.growing and place >= self.log_end:
            return
        behind = difference.field == report.MISSING_AT_END and place >= self.again_from
        (verdict.behind if behind else verdict.differences).append(difference)

    def _left(self, verdict: Verdict, paths: set[str]) -> None:
        """Judge the queue files that have no derived counterpart."""
        if not paths:
            return
        rows = [{"path": p, "folder": p.rpartition("/")[0]} for p in sorted(paths)]
        asked = [{**row, "path": self._path(row["path"])} for row in rows]
        looked = self._table(asked, LOOK).run(LookAtFiles(self.against.storage), LOOKED).collect()
        newest: dict[str, str] = {}
        for row in looked:  # the last file of a queue with an entry is never removed
            if not row["zeros"]:
                newest[row["folder"]] = max(row["path"], newest.get(row["folder"], ""))
        for row in verdict.named:
            newest[row["folder"]] = max(self._path(row["path"]), newest.get(row["folder"], ""))
        for row in looked:
            self._left_file(verdict, row, newest)

    def _left_file(self, verdict: Verdict, row: Row, newest: dict[str, str]) -> None:
        path, size = row["path"], self.job.queue_bytes(row["folder"])
        last = newest.get(row["folder"])
        if row["size"] != size:
            verdict.differences.append(
                report.Difference(path, 0, report.FILE_LENGTH, row["size"], size)
            )
        elif row["zeros"]:
            if not _prepared(path, last, size):
                verdict.differences.append(
                    report.Difference(path, 0, report.NO_SUCH_FILE, None, None)
                )
            elif last is not None and not self.growing:  # else it alone shows the next position
                verdict.unused.append(path)
        elif row["greatest"] is not None and row["greatest"] < self.log_start:
            if path != last:
                verdict.expired.append(path)
        elif not (self.growing and row["least"] is not None and row["least"] >= self.log_end):
            verdict.differences.append(report.Difference(path, 0, report.NO_SUCH_FILE, None, None))


def _prepared(path: str, last: str | None, size: int) -> bool:
    """Whether a file of zeros directly follows its queue's last file with entries."""
    try:
        start = names.parse_segment_name(path.rpartition("/")[2])
        return last is None or start == names.parse_segment_name(last.rpartition("/")[2]) + size
    except ValueError:
        return False


def _size(storage: InputStorage, path: str) -> int:
    with closing(open_followed(storage, path)) as file:
        return file.state.size
