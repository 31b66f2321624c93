"""The Spark queries of a rebuild: scan the log; then number, chain and build from what it wrote.

DataFrame API only, so that the same queries run by spark-submit, on Spark Connect and on
serverless. Only references cross the shuffle; the bytes are in staging.
"""

import os
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.jobs.engine.collect import collect, run_in_tasks
from reput.jobs.engine.link import Linked, Rescan, Scanned, SegmentWalk, link, link_segment
from reput.jobs.engine.plan import Plan
from reput.jobs.engine.progress import Progress
from reput.jobs.engine.publish import Built
from reput.jobs.engine.stages import Stages
from reput.jobs.engine.task_sizes import guided
from reput.store_format.derive.rules import place_rules, scan_rules
from reput.store_format.derived.consume_queue import segment_bytes
from reput.store_format.derived.index_file import capacity
from reput.store_format.derived.index_shape import file_bytes
from reput.store_format.derived.queue_entries import is_batch
from reput.udfs.damage import MAPPED, MapSegments
from reput.udfs.gaps import GAP, FindGaps, queue_gaps
from reput.udfs.in_turn import InTurn
from reput.udfs.index import BuildWhole, ChainRanges, IndexFiles, MergeRanges
from reput.udfs.kept_out import KEPT_OUT, FindKeptOut
from reput.udfs.lost import NOTHING_LOST
from reput.udfs.old_queue import OldQueues
from reput.udfs.queue_shares import BuildShares
from reput.udfs.queues import BuildQueueFiles, NumberRuns
from reput.udfs.scan import ScanSplits
from reput.udfs.schemas import BUILT, CHAINED, PLACED, RUN, SCANNED, Task
from reput.udfs.staged_runs import LOG_ORDER, QUEUE_KEY, SEGMENT_KEY, ListRuns, QueueFiles
from reput.udfs.staging import RUNS, Staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Cut:
    """How the work is cut; the bytes do not depend on it. None: chosen from the cores."""

    split_bytes: int | None = None
    index_ranges: int | None = None
    partitions: int | None = None


# On a cluster settings may tell of fewer cores than there are, and these need tasks too.
_CORES_THERE_MAY_BE = 128
# Up to so many lists of runs, so many bytes of them, and so many entries, which could all be those
# of one queue and fall to one task, queues are built in shares (udfs/queue_shares.py). Where there
# are few cores each task may read more, all together no more than _LIST_BYTES_OF_ALL.
_LISTS_READ_BY_ALL, _LIST_BYTES_READ_BY_ALL = 256, 16 << 20
_MOST_LIST_BYTES_OF_A_TASK, _LIST_BYTES_OF_ALL = 64 << 20, 256 << 20
_ENTRIES_OF_A_TASK = 1 << 25
# So many are built in a seventh of a second: of more, shares are smaller than one for each core.
_ENTRIES_OF_A_SHARE = 1 << 22
# So many puts of an index file are chained in 0.2 s: as much as a query with more stages takes.
_PUTS_OF_A_TASK = 1 << 23


class PutsBefore(NamedTuple):
    """Index puts that come before those of the log: the name of their run in staging, how many."""

    run: str
    puts: int


NO_PUTS = PutsBefore("", 0)


