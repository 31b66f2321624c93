"""Tasks that ask witnesses of a damaged log: its queues, for lost positions and foreign records,
and the store's own index files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage.contradictions import OldQueues, mark_contradictions
from reput.store_format.damage.queue_ends import Losses
from reput.store_format.damage.queue_findings import (
    KINDS,
    Finding,
    Gap,
    QueueFindings,
    QueueGap,
    QueueSearch,
    Renumbering,
    StrayRecord,
)
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader, IndexReader
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import INDEX_ENTRY, INDEX_ENTRY_BYTES
from reput.store_format.names import LMQ_PREFIX
from reput.store_format.release.settings import Settings
from reput.udfs.range_files import loss_reader
from reput.udfs.rebuild.index import IndexFiles, Puts
from reput.udfs.rebuild.runs import QUEUE_KEY, Row, StagedRuns, key_of
from reput.udfs.staging import LineFile, ids_of, in_batches, rows_of, schema

# ---
# Searches queues for lost positions and foreign records, and joins the findings of all tasks.

_ARROW = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


def _columns(kind: type[Finding]) -> pa.StructType:
    return pa.struct([(name, _ARROW[each]) for name, each in get_type_hints(kind).items()])


# One row for each task that found something: a list of each kind of finding, by its type's name.
FINDINGS = schema(
    **{kind.__name__: pa.list_(_columns(kind)) for kind in KINDS},
    gaps_unlisted=pa.int64(),
    positions_unlisted=pa.int64(),
    lines=pa.string(),  # the name of the task's file of gaps in staging, '' where there is none
)


def joined(rows: Iterable[Row]) -> QueueFindings:
    rows = list(rows)
    return QueueFindings(
        {kind: [kind(**each) for row in rows for each in row[kind.__name__]] for kind in KINDS},
        sum(row["gaps_unlisted"] for row in rows),
        sum(row["positions_unlisted"] for row in rows),
        tuple(row["lines"] for row in rows if row["lines"]),
    )


@dataclass(frozen=True)
class SearchQueues:
    """Turns RUN rows of whole queues, in order, into a FINDINGS row.

    most: how many gaps are listed, the first by offset; and of other findings as many.
    lines: also write all gaps as JSON lines into a file in staging.
    """

    files: StagedRuns
    losses: Losses
    most: int
    lines: bool = False
    old: OldQueues | None = None  # where the store has queue files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gaps, misplaced, hints = _First(self.most), _First(self.most), _First(self.most)
        lines = LineFile(self.files.staging) if self.lines else None
        for finding in self._findings(rows_of(batches)):
            match finding:
                case Gap():
                    gaps.add(finding)
                    if lines:
                        lines.add({"type": "missing", **vars(finding)})
                case Renumbering() | StrayRecord():
                    misplaced.add(finding)
                case _:
                    hints.add(finding)
        listed = [*gaps.listed(), *misplaced.listed(), *hints.listed()]
        if listed:
            row: dict[str, Any] = {
                kind.__name__: [vars(each) for each in listed if type(each) is kind]
                for kind in KINDS
            }
            row["gaps_unlisted"] = gaps.dropped + misplaced.dropped
            row["positions_unlisted"] = gaps.positions
            row["lines"] = lines.finish() if lines else ""
            yield pa.RecordBatch.from_pylist([row], FINDINGS)

    def _findings(self, rows: Iterator[Row]) -> Iterator[Finding]:
        lost = loss_reader(self.losses, self.files.staging)
        for (topic, queue_id, batch), runs in groupby(rows, key_of(QUEUE_KEY)):
            # messages of an LMQ belong to another queue too
            asks = self.old and not batch and not topic.startswith(LMQ_PREFIX)
            old = self.old.of(topic, queue_id) if self.old and asks else None
            living, _ = self.files.living(runs)
            yield from QueueSearch(self.files, lost, old, self.most).findings(iter(living))


class _First:
    """Keeps the first `most` findings by their offsets in the log; they may come in any order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[Finding] = []
        self.dropped = self.positions = 0

    def add(self, finding: Finding) -> None:
        self._held.append(finding)
        if len(self._held) >= 2 * self._most:
            self._cut()

    def listed(self) -> list[Finding]:
        self._cut()
        return self._held

    def _cut(self) -> None:
        self._held.sort(key=_order)
        dropped = self._held[self._most :]
        self.dropped += len(dropped)
        self.positions += sum(each.count for each in dropped if isinstance(each, Gap))
        del self._held[self._most :]


def _order(finding: Finding) -> tuple[int, str, int, int]:
    if isinstance(finding, QueueGap):
        return finding.after, finding.topic, finding.queue_id, finding.first
    return finding.place, finding.topic, finding.queue_id, 0


# ---
# The store's own IndexFiles as witnesses: they were written from the sound records.
#
# An entry holds a record's physical offset, the hash of its topic with one of its keys, and the
# second at which it was stored. If the record now has no such key or another time, then either the
# record or the entry is damaged.

_ENTRIES_A_READ = 1 << 16
_MOST_UNLIKE, _ENTRIES_AN_UNLIKE = 8, 8  # in a file: 8, and one more for every 8 entries
_MOST_LISTED = 1000  # of a file

