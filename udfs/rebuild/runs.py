"""The runs of a job's queues as scans left them in staging: listed, read, and numbered."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format.damage.contradictions import OldQueues
from reput.store_format.damage.queue_ends import (
    GAP_COUNT,
    NO_GAPS,
    NO_QUEUE_DAMAGE,
    QueueDamage,
    run_part,
)
from reput.store_format.derived.queue_files import (
    BadQueue,
    decode_entries,
    entry_bytes,
    segment_bytes,
)
from reput.store_format.dispatch.runs import NO_POSITION, REPEATED, PositionRules, number_run
from reput.store_format.faults import REFUSE
from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.udfs.staging import ENTRIES, RUNS, Staging, ids_of, read_range, rows_of, schema

# ---
# The runs of a job's queues, as scans left them in staging: how to list, read and number them.

Row = dict[str, Any]

_NO_ENTRIES = np.empty(0, np.uint8)
_NO_OFFSETS = np.empty(0, np.int64)

QUEUE_KEY = ("topic", "queue_id", "batch")
LOG_ORDER = ("split", "part")
SEGMENT_KEY = (*QUEUE_KEY, "segment")
LAST_LIFE, ALL_LIVES = "last", "all"  # values of Lives.remade
ODD_MOST = 8  # of a run, that are kept


@dataclass(frozen=True)
class ListRuns:
    """Yields the RUN rows of the splits in `id`. runs: each split's run name in staging.

    topics: those of these topics' queues alone, if any is given.
    """

    staging: Staging
    runs: dict[int, str]
    topics: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split in ids_of(batches):
            if split in self.runs:
                raw = self.staging.storage.read_bytes(self.staging.path(self.runs[split] + RUNS))
                with pa.ipc.open_stream(raw) as stream:
                    for rows in stream:
                        wanted = rows.replace_schema_metadata(None)
                        if self.topics:
                            import pyarrow.compute as pc  # 0.05 s that the driver need not take

                            names = pa.array(self.topics, wanted.schema.field("topic").type)
                            wanted = wanted.filter(pc.is_in(wanted.column("topic"), names))
                        yield wanted


class Lives(NamedTuple):
    """Which records a queue has whose topic was deleted and made again, while the log still has the
    messages that were sent before.

    A topic's deletion takes its queues, and the next message has queueOffset 0 again
    (AdminBrokerProcessor.deleteTopic, ConsumeQueueStore.deleteTopicQueueTable).
    queues: files, or else rows of RocksDB, that show by their first entry where the life began
    that they have.
    remade: LAST_LIFE or ALL_LIVES if the user has chosen, else ''.
    """

    queues: OldQueues | None = None
    remade: str = ""

    def begins(self, row: Row, zeros: Sequence[int]) -> int | None:
        """The physical offset from which the log's records belong to a queue; None: all do.

        row: any RUN row of the queue; zeros: the physical offsets of its records that have
        queueOffset 0, without the queue's first record.
        """
        if self.remade == ALL_LIVES:
            return None
        if self.remade == LAST_LIFE:
            return zeros[-1]
        if self.queues is None:
            return None
        queue = self.queues.of(row["topic"], row["queue_id"], row["batch"])
        place = queue.first_place() if queue.any else _first_in_rocksdb(self.queues, row)
        return place if place in zeros else None


def _first_in_rocksdb(queues: OldQueues, row: Row) -> int | None:
    """The physical offset of the row at position 0 of a store's queue in RocksDB; None without."""
    # few stores need these: workers load them late
    from reput.store_format.rocksdb.database import RocksDBError
    from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder

    folder = queues_folder(queues.store)
    if folder is None:
        return None
    try:
        with closing(RocksDBQueues(queues.store.path, folder)) as there:
            queue = there.open(row["topic"], row["queue_id"], False)
            return next((each.physical_offset for each in queue.entries(0, 1)), None)
    except (RocksDBError, BadQueue):
        return None  # who judges the store says so


NO_LIVES = Lives()


