"""Compares queues and index of a store in RocksDB with the rows that its log gives, by key."""

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from reput.jobs.deriving.rocksdb_set import index_runs
from reput.jobs.judging.report import Difference
from reput.jobs.opening.plan import ROCKSDB, index_kind
from reput.jobs.outputs.publish import Built
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.derived.queue_files import (
    BadQueue,
    Entries,
    decode_entries,
    is_message,
    is_pre_blank,
)
from reput.store_format.discover.config import has_database, has_rows
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.log.columns import records_at
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.message.message import parse_properties
from reput.store_format.names import (
    ABORT,
    CONSUME_QUEUE,
    STORE_DB,
    parse_queue_path,
    parse_segment_name,
)
from reput.store_format.rocksdb.database import RocksDBError, RocksDBMissing, open_database
from reput.store_format.rocksdb.queues import MIN, RocksDBQueues, queues_folder
from reput.store_format.rocksdb.rows import RocksDBIndex
from reput.udfs.compare.files import NEVER
from reput.udfs.table.rocksdb_index import COMPARED, CompareIndexRows, index_cuts

# ---
# Compares queues in RocksDB with the queues that the log gives, entry by entry, by key.
#
# RocksDB's files are never the same twice. Its rows follow from the log, but these are not judged:
#
# - rows before a queue's first live message, and after its max row, which a broker does not read;
# - rows from the dispatch checkpoint on, which a broker writes again when it starts;
# - which of several records with one queueOffset has the row, as that depends on the batches in
#   which they were dispatched (RocksDBConsumeQueueStore.putMessagePosition0).

_FIELDS = ("physicalOffset", "size", "tagsCode")
_CHUNK = 1 << 16  # entries compared at a time
_TIMES_MOST = 1 << 22  # entries whose times are compared in one pass through the log
_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
_SELECTIVE = "rocksdbCQSelectiveDoubleWriteEnable"
NO_INDEX = "no key is in RocksDB, the index's only place: a broker adds those of what comes"
NO_ROW, ONE_TOO_MANY = "the row is missing in RocksDB", "the log gives no such row in RocksDB"
NO_QUEUE = "the queue is missing in RocksDB"
ROCKSDB_STORE = "defaultRocksDB"  # a StoreType
NO_ROCKSDB = (
    "no queue is in RocksDB, where a broker with storeType=defaultRocksDB reads: it makes the rows "
    "from the log, but not that of position 0, nor the ends of queues that have all expired"
)  # RocksDBConsumeQueueStore.getMaxPhyOffsetInConsumeQueue is 0 then, which counts as dispatched
WRONG_MIN = "min in RocksDB, behind the first message"

Numbers = Any  # int64 arrays


@dataclass
class Compared:
    """The result of comparing the queues, or the index, in one RocksDB."""

    queues: int = 0
    entries: int = 0  # of queues
    rows: int = 0  # of the index
    notes: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    behind: list[Difference] = field(default_factory=list)  # rows that a broker will add

    def what(self) -> list[str]:
        """A line with the number of compared rows; none if nothing was compared."""
        of_queues = f"{counted(self.entries, 'entry')} of {counted(self.queues, 'queue')}"
        of_index = f"{counted(self.rows, 'row')} of the index"
        return [of_queues] * (self.queues > 0) + [of_index] * (self.rows > 0)


def compare_rocksdb(
    job: Pipeline, named: Iterable[Built], log_end: int, against: Folder,
    deleted: Any = lambda topic: False,
) -> Compared | None:  # fmt: skip
    """Compare the RocksDB below `against` with derived queue files; None if there is no RocksDB,
    and none is read.

    named: BUILT rows of the derived files; deleted: topic -> whether it was deleted.
    Raises RocksDBMissing without the library.
    """
    folder, compared = queues_folder(against), Compared()
    if folder is None:
        if against.path != job.plan.store or job.plan.settings.store_type != ROCKSDB_STORE:
            return None
        missing = Difference(f"{against}/{CONSUME_QUEUE}", 0, NO_ROCKSDB, None, None)
        compared.differences.append(missing)
        return compared
    try:
        queues = RocksDBQueues(against.path, folder)
    except RocksDBMissing:
        raise
    except RocksDBError as error:
        compared.differences.append(Difference(folder.path, 0, error.reason, None, None))
        return compared
    comparison = _Comparison(job, queues, log_end, compared)
    try:
        comparison.compare(list(named), deleted)
    except RocksDBError as error:
        compared.differences.append(Difference(folder.path, 0, error.reason, None, None))
    except BadQueue as error:
        said = f"position {error.offset}: {error.field} {error.value}: {error.reason}"
        compared.differences.append(Difference(error.path, error.offset, said, None, None))
    finally:
        queues.close()
        comparison.log.close()
    return compared