# One row for each record that an index file contradicts: its physical offset, and the Fault; odd:
# its storeTimestamp is not between those of its neighbours, and that of the entry is.
CONTRADICTED = schema(place=pa.int64(), fault=pa.int32(), odd=pa.bool_())

Entries = npt.NDArray[Any]  # INDEX_ENTRY


@dataclass(frozen=True)
class CompareIndex:
    """Compares the log's puts with the index files in `id` (0: the newest); CONTRADICTED rows."""

    storage: InputStorage  # that the store is on
    store: str
    settings: Settings
    puts: IndexFiles
    firsts: tuple[int, ...]  # for each run of `puts` the place of its first record

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = IndexReader(Folder(self.storage, self.store), self.settings)
        for number in ids_of(batches):
            yield from in_batches(self._ask(files, number), CONTRADICTED)

    def _ask(self, files: IndexReader, number: int) -> Iterator[dict[str, int]]:
        try:
            file = files.open(number)
        except BadIndex:
            return  # its size is not that of the settings: it is no witness
        with file:
            found, looked, odd = self._compare(file)
        # A file that disagrees more often belongs to another log, or was written by other settings.
        if len(found) <= _MOST_UNLIKE + looked // _ENTRIES_AN_UNLIKE:
            for place in sorted(found)[:_MOST_LISTED]:
                yield {"place": place, "fault": found[place], "odd": place in odd}

    def _compare(self, file: IndexFileReader) -> tuple[dict[int, int], int, set[int]]:
        """({place: Fault}, how many entries point to a record that has keys, odd places)."""
        found: dict[int, int] = {}
        odd: set[int] = set()
        looked, number, mine = 0, 1, None
        for entries in _blocks(file):
            first, number = number, number + len(entries)
            order = np.argsort(entries["physicalOffset"], kind="stable")
            entries, numbers = entries[order], np.arange(first, number)[order]
            places = entries["physicalOffset"].astype(np.int64)
            mine = mine or _Pieces(self._puts_from(int(places[0])))
            while mine.puts is not None:
                low, high = mine.bounds()
                some = slice(*np.searchsorted(places, [low, high + 1]))
                if some.start < some.stop:
                    faults = np.zeros(some.stop - some.start, np.uint8)
                    looked += mark_contradictions(
                        mine.puts, entries[some], numbers[some], file.header.begin_timestamp, faults
                    )
                    at = np.flatnonzero(faults)
                    found.update(zip(places[some][at].tolist(), faults[at].tolist(), strict=True))
                    odd |= _odd_times(mine.puts, entries[some], at, file.header.begin_timestamp)
                if high >= places[-1]:
                    break
                mine.go_on()
            else:  # past the log's end: IndexService keeps the entries of records that were lost
                odd.clear()
        return found, looked, odd

    def _puts_from(self, place: int) -> Iterator[Puts]:
        """The log's puts, from the run that holds `place` on; a bounded number at a time."""
        run = max(int(np.searchsorted(self.firsts, place, side="right")) - 1, 0)
        return self.puts.puts(self.puts.ends[run - 1] if run else 0, self.puts.total)


def _odd_times(puts: Puts, entries: Entries, at: npt.NDArray[Any], begin: int) -> set[int]:
    """The places of records whose storeTimestamp is not between the times of the entries around
    theirs, where the time of their own entry is. at: the numbers of contradicted entries.
    """
    odd = set()
    sound = np.delete(np.arange(len(entries)), at)
    places = entries["physicalOffset"]
    for number in at.tolist():
        place, own = int(places[number]), int(entries["timeDiff"][number])
        around = sound[places[sound] != place]
        before, after = np.searchsorted(around, number) + np.array([-1, 0])
        low = int(entries["timeDiff"][around[before]]) if before >= 0 else own
        high = int(entries["timeDiff"][around[after]]) if after < len(around) else own
        stored = puts["storeTimestamp"][np.searchsorted(puts["physicalOffset"], place)]
        second = (int(stored) - begin) // 1000
        if low <= own <= high and not low - 1 <= second <= high + 1:
            odd.add(place)
    return odd


class _Pieces:
    """Pieces of the log's puts. All puts of a record are in one piece."""

    def __init__(self, puts: Iterator[Puts]) -> None:
        self._more = puts
        self._rest: Puts | None = None
        self.puts: Puts | None = None
        self.go_on()

    def go_on(self) -> None:
        """Go to the next piece; after the last one, `puts` is None."""
        puts, more = self._rest, next(self._more, None)
        if more is None:
            self.puts, self._rest = puts, None
            return
        puts = more if puts is None else np.concatenate([puts, more])
        last = int(np.searchsorted(puts["physicalOffset"], puts["physicalOffset"][-1]))
        self.puts, self._rest = puts[:last], puts[last:]
        if not last:
            self.go_on()

    def bounds(self) -> tuple[int, int]:
        assert self.puts is not None
        places = self.puts["physicalOffset"]
        return int(places[0]), int(places[-1])


def _blocks(file: IndexFileReader) -> Iterator[Entries]:
    count = max(min(file.header.entries, file.most - 1), 0)
    for first in range(1, count + 1, _ENTRIES_A_READ):
        raw = np.empty(min(_ENTRIES_A_READ, count + 1 - first) * INDEX_ENTRY_BYTES, np.uint8)
        file.read_entries(first, raw)
        yield raw.view(INDEX_ENTRY).astype(INDEX_ENTRY.newbyteorder("="))