class Numbered(NamedTuple):
    """Where the entries of a run go in its queue.

    copies: int64, how often each entry is written: 0 if it is left out, more than 1 if positions
    before it are lost. None, as nearly always, if each is written once.
    after: the queue's next position after the run.
    skipped: how many entries are left out for their queueOffsets.
    skips_at_end: whether a skipped entry comes after the last one that is written.
    shift: the last entry's queueOffset less its position.
    odd: three numbers for each entry that is skipped, and for each one where the shift changes, at
    most ODD_MOST of them: queueOffset, position (-1 if skipped), physicalOffset.
    """

    copies: np.ndarray | None
    after: int
    skipped: int
    skips_at_end: bool
    shift: int = 0
    odd: tuple[int, ...] = ()


@dataclass(frozen=True)
class StagedRuns:
    """What the queue stages need: staging, the splits' run names, and the rules."""

    staging: Staging
    runs: dict[int, str]
    rules: PositionRules
    queue_file_bytes: int  # mappedFileSizeConsumeQueue
    batch_file_bytes: int  # mapperFileSizeBatchConsumeQueue
    firsts: str = REFUSE  # what to do where a queue's first queueOffset is impossible
    damage: QueueDamage = NO_QUEUE_DAMAGE
    lives: Lives = NO_LIVES

    def entries_a_file(self, batch: bool) -> int:
        return self.file_bytes(batch) // entry_bytes(batch)

    def file_bytes(self, batch: bool) -> int:
        return segment_bytes(self.batch_file_bytes if batch else self.queue_file_bytes, batch)

    def offsets(self, row: Row) -> np.ndarray:
        """The queueOffsets of a run; empty if each is the one before plus 1."""
        decided = row.get("decided", 0)
        if row["offsets_at"] < 0 and not decided:
            return _NO_OFFSETS
        if row["offsets_at"] < 0:
            counted = np.arange(row["count"], dtype=np.uint64)
            offsets = (np.uint64(row["first"] % (1 << 64)) + counted).view(np.int64)
        elif row.get("carried") is not None:
            offsets = np.frombuffer(row["carried"][-8 * row["count"] :], np.int64).copy()
        else:
            name = self.runs[row["split"]] + ENTRIES
            raw = read_range(self.staging, name, row["offsets_at"], 8 * row["count"])
            offsets = raw.view(np.int64)
        if decided:
            offsets[:decided] = row["decided_from"] + np.arange(decided)
        return offsets

    def living(self, rows: Iterable[Row]) -> tuple[list[Row], int]:
        """(a queue's runs, in the log's order, without the records of an earlier life of its topic,
        how many records these were).
        """
        held = list(rows)
        zeros = [self._zeros(row) for row in held]
        again = [each[1:] if n == 0 and each[:1] == [0] else each for n, each in enumerate(zeros)]
        begins = None
        if any(again):
            begins = self.lives.begins(held[0], self._places(held, again))
        if begins is None:
            return held, 0
        rest = [self._from_place(row, begins) for row in held]
        ended = sum(row["count"] for row in held) - sum(row["count"] for row in rest)
        return [row for row in rest if row["count"]], ended

    def _zeros(self, row: Row) -> list[int]:
        """The numbers of the entries in a run whose queueOffset is 0."""
        if row["batch"]:
            entries = decode_entries(self.entries(row, 0, row["count"]), True)
            return np.flatnonzero(entries["baseOffset"] == 0).tolist()
        offsets = self.offsets(row)
        return np.flatnonzero(offsets == 0).tolist() if len(offsets) else [0] * (row["first"] == 0)

    def _places(self, rows: list[Row], numbers: list[list[int]]) -> list[int]:
        """The physical offsets of some entries of each run."""
        return [
            int(decode_entries(self.entries(row, n, n + 1), row["batch"])[0]["physicalOffset"])
            for row, some in zip(rows, numbers, strict=True)
            for n in some
        ]

    def _from_place(self, row: Row, place: int) -> Row:
        """The rest of a run from a physical offset on."""
        entries = decode_entries(self.entries(row, 0, row["count"]), row["batch"])
        cut = int(np.searchsorted(entries["physicalOffset"].astype(np.int64), place))
        if cut in (0, row["count"]):
            return row if not cut else {**row, "count": 0}
        offsets = self.offsets(row)
        first = int(offsets[cut]) if len(offsets) else row["first"] + cut
        if row["batch"]:
            first = int(entries["baseOffset"][cut])
        return {**run_part(row, cut, row["count"]), "first": first}

    def number(self, row: Row, position: int, gaps: np.ndarray, shift: int = 0) -> "Numbered":
        """Give a run its positions, from `position` on. gaps: GAP_COUNT rows, if not a batch.

        shift: that of the run before.
        """
        count = row["count"]
        if row["batch"]:  # a batch queue has an entry for each batch, whatever its queueOffset
            return Numbered(None, position + count, 0, False)
        offsets = self.offsets(row)
        entries = self.entries(row, 0, count) if len(offsets) else _NO_ENTRIES
        positions = np.empty(count, np.int64)
        start, at = position, 0
        for index, missing in [*gaps.tolist(), (count, 0)]:
            position = number_run(
                entries[at * QUEUE_ENTRY_BYTES : index * QUEUE_ENTRY_BYTES], offsets[at:index],
                row["first"] + at, index - at, position, self.rules, positions[at:index],
            )  # fmt: skip
            position += missing
            at = index
        plain = position - start == count and not len(gaps)  # none was skipped
        if plain and not len(offsets) and row["first"] - start == shift:
            return Numbered(None, position, 0, False, shift)
        after_run, odd = self._odd(row, offsets, positions, shift)
        if plain:
            return Numbered(None, position, 0, False, after_run, odd)
        copies = (positions > REPEATED).astype(np.int64)
        placed = np.flatnonzero(copies)
        after = positions[placed[-1] + 1 :] if len(placed) else positions
        copies[gaps["index"]] += gaps["count"]
        skipped = positions == NO_POSITION
        return Numbered(
            copies, position, int(skipped.sum()), bool((after == NO_POSITION).any()), after_run, odd
        )

    def _odd(
        self, row: Row, offsets: np.ndarray, positions: np.ndarray, shift: int
    ) -> tuple[int, tuple[int, ...]]:
        """(the shift after a run, `Numbered.odd`)."""
        if not len(offsets):
            offsets = row["first"] + np.arange(row["count"])
        taken = positions > REPEATED
        shifts = (offsets - positions)[taken]
        changes = np.zeros(len(positions), np.bool_)
        changes[taken] = np.diff(shifts, prepend=shift) != 0
        found: list[int] = []
        for n in np.flatnonzero(changes | (positions == NO_POSITION))[:ODD_MOST].tolist():
            entry = decode_entries(self.entries(row, n, n + 1))[0]
            position = int(positions[n]) if taken[n] else -1
            found += [int(offsets[n]), position, int(entry["physicalOffset"])]
        return int(shifts[-1]) if len(shifts) else shift, tuple(found)

    def gaps(self, row: Row) -> np.ndarray:
        """The GAP_COUNT rows of a PLACED row."""
        size = GAP_COUNT.itemsize
        if not row["gaps"]:
            return NO_GAPS
        raw = read_range(self.staging, row["gaps_name"], row["gaps_at"], row["gaps"] * size)
        return raw.view(GAP_COUNT)

    def entries(self, row: Row, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of a run, as on disk."""
        size = entry_bytes(row["batch"])
        if row.get("carried") is not None:
            return np.frombuffer(row["carried"], np.uint8)[start * size : stop * size].copy()
        name = self.runs[row["split"]] + ENTRIES
        at = row["entries_at"] + start * size
        return read_range(self.staging, name, at, (stop - start) * size)


def key_of(names: tuple[str, ...]) -> Any:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    return key


# Of a queue whose topic was made again: the place from which its records count, as the store or the
# user shows; and how many entries come before.
LIFE = schema(topic=pa.string(), queue_id=pa.int32(), begin=pa.int64(), ended=pa.int64())


@dataclass(frozen=True)
class FindLives:
    """LIFE rows of the RUN rows of whole queues, which are in the log's order."""

    files: StagedRuns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (topic, queue_id, _), rows in groupby(rows_of(batches), key_of(QUEUE_KEY)):
            living, ended = self.files.living(rows)
            if ended:
                first = decode_entries(self.files.entries(living[0], 0, 1))[0]
                row = {"topic": topic, "queue_id": queue_id, "ended": ended}
                row["begin"] = int(first["physicalOffset"])
                yield pa.RecordBatch.from_pylist([row], LIFE)