class _Comparison:
    def __init__(
        self, job: Pipeline, queues: RocksDBQueues, log_end: int, compared: Compared
    ) -> None:
        plan = job.plan
        self.job, self.queues, self.compared = job, queues, compared
        self.log = LogReader(plan.storage, plan.segments, plan.record_rules, end=log_end)
        self.log_start, self.log_end = plan.segments[0].start, log_end
        self.again_from = max(queues.dispatched_to(), 0)  # a broker rewrites the rows from there on
        running = plan.in_use or ABORT in dict(plan.folder.listed())
        if not running and plan.settings.rocksdb_cq_double_write_enable:
            self.again_from = NEVER  # it goes on where the files end (5.3.3; 5.5.1 leaves one out)
        self.times: list[tuple[str, Numbers, Numbers, Numbers]] = []
        self.waiting, self.split_properties = 0, plan.profile.split_properties
        # with this setting RocksDB has only the queues of lite topics
        self.some_topics = plan.discovered.settings.get(_SELECTIVE) == "true"

    def compare(self, named: list[Built], deleted: Any) -> None:
        batch = self.job.plan.batch_topics
        seen = set()
        rows = [row for row in named if row["folder"].split("/")[0] == CONSUME_QUEUE]
        rows.sort(key=lambda row: row["path"])
        for folder, of_queue in groupby(rows, key=lambda row: row["folder"]):
            _, topic, queue_id = parse_queue_path(folder)
            key = topic, queue_id
            seen.add(key)
            lacks = key not in self.queues.maxima and (self.some_topics or deleted(topic))
            if topic not in batch and not lacks:
                self._queue(*key, list(of_queue))
        for topic, queue_id in sorted(set(self.queues.maxima) - seen):
            self._too_many(topic, queue_id)
        self._compare_times()
        self._minima()

    def _folder(self, topic: str, queue_id: int) -> str:
        return f"{self.queues.database.folder}/{topic}/{queue_id}"

    def _queue(self, topic: str, queue_id: int, rows: list[Built]) -> None:
        """Compare one queue, up to its first difference."""
        where = self._folder(topic, queue_id)
        self.compared.queues += 1
        queue = self.queues.open(topic, queue_id, False)
        expected = end = 0
        for positions, wanted in self._wanted(rows):
            live = wanted["physicalOffset"] >= self.log_start
            positions, wanted = positions[live], wanted[live]
            if not len(positions):
                continue
            if not expected and self._extra(queue, where, 0, int(positions[0])):
                return
            first, stop = int(positions[0]), int(positions[-1]) + 1
            if expected and first > end and self._extra(queue, where, end, first):
                return
            found = list(queue.rows(first, stop))
            there = np.concatenate([np.empty(0, np.int64), *(p for p, _ in found)])
            values = [each for _, each in found]
            kept = ~self._fillers(topic, queue_id, positions, wanted, there)
            positions, wanted = positions[kept], wanted[kept]
            if self._missing(topic, queue_id, where, positions, wanted, there):
                return
            both = np.concatenate(values)[np.isin(there, positions)]
            if self._differ(topic, queue_id, where, positions, wanted, both):
                return
            if self._extra_of(where, there, values, positions):
                return
            places, times = (both[n].astype(np.int64) for n in ("physicalOffset", "storeTimestamp"))
            self.times.append((where, positions, places, times))
            self.waiting += len(positions)
            if self.waiting >= _TIMES_MOST:
                self._compare_times()
            expected, end = expected + len(positions), stop
            self.compared.entries += len(positions)
        if expected and queue.maximum() > end:
            self._extra(queue, where, end, queue.maximum())

    def _fillers(
        self, topic: str, queue_id: int, positions: Numbers, wanted: Entries, there: Numbers
    ) -> Numbers:
        """One bool for each entry: whether it only fills the position of a lost message.

        In a file such a position has the entry of the next message; in RocksDB it has no row.
        """
        found = np.zeros(len(positions), np.bool_)
        at = wanted["physicalOffset"]
        again = np.append(at[1:] == at[:-1], True)  # the last entry's neighbour is not known here
        lacks = np.flatnonzero(again & ~np.isin(positions, there))
        places, of_place = np.unique(wanted[lacks]["physicalOffset"], return_inverse=True)
        for number, place in enumerate(places.tolist()):
            try:
                record = self.log.record_at(place)
            except (NoRecord, NotInLog):
                continue
            if (record.topic, record.queue_id) == (topic, queue_id):
                some = lacks[of_place == number]
                found[some] = positions[some] != record.queue_offset
        return found

    def _missing(
        self, topic: str, queue_id: int, where: str, positions: Numbers, wanted: Entries,
        there: Numbers,
    ) -> bool:  # fmt: skip
        """Whether an entry is missing, which ends the comparison of the queue."""
        lacks = np.flatnonzero(~np.isin(positions, there))
        if not len(lacks):
            return False
        first = lacks[0]
        known = (topic, queue_id) in self.queues.maxima
        again = int(wanted[first]["physicalOffset"]) >= self.again_from
        found = self.compared.behind if again else self.compared.differences
        lost = NO_ROW if known else NO_QUEUE
        found.append(Difference(where, int(positions[first]), lost, None, None))
        return True

    def _differ(
        self, topic: str, queue_id: int, where: str, positions: Numbers, wanted: Entries,
        there: Entries,
    ) -> bool:  # fmt: skip
        """Whether an entry differs from that of the log."""
        other = np.zeros(len(wanted), np.bool_)
        for name in _FIELDS:
            other |= wanted[name] != there[name]
        for number in np.flatnonzero(other).tolist():
            place = int(there[number]["physicalOffset"])
            position = int(positions[number])
            if place != int(wanted[number]["physicalOffset"]) and self._is_at(
                place, topic, queue_id, position
            ):
                continue  # the row is that of another record with the same queueOffset
            if max(place, int(wanted[number]["physicalOffset"])) >= self.again_from:
                continue  # a broker writes it again
            name = next(n for n in _FIELDS if wanted[number][n] != there[number][n])
            is_, should = int(there[number][name]), int(wanted[number][name])
            self.compared.differences.append(Difference(where, position, name, is_, should))
            return True
        return False

    def _is_at(self, place: int, topic: str, queue_id: int, position: int) -> bool:
        try:
            record = self.log.record_at(place)
        except (NoRecord, NotInLog):
            return False
        return (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, position)

    def _extra(self, queue: Any, where: str, first: int, stop: int) -> bool:
        """Whether there are rows of live messages where the log gives none."""
        for positions, values in queue.rows(first, stop):
            if self._extra_of(where, positions, [values], np.empty(0, np.int64)):
                return True
        return False

    def _extra_of(
        self, where: str, there: Numbers, values: list[Entries], positions: Numbers
    ) -> bool:
        places = np.concatenate(values)["physicalOffset"]
        extra = ~np.isin(there, positions) & (places >= self.log_start)
        extra &= places < self.again_from
        if self.job.plan.in_use:
            extra &= places < self.log_end
        numbers = np.flatnonzero(extra)
        if not len(numbers):
            return False
        position = int(there[numbers[0]])
        self.compared.differences.append(Difference(where, position, ONE_TOO_MANY, None, None))
        return True

    def _too_many(self, topic: str, queue_id: int) -> None:
        """Judge a queue that has no derived file. Multi-dispatch may put a queue into RocksDB alone
        (combineCQUseRocksdbForLmq, or a name without %LMQ%) if its messages name it.
        """
        queue, where = self.queues.open(topic, queue_id, False), self._folder(topic, queue_id)
        for entry in queue.entries(0):
            if self.log_start <= entry.physical_offset < self.again_from:
                try:
                    record = self.log.record_at(entry.physical_offset)
                    properties = parse_properties(record.properties, self.split_properties)
                    names = properties.get(_MULTI_DISPATCH, "")
                except (NoRecord, NotInLog):
                    names = ""
                if topic not in names.split(","):
                    self._extra(queue, where, entry.position, entry.position + 1)
                    return

    def _wanted(self, rows: list[Built]) -> Iterator[tuple[Numbers, Entries]]:
        """(positions int64, QUEUE_ENTRY array): the entries of a queue's files, by chunks."""
        staging = self.job.staging
        for row in rows:
            start = parse_segment_name(row["path"].rpartition("/")[2]) // QUEUE_ENTRY_BYTES
            used = row["used"] // QUEUE_ENTRY_BYTES
            with closing(staging.storage.open(staging.path(row["name"]))) as file:
                for first in range(0, used, _CHUNK):
                    raw = np.empty(min(_CHUNK, used - first) * QUEUE_ENTRY_BYTES, np.uint8)
                    file.read_into(first * QUEUE_ENTRY_BYTES, raw)
                    entries = decode_entries(raw)
                    kept = is_message(entries) & ~is_pre_blank(entries)
                    yield (np.arange(len(entries)) + start + first)[kept], entries[kept]

    # --- times: entries in files have none, so they are compared with the records ----------------

    def _compare_times(self) -> None:
        """Compare the kept storeTimestamps with the records, in one pass through the log."""
        if not self.times:
            return
        places = np.unique(np.concatenate([each[2] for each in self.times]))
        of_log = np.full(len(places), -1)
        for some in records_at(self.log, places):
            of_rows = np.searchsorted(places, some.rows["physicalOffset"])
            of_log[of_rows] = some.rows["storeTimestamp"]
            for place in some.others:
                with suppress(NoRecord, NotInLog):
                    time = self.log.record_at(place).store_timestamp
                    of_log[np.searchsorted(places, place)] = time
        for where, positions, at, times in self.times:
            wanted = of_log[np.searchsorted(places, at)]
            wrong = np.flatnonzero((wanted >= 0) & (wanted != times))
            if len(wrong):
                at, is_, should = (int(each[wrong[0]]) for each in (positions, times, wanted))
                found = Difference(where, at, "storeTimestamp", is_, should)
                self.compared.differences.append(found)
        self.times, self.waiting = [], 0

    def _minima(self) -> None:
        """Report each min row that a broker would believe and that skips live messages."""
        for (topic, queue_id), (place, position) in self.queues.offsets(MIN):
            if place < self.log_start or (topic, queue_id) not in self.queues.maxima:
                continue
            queue, where = self.queues.open(topic, queue_id, False), self._folder(topic, queue_id)
            first = queue.minimum(self.log_start, self.job.plan.profile)
            if position > first:
                found = Difference(where, first, WRONG_MIN, position, first)
                self.compared.differences.append(found)