class Pipeline:
    """The two Spark queries of a rebuild: scan the log; number and build from what it wrote."""

    def __init__(
        self,
        spark: "SparkSession",
        plan: Plan,
        staging: Staging,
        cores: int,
        cut: Cut,
        progress: Progress,
    ) -> None:
        self.spark, self.plan, self.staging = spark, plan, staging
        self.cores, self.cut = cores, cut
        self.stages = Stages(spark, plan, staging, progress)
        self.rules = scan_rules(plan.profile, plan.settings, plan.batch_topics)

    def check_every_crc(self) -> None:
        """Check body CRCs and `__CRC32#` properties, whatever the settings say."""
        self.rules = replace(
            self.rules, check_body_crc=True, check_property_crc=self.plan.profile.property_crc
        )

    def check_property_crc(self) -> None:
        """Check a `__CRC32#` where a record has one: nothing else tells of its header and text."""
        self.rules = replace(self.rules, check_property_crc=self.plan.profile.property_crc)

    def scan(self) -> Linked:
        """Scan all splits, and again those whose first record turns out to be another."""
        numbers: range | tuple[int, ...] = range(self.plan.splits.total)
        scanned: dict[int, Scanned] = {}
        firsts: dict[int, int] = {}
        while True:
            self._scan(scanned, numbers, firsts)
            linked = link(self.plan.splits, scanned)
            if isinstance(linked, Linked):
                return linked
            firsts, numbers = {linked.split: linked.first}, (linked.split,)

    def scan_segments(self) -> tuple[dict[int, SegmentWalk], dict[int, Scanned]]:
        """Each segment's own walk by its number, those of a wrong size left out; and all rows."""
        splits = self.plan.splits
        limit = splits.segments[-1].end if splits.limit is None else splits.limit
        segments = [
            n
            for n, segment in enumerate(splits.segments)
            if n not in self.plan.odd and (n == 0 or segment.start < limit)
        ]
        walks: dict[int, SegmentWalk] = {}
        scanned: dict[int, Scanned] = {}
        firsts: dict[int, int] = {}
        numbers = tuple(
            split
            for n in segments
            for split in range(
                n * splits.in_segment, min((n + 1) * splits.in_segment, splits.total)
            )
        )
        while numbers:
            self._scan(scanned, numbers, firsts)
            firsts = {}
            for n in segments:
                if n not in walks:
                    walk = link_segment(splits, scanned, n)
                    if isinstance(walk, Rescan):
                        firsts[walk.split] = walk.first
                    else:
                        walks[n] = walk
            numbers = tuple(firsts)
        return walks, scanned

    def _scan(
        self, scanned: dict[int, Scanned], numbers: range | tuple[int, ...], firsts: dict[int, int]
    ) -> None:
        cores = self.cores if is_local(self.spark) else max(self.cores, _CORES_THERE_MAY_BE)
        groups = guided(len(numbers), cores)
        task = ScanSplits(
            self.plan.storage, self.staging, self.plan.splits, self.rules, numbers, groups, firsts
        )
        rows = run_in_tasks(self.ids(len(groups)), task, SCANNED)
        with self.stages.scanned():
            scanned.update((row["split"], row) for row in collect(rows))

    def map_segments(self, task: MapSegments) -> list[Scanned]:
        """Scan damaged segments past their damage; one MAPPED row each."""
        frame = run_in_tasks(self.ids(len(task.segments)), task, MAPPED)
        with self.stages.past_damage(len(task.segments)):
            return collect(frame)

    def find_gaps(
        self, linked: Linked, most: int, lines: bool, ask_queues: bool = False
    ) -> list[dict[str, Any]]:
        """GAP rows, at most so many a task: lost positions of queues, and how queues begin.

        ask_queues: also what the store's own queue files say.
        """
        old = OldQueues(self.plan.storage, self.plan.store) if ask_queues else None
        files, lost = self._queue_files(linked), linked.lost or NOTHING_LOST
        task = FindGaps(files, lost, most, lines, old)
        with self.stages.by_tasks("asked what is missing", _messages(linked), "messages"):
            return collect(run_in_tasks(self._runs_by_queue(linked), task, GAP))

    def find_kept_out(self, task: FindKeptOut) -> list[dict[str, Any]]:
        """KEPT_OUT rows: records that no queue takes though one misses them."""
        frame = run_in_tasks(self.ids(len(task.segments)), task, KEPT_OUT)
        with self.stages.by_tasks("asked what is missing", len(task.segments), "segments"):
            return collect(frame)

    def build(self, linked: Linked, before: PutsBefore = NO_PUTS) -> list[Built]:
        """Build all queue and index files in staging; one BUILT row each.

        before: puts of expired messages with which the first index file begins.
        """
        settings, few = self.plan.settings, self._has_few_runs(linked)
        index, files = self.index(linked, before)
        alone = self.alone(linked, few, index, files)
        frames: list[DataFrame] = []
        if alone.total:
            frames.append(run_in_tasks(self.ids(alone.total), alone, BUILT))
        if files and index.ranges > 1:
            frames.append(self._index_frame(index, files))
        if not few:
            frames.append(self.queue_frame(linked))
        frame = reduce(lambda one, other: one.unionByName(other), frames)
        index_bytes = files * file_bytes(settings.max_hash_slot_num, settings.max_index_num)
        with self.stages.built(linked, index_bytes):
            return collect(frame)

    def alone(self, linked: Linked, few: bool, index: IndexFiles, files: int) -> InTurn:
        """The tasks that build files from nothing but a number: of so many index files if they are
        built whole, and of queues if these have few runs.
        """
        tasks: list[tuple[int, Task]] = []
        if files and index.ranges == 1:
            tasks.append((files, BuildWhole(index)))
        if few:
            shares = self._shares(linked)
            tasks.append((shares, BuildShares(self._numbered(linked), shares)))
        return InTurn(tuple(tasks))

    def index(self, linked: Linked, before: PutsBefore = NO_PUTS) -> tuple[IndexFiles, int]:
        """What index files are made of, and how many of them are."""
        wanted = self.plan.settings.builds_index
        files = index_file_count(self.plan, linked, before.puts) if wanted else 0
        return index_files(self.plan, self.staging, linked, self._ranges(linked), before), files

    def _shares(self, linked: Linked) -> int:
        """In how many shares queues are built: one a core, or up to two where these are large, so
        that no core waits long for the last one.
        """
        wanted = _messages(linked) // _ENTRIES_OF_A_SHARE
        return min(max(self.cores, wanted), 2 * self.cores)

    def _has_few_runs(self, linked: Linked) -> bool:
        """Whether every task may as well read the lists of all runs."""
        if self.cut.partitions or len(linked.runs) > _LISTS_READ_BY_ALL:
            return False
        if _messages(linked) > _ENTRIES_OF_A_TASK:
            return False
        lists = {run + RUNS for run in linked.runs.values()}
        listed = self.staging.storage.list(self.staging.folder)
        sizes = (state.size for name, state in listed if name in lists and state)
        shared = min(_MOST_LIST_BYTES_OF_A_TASK, _LIST_BYTES_OF_ALL // self._shares(linked))
        return sum(sizes) <= max(_LIST_BYTES_READ_BY_ALL, shared)

    def runs_frame(self, linked: Linked) -> "DataFrame":
        """The RUN rows of the accepted splits."""
        ids = self.ids(self.plan.splits.total, self.cores)
        return run_in_tasks(ids, ListRuns(self.staging, linked.runs), RUN)

    def _queue_files(self, linked: Linked) -> QueueFiles:
        settings = self.plan.settings
        return QueueFiles(
            self.staging,
            linked.runs,
            place_rules(self.plan.profile),
            settings.mapped_file_size_consume_queue,
            settings.mapper_file_size_batch_consume_queue,
            linked.firsts,
            linked.strays,
            linked.twice,
            linked.no_room,
            linked.repaired,
        )

    def _runs_by_queue(self, linked: Linked) -> "DataFrame":
        """Whole queues, each in the log's order."""
        partitions = self.cut.partitions or self.cores
        runs = self.runs_frame(linked).repartition(partitions, *QUEUE_KEY)
        return runs.sortWithinPartitions(*QUEUE_KEY, *LOG_ORDER)

    def _numbered(self, linked: Linked) -> NumberRuns:
        files = self._queue_files(linked)
        lost = linked.lost or NOTHING_LOST
        gaps = partial(queue_gaps, files, lost) if lost.any or linked.no_room else None
        return NumberRuns(files, gaps, lost)

    def queue_frame(self, linked: Linked) -> "DataFrame":
        """BUILT rows of the queues' segments."""
        number = self._numbered(linked)
        placed = run_in_tasks(self._runs_by_queue(linked), number, PLACED)
        placed = placed.repartition((self.cut.partitions or self.cores) * 2, *SEGMENT_KEY)
        placed = placed.sortWithinPartitions(*SEGMENT_KEY, *LOG_ORDER, "entries_at")
        return run_in_tasks(placed, BuildQueueFiles(number.files), BUILT)

    def queue_bytes(self, folder: str) -> int:
        """Bytes of a file in this queue's folder."""
        batch = is_batch(folder)
        settings = self.plan.settings
        configured = (
            settings.mapper_file_size_batch_consume_queue
            if batch
            else settings.mapped_file_size_consume_queue
        )
        return segment_bytes(configured, batch)

    def _index_frame(self, index: IndexFiles, files: int) -> "DataFrame":
        """BUILT rows of the index files, each of several ranges."""
        chained = run_in_tasks(self.ids(files * index.ranges), ChainRanges(index), CHAINED)
        chained = chained.repartition(min(files, self.cores * 4), "file")
        chained = chained.sortWithinPartitions("file", "range")
        return run_in_tasks(chained, MergeRanges(index), BUILT)

    def _ranges(self, linked: Linked) -> int:
        """In how many slot ranges each index file is built: in one if every core has a file, or
        there are so few puts that more tasks would cost more than they are worth.
        """
        if self.cut.index_ranges:
            return self.cut.index_ranges
        files = index_file_count(self.plan, linked)
        if sum(row["index_puts"] for row in linked.accepted) <= files * _PUTS_OF_A_TASK:
            return 1
        return max(1, -(-self.cores // max(files, 1)))

    def ids_from(self, first: int) -> "DataFrame":
        """The splits from number `first` on, in the column `id`."""
        count = self.plan.splits.total
        return self.spark.range(first, count, 1, max(1, count - first))

    def ids(self, count: int, partitions: int | None = None) -> "DataFrame":
        """Rows 0 .. count - 1 in the column `id`, each in a partition of its own if it can be."""
        return self.spark.range(0, count, 1, max(1, min(count, partitions or count)))


def index_files(
    plan: Plan, staging: Staging, linked: Linked, ranges: int, before: PutsBefore = NO_PUTS
) -> IndexFiles:
    """Where the puts of the accepted splits are: a running total over them."""
    ends, total = [before.puts], before.puts
    for row in linked.accepted:
        total += row["index_puts"]
        ends.append(total)
    return IndexFiles(
        staging=staging,
        runs=(before.run, *(row["run"] for row in linked.accepted)),
        ends=tuple(ends),
        slots=plan.settings.max_hash_slot_num,
        index_num=plan.settings.max_index_num,
        ranges=ranges,
        count_every_put=plan.profile.count_every_put,
        empty_index_count=plan.profile.empty_index_count,
    )


def index_file_count(plan: Plan, linked: Linked, before: int = 0) -> int:
    """How many index files the log makes.

    RocketMQ makes the next file when a message comes and the last file is full, before it looks
    whether the message has keys (IndexService.retryGetAndCreateIndexFile).
    """
    puts: int = before + sum(row["index_puts"] for row in linked.accepted)
    last_record = max((row["last_record"] for row in linked.accepted), default=-1)
    last_put = max((row["last_put"] for row in linked.accepted), default=-1)
    a_file = capacity(plan.settings.max_index_num)
    files = -(-puts // a_file)
    if last_record < 0:
        return files
    last_is_full = puts % a_file == 0
    return files + 1 if last_is_full and last_record > last_put else files


def _messages(linked: Linked) -> int:
    return sum(row["records"] for row in linked.accepted)


def spark_cores(spark: "SparkSession") -> int:
    """How many tasks run at once, as far as the session's settings tell; 16 where they don't."""
    conf = {
        name: spark.conf.get(name, "") or ""
        for name in (
            "spark.default.parallelism",
            "spark.master",
            "spark.cores.max",
            "spark.executor.instances",
            "spark.executor.cores",
        )
    }
    for name in ("spark.default.parallelism", "spark.cores.max"):
        if conf[name]:
            return int(conf[name])
    master = conf["spark.master"]
    if master.startswith("local["):
        threads = master[6:].split("]")[0].split(",")[0]
        return _machine_cores() if threads == "*" else int(threads)
    if master == "local":
        return 1
    if conf["spark.executor.instances"]:
        return int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"] or "1")
    return 16


def is_local(spark: "SparkSession") -> bool:
    """Whether all tasks run on the driver's own machine, as far as the session tells."""
    return (spark.conf.get("spark.master", "") or "").startswith("local")


def _machine_cores() -> int:
    return len(os.sched_getaffinity(0))
