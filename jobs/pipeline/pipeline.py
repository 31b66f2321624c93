"""The two steps of a rebuild, with their progress and the number of tasks: scan the log; then
number, chain and build from the scan's files.

Rows only tell where bytes are in staging.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

from reput.jobs.engines.engine import Engine, Row, TaskRows
from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.publish import Built
from reput.jobs.pipeline import link
from reput.jobs.pipeline.stages import Stages, guided, messages
from reput.store_format.damage.contradictions import OldQueues
from reput.store_format.damage.queue_findings import QueueFindings
from reput.store_format.derived.index_file import capacity
from reput.store_format.derived.index_reader import file_bytes
from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.dispatch.scan import place_rules, rocksdb_rules, scan_rules
from reput.store_format.faults import StoreError
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.log.segments import Segment
from reput.store_format.notes import Progress
from reput.store_format.release.profiles import every_put_counts_up_to
from reput.udfs.damage.lives import PIECES, VERDICTS, JudgeLives, ListPieces, SoundPart
from reput.udfs.damage.searches import FALSE_TRANSACTION, FindFalseTransactions
from reput.udfs.damage.segments import MAPPED, MapSegments
from reput.udfs.damage.witnesses import FINDINGS, SearchQueues, joined
from reput.udfs.rebuild.built_files import KEPT, KeepRows, KeptFiles, QueueBytes, kept_rows
from reput.udfs.rebuild.carried import CarryRuns
from reput.udfs.rebuild.index import BuildWhole, ChainRanges, IndexFiles, MergeRanges
from reput.udfs.rebuild.queues import BuildQueueFiles, BuildShares, NumberRuns
from reput.udfs.rebuild.runs import LOG_ORDER, QUEUE_KEY, SEGMENT_KEY, ListRuns, Lives, StagedRuns
from reput.udfs.rebuild.scan import ScanSplits
from reput.udfs.staging import (
    BUILT,
    CARRIED,
    CHAINED,
    PLACED,
    RUN,
    SCANNED,
    TIMED,
    InTurn,
    Staging,
    Task,
)


@dataclass(frozen=True)
class Cut:
    """How the work is cut into tasks, which does not change the result. None: by the cores."""

    split_bytes: int | None = None
    index_ranges: int | None = None
    partitions: int | None = None


# Limits up to which queues are built in shares (queues.py), where each task reads the lists
# of all runs: the number and bytes of lists, and the entries (one queue may have all entries, and
# then one task builds them). With few cores a task may read more bytes of lists, but all tasks
# together at most _LIST_BYTES_OF_ALL.
_LISTS_READ_BY_ALL, _LIST_BYTES_READ_BY_ALL = 256, 16 << 20
_MOST_LIST_BYTES_OF_A_TASK, _LIST_BYTES_OF_ALL = 64 << 20, 256 << 20
_ENTRIES_OF_A_TASK = 1 << 25
MANY_FILES = 5000  # more are not in the driver's memory, nor in a manifest that is one file
_RUN_BYTES = 1 << 7  # of a list, or of a row that travels
_BYTES_OF_A_TASK = 192 << 20  # of output
# So many zeros are sent without a question.
_QUEUE_FILE, _ZEROS_SENT = "mappedFileSizeConsumeQueue", 64 << 30
# With entries that travel, one task holds its share of them; the local engine holds all of them.
_ENTRIES_OF_A_CARRYING_TASK, _ENTRIES_THROUGH_ONE_PROCESS = 1 << 23, 1 << 26
# A task builds these entries in a seventh of a second; a larger share is cut further.
_ENTRIES_OF_A_SHARE = 1 << 22
# A task chains these index puts in 0.2 s, which the further stages for several ranges cost too.
_PUTS_OF_A_TASK = 1 << 23
NO_END = 1 << 62  # as a position: where the queue ends is not known


class OldIndex(NamedTuple):
    """What the log alone does not tell of a store's index: puts that come before those of the log,
    and which files begin early.
    """

    run: str = ""  # name of the run of these puts in staging
    puts: int = 0  # their number
    begins: Mapping[int, int] = {}  # see IndexFiles


NO_PUTS = OldIndex()


class Pipeline:
    """The steps of a rebuild of one store, on an engine and in a staging folder."""

    def __init__(
        self, engine: Engine, plan: Plan, staging: Staging, cut: Cut, progress: Progress
    ) -> None:
        self.engine, self.plan, self.staging = engine, plan, staging
        self.cores, self.cut = engine.cores, cut
        self.stages = Stages(engine, plan, staging, progress)
        self.queue_bytes = QueueBytes(
            plan.settings.mapped_file_size_consume_queue,
            plan.settings.mapper_file_size_batch_consume_queue,
        )
        self.lives = Lives(OldQueues(plan.queues_at), plan.remade)
        rules = scan_rules(
            plan.profile, plan.settings, plan.batch_topics, plan.eras, plan.discovered.again,
            plan.heads_from,
        )  # fmt: skip
        self.rules = replace(rules, older_delays=plan.discovered.older_delays)
        self.sums = False  # whether the scan stages what `all_sums` reads

    def keep_times(self) -> None:
        """Keep the storeTimestamps of queue entries, as rows in RocksDB have storeTimestamps."""
        self.rules = rocksdb_rules(self.rules, self.plan.profile, self.plan.settings)

    def check_every_crc(self) -> None:
        """Check body CRCs and `__CRC32#` properties, whatever the settings say."""
        self.rules = replace(
            self.rules, check_body_crc=True, check_property_crc=self.plan.profile.property_crc
        )

    def check_property_crc(self) -> None:
        """Check `__CRC32#` properties, as nothing else covers a record's header and text."""
        self.rules = replace(self.rules, check_property_crc=self.plan.profile.property_crc)

    def scan(self) -> link.Linked:
        return link.link_all(self.plan.splits, self._scan)

    def scan_segments(self) -> tuple[dict[int, link.SegmentWalk], dict[int, link.Scanned]]:
        """({segment: its walk}, {split: SCANNED row}) of all segments but those of a wrong size."""
        splits = self.plan.splits
        limit = splits.segments[-1].end if splits.limit is None else splits.limit
        segments = [
            n
            for n, segment in enumerate(splits.segments)
            if n not in self.plan.odd and (n == 0 or segment.start < limit)
        ]
        walks: dict[int, link.SegmentWalk] = {}
        scanned: dict[int, link.Scanned] = {}
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
                    walk = link.link_segment(splits, scanned, n)
                    if isinstance(walk, link.Rescan):
                        firsts[walk.split] = walk.first
                    else:
                        walks[n] = walk
            numbers = tuple(firsts)
        return walks, scanned

    def _scan(
        self,
        scanned: dict[int, link.Scanned],
        numbers: range | tuple[int, ...],
        firsts: dict[int, int],
    ) -> None:
        split_bytes = self.plan.splits.split_bytes
        groups = guided(len(numbers), self.engine.most_cores, split_bytes)
        task = ScanSplits(
            self.plan.storage, self.staging, self.plan.splits, self.rules, numbers, groups, firsts,
            self.sums,
        )  # fmt: skip
        rows = self.ids(len(groups)).run(task, SCANNED)
        with self.stages.scanned(numbers, groups):
            scanned.update(link.by_split(rows.as_table()))

    def map_segments(self, task: MapSegments) -> list[Row]:
        """Scan damaged segments past their damage; one MAPPED row each."""
        rows = self.ids(len(task.segments)).run(task, MAPPED)
        with self.stages.past_damage(len(task.segments)):
            return rows.collect()

    def judge_lives(
        self, segments: Sequence[tuple[int, Segment]], sound: Sequence[SoundPart]
    ) -> list[Row]:
        """VERDICTS rows: which pieces of damaged segments are live, judged by the whole log.

        segments: (number, segment) of each damaged one; sound: what the others have.
        """
        listing = ListPieces(
            self.plan.storage, self.staging, tuple(segments), self.plan.splits.segment_bytes,
            self.rules,
        )  # fmt: skip
        with self.stages.by_tasks("looked for older lives", len(segments), "segments"):
            rows = self.ids(len(segments)).run(listing, PIECES).collect()
            names = tuple(row["lines"] for row in rows if row["lines"])
            judge = JudgeLives(self.staging, names, tuple(sound))
            return self.ids(1).run(judge, VERDICTS).collect()

    def search_queues(
        self, linked: link.Linked, most: int, lines: bool, ask_queues: bool = False
    ) -> QueueFindings:
        """Find lost positions of queues, and records that do not belong to their queue.

        most: gaps that each task lists at most; ask_queues: use the store's queue files too.
        """
        old = OldQueues(self.plan.folder) if ask_queues else None
        task = SearchQueues(self.staged_runs(linked), linked.lost, most, lines, old)
        with self.stages.by_tasks("asked what is missing", messages(linked), "messages"):
            return joined(self._runs_by_queue(linked).run(task, FINDINGS).collect())

    def find_false_transactions(self, task: FindFalseTransactions) -> list[Row]:
        """FALSE_TRANSACTION rows: records that a queue lacks because of their transaction type."""
        rows = self.ids(len(task.segments)).run(task, FALSE_TRANSACTION)
        with self.stages.by_tasks("asked what is missing", len(task.segments), "segments"):
            return rows.collect()

    def build(
        self, linked: link.Linked, before: OldIndex = NO_PUTS, queues: bool = True,
        indexes: bool = True,
    ) -> list[Built]:  # fmt: skip
        """Build all queue and index files in staging; one BUILT row each.

        before, queues, indexes: as for `build_and_keep`.
        """
        rows, kept = self.build_and_keep(linked, before, queues, indexes)
        return rows + list(kept_rows(self.staging, (row["name"] for row in kept.rows)))

    def build_and_keep(
        self, linked: link.Linked, before: OldIndex = NO_PUTS, queues: bool = True,
        indexes: bool = True,
    ) -> tuple[list[Built], KeptFiles]:  # fmt: skip
        """Build all queue and index files in staging. Returns BUILT rows and, where tasks on many
        machines build many, the files that have none but a path.

        before: what a store's own index files show, as with which puts the first one begins.
        queues, indexes: whether to build files of that kind.
        """
        none = KeptFiles(self.staging, self.queue_bytes)
        if queues:
            self._refuse_padding(linked)
        settings, few = self.plan.settings, queues and self._has_few_runs(linked)
        index, files = self.index(linked, before)
        files = files if indexes else 0
        alone = self.alone(linked, few, index, files)
        built: list[TaskRows] = []
        if alone.total:
            built.append(self.ids(alone.total).run(alone, BUILT))
        if files and index.ranges > 1:
            built.append(self._index_rows(index, files))
        if queues and not few:
            built.append(self.queue_rows(linked))
        if not built:
            return [], none
        rows = reduce(lambda one, other: one.also(other), built)
        index_bytes = files * file_bytes(settings.max_hash_slot_num, settings.max_index_num)
        with self.stages.built(linked, index_bytes):
            if self.engine.one_machine:
                return rows.collect(), none
            kept = none._replace(rows=rows.run(KeepRows(self.staging), KEPT).collect())
        names = [row["others"] for row in kept.rows]
        if kept.files > MANY_FILES:
            return list(kept_rows(self.staging, names)), kept
        names += [row["name"] for row in kept.rows]
        return list(kept_rows(self.staging, names)), none

    def _refuse_padding(self, linked: link.Linked) -> None:
        """Raise StoreError where files are sent with more zeros than the log has bytes, unless the
        user has given the size of these files.
        """
        if not isinstance(self.staging.storage, ManifestLast):
            return  # a disk keeps no zeros
        settings, found = self.plan.discovered.settings, self.plan.discovered.found
        size = self.plan.settings.mapped_file_size_consume_queue
        queues = max((row["queues"] for row in linked.accepted), default=0)
        zeros = queues * size - messages(linked) * entry_bytes(False)
        asked = _QUEUE_FILE in settings and _QUEUE_FILE not in found
        if zeros > max(_ZEROS_SENT, self.plan.log_bytes) and not asked:
            raise StoreError(
                f"{self.plan.store}: files of {size:,} bytes for {queues:,} queues or more are "
                f"{zeros / 1e9:,.0f} GB of zeros to send, for {self.plan.log_bytes / 1e9:,.0f} GB "
                f"of log: --queues rocksdb, --set {_QUEUE_FILE}=BYTES as the broker has it, or "
                f"={size} to send them"
            )

    def alone(self, linked: link.Linked, few: bool, index: IndexFiles, files: int) -> InTurn:
        """The tasks that need no shuffle: index files if each is built as a whole, and shares of
        queues if there are few runs (`few`). files: number of index files.
        """
        tasks: list[tuple[int, Task]] = []
        if files and index.ranges == 1:
            tasks.append((files, BuildWhole(index)))
        if few:
            shares = self._shares(linked)
            tasks.append((shares, BuildShares(self._numbered(linked), shares)))
        return InTurn(tuple(tasks))

    def index(self, linked: link.Linked, before: OldIndex = NO_PUTS) -> tuple[IndexFiles, int]:
        """(the description of the index files, their number)."""
        wanted = self.plan.settings.builds_index
        files = index_file_count(self.plan, linked, before) if wanted else 0
        return index_files(self.plan, self.staging, linked, self._ranges(linked), before), files

    def _shares(self, linked: link.Linked) -> int:
        """The number of shares of queues: one per core, or up to two per core if they are large."""
        wanted = messages(linked) // _ENTRIES_OF_A_SHARE
        return min(max(self.cores, wanted), 2 * self.cores)

    def _has_few_runs(self, linked: link.Linked) -> bool:
        """Whether runs are so few that every task can read the lists of all runs."""
        if self.cut.partitions or len(linked.runs) > _LISTS_READ_BY_ALL:
            return False
        most = _ENTRIES_OF_A_CARRYING_TASK if self.carries(linked) else _ENTRIES_OF_A_TASK
        if messages(linked) > most:
            return False
        shared = min(_MOST_LIST_BYTES_OF_A_TASK, _LIST_BYTES_OF_ALL // self._shares(linked))
        return _runs(linked) * _RUN_BYTES <= max(_LIST_BYTES_READ_BY_ALL, shared)

    def tasks_of(self, output: int) -> int:
        """How many tasks share `output` bytes: one for each core, some 128 to 256 MB each."""
        return self.cut.partitions or max(self.cores, -(-output // _BYTES_OF_A_TASK))

    def queue_tasks(self, linked: link.Linked) -> int:
        """How many tasks share the queues, by the bytes that they hold and write. Where zeros are
        sent as well, each queue has a file of full length.
        """
        size = _runs(linked) * _RUN_BYTES + messages(linked) * entry_bytes(False)
        if isinstance(self.staging.storage, ManifestLast):
            queues = max((row["queues"] for row in linked.accepted), default=0)
            size = max(size, queues * self.plan.settings.mapped_file_size_consume_queue)
        return self.tasks_of(size)

    def carries(self, linked: link.Linked) -> bool:
        """Whether short runs travel with their bytes, as each read of them would be a request."""
        if self.engine.one_machine:
            remote = isinstance(self.staging.storage, ManifestLast)
            return remote and messages(linked) <= _ENTRIES_THROUGH_ONE_PROCESS
        return True

    def runs_rows(self, linked: link.Linked, topics: tuple[str, ...] = ()) -> TaskRows:
        """The RUN rows of the accepted splits. topics: of their queues alone, if any is given."""
        return self._listing(linked).run(ListRuns(self.staging, linked.runs, topics), RUN)

    def queue_ends(
        self, linked: link.Linked, topics: tuple[str, ...] = ()
    ) -> dict[tuple[str, int], int]:
        """(topic, queue id) -> the next position there; NO_END for batch queues."""
        rows = self.runs_rows(linked, topics).extremes(QUEUE_KEY, greatest=("greatest",)).collect()
        return {
            (row["topic"], row["queue_id"]): NO_END if row["batch"] else row["greatest"] + 1
            for row in sorted(rows, key=lambda row: not row["batch"])
        }

    def _listing(self, linked: link.Linked) -> TaskRows:
        """The numbers of all splits, for the tasks that list their runs."""
        return self.ids(self.plan.splits.total, self.queue_tasks(linked))

    def staged_runs(self, linked: link.Linked) -> StagedRuns:
        """The reader of the runs of the accepted splits."""
        settings = self.plan.settings
        return StagedRuns(
            self.staging,
            linked.runs,
            place_rules(self.plan.profile),
            settings.mapped_file_size_consume_queue,
            settings.mapper_file_size_batch_consume_queue,
            linked.firsts,
            linked.queue_damage,
            self.lives,
        )

    def carried_rows(self, linked: link.Linked, timed: bool = False) -> TaskRows:
        """CARRIED rows of accepted splits, or TIMED ones; RUN rows where a read is no request."""
        if not self.carries(linked):
            return self.runs_rows(linked)
        task = CarryRuns(self.staged_runs(linked), timed)
        return self._listing(linked).run(task, TIMED if timed else CARRIED)

    def _runs_by_queue(self, linked: link.Linked) -> TaskRows:
        """RUN rows with each queue in one partition, in the log's order."""
        runs = self.carried_rows(linked)
        return runs.by_key(self.queue_tasks(linked), QUEUE_KEY, LOG_ORDER)

    def _numbered(self, linked: link.Linked) -> NumberRuns:
        return NumberRuns(self.staged_runs(linked), linked.lost, self.carries(linked))

    def queue_rows(self, linked: link.Linked) -> TaskRows:
        """BUILT rows of the queues' segments."""
        number = self._numbered(linked)
        placed = self._runs_by_queue(linked).run(number, PLACED)
        parts = self.queue_tasks(linked) * 2
        placed = placed.by_key(parts, SEGMENT_KEY, (*LOG_ORDER, "entries_at"))
        return placed.run(BuildQueueFiles(number.files), BUILT)

    def _index_rows(self, index: IndexFiles, files: int) -> TaskRows:
        """BUILT rows of the index files, of which each is built in several ranges."""
        chained = self.ids(files * index.ranges).run(ChainRanges(index), CHAINED)
        chained = chained.by_key(files, ("file",), ("range",))
        return chained.run(MergeRanges(index), BUILT)

    def _ranges(self, linked: link.Linked) -> int:
        """The number of slot ranges in which each index file is built: 1 if there is a file for
        each core, or if more tasks would cost more time than they save.
        """
        if self.cut.index_ranges:
            return self.cut.index_ranges
        files = index_file_count(self.plan, linked)
        if sum(row["index_puts"] for row in linked.accepted) <= files * _PUTS_OF_A_TASK:
            return 1
        return max(1, -(-self.cores // max(files, 1)))

    def ids_from(self, first: int) -> TaskRows:
        """The splits from number `first` on, in the column `id`."""
        return self.engine.numbers(range(first, self.plan.splits.total))

    def ids(self, count: int, parts: int | None = None) -> TaskRows:
        """Rows 0 .. count - 1 in the column `id`, in `parts` partitions or one for each row."""
        return self.engine.numbers(range(count), parts)


def index_files(
    plan: Plan, staging: Staging, linked: link.Linked, ranges: int, before: OldIndex = NO_PUTS
) -> IndexFiles:
    """The description of the index files, with the running totals of puts of accepted splits."""
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
        every_put_up_to=every_put_counts_up_to(plan.eras),
        empty_index_count=plan.profile.empty_index_count,
        begins=before.begins,
    )


def index_file_count(plan: Plan, linked: link.Linked, before: OldIndex = NO_PUTS) -> int:
    """The number of index files that RocketMQ makes of the log.

    If the last file is full, RocketMQ makes the next file at the next message, before it checks
    whether the message has keys (IndexService.retryGetAndCreateIndexFile).
    """
    early = max(before.begins, default=0)
    puts: int = before.puts + sum(row["index_puts"] for row in linked.accepted)
    puts -= before.begins.get(early, 0)
    last_record = max((row["last_record"] for row in linked.accepted), default=-1)
    last_put = max((row["last_put"] for row in linked.accepted), default=-1)
    a_file = capacity(plan.settings.max_index_num)
    files = early - (-puts // a_file)
    if last_record < 0:
        return files
    last_is_full = puts % a_file == 0
    return files + 1 if last_is_full and last_record > last_put else files


def _runs(linked: link.Linked) -> int:
    return sum(row["runs"] for row in linked.accepted)