# ---
# Compares the rows of an index in RocksDB with the rows that the log gives, by key.
#
# Not judged are
# - rows of expired messages, which stay until a compaction;
# - rows from the newest message on, which a broker writes again when it starts (lastOffsetPy);
# - messages before the first message with a row, as the index may have been switched on late.

_ROWS_AT_ONCE = 1 << 20
_MISSING = "are missing in RocksDB"


def compare_index(
    job: Pipeline, linked: Linked, against: Folder, in_files: bool = True
) -> Compared | None:
    """Compare the index in RocksDB below `against`; None if there is none, and none is read.

    in_files: there are index files, or may be, in which earlier keys are.
    """
    folder, found = against / STORE_DB, Compared()
    alone = not in_files and against.path == job.plan.store and index_kind(job.plan) == ROCKSDB
    try:
        if has_database(folder):
            with closing(open_database(folder)) as database:
                index = RocksDBIndex(database)
                if index.has_rows:
                    _compare(job, linked, against.storage, index, found)
                    return found
        if not (alone and index_runs(job, linked)):
            return None
        to = found.behind if job.plan.in_use else found.differences  # it has them in memory
        to.append(Difference(folder.path, 0, NO_INDEX, None, None))
    except RocksDBMissing as error:  # the database may have rows of timers only
        if not has_rows(folder):
            return None
        found.notes.append(f"{error}: it is not compared")
    except RocksDBError as error:
        found.differences.append(Difference(folder.path, 0, error.reason, None, None))
    return found


def _compare(
    job: Pipeline, linked: Linked, there: InputStorage, index: RocksDBIndex, found: Compared
) -> None:  # fmt: skip
    folder, log_start = index.database.folder, job.plan.segments[0].start
    runs = tuple(index_runs(job, linked))
    cuts = index_cuts(list(runs), job.cores, _ROWS_AT_ONCE) if runs else ()
    task = CompareIndexRows(
        there, folder, job.staging, runs, cuts, log_start, min(index.last_offset, linked.end)
    )
    compared = job.ids(len(cuts) + 1, job.cores).run(task, COMPARED).collect()
    for row in compared:
        if row["unread"] is not None:
            raise RocksDBError(folder, row["unread"])
    lost = np.concatenate([np.frombuffer(row["lost"], np.int64) for row in compared])
    begin = min((row["begin"] for row in compared if row["begin"] >= 0), default=linked.end)
    missing = lost[(lost >= begin) & (lost < index.last_offset)]
    late = lost[(lost >= begin) & (lost >= index.last_offset)]

    def differs(to: list[Difference], rows: int, first: int, said: str) -> None:
        if rows:
            text = f"index: {rows:,} rows {said}, first of the message at {first}"
            to.append(Difference(folder, int(first), text, None, None))

    differs(found.differences, len(missing), missing.min(initial=linked.end), _MISSING)
    for kind, said in (
        ("extra", "are in RocksDB that the log does not give"),
        ("other", "have another storeTimestamp in RocksDB"),
    ):
        some = [row for row in compared if row[kind]]
        first = min((row[f"first_{kind}"] for row in some), default=-1)
        differs(found.differences, sum(row[kind] for row in some), first, said)
    differs(found.behind, len(late), late.min(initial=linked.end), _MISSING)
    found.rows = sum(row["rows"] for row in compared) - int((lost < begin).sum())
    if begin > min((run["first_offset"] for run in runs), default=begin):
        found.notes.append(f"{folder}: its index begins with the message at {begin}")
