"""Finds the positions that a queue lost where the log lost bytes, and wrong first queueOffsets.

If two neighbouring entries of a queue do not have neighbouring queueOffsets, those between may be
lost. They count as lost only if the log lost enough bytes for so many messages between the two.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from reput.store_format.derived.queue_entries import decode_entries
from reput.store_format.layouts import RECORD_FIXED_BYTES
from reput.store_format.names import LMQ_PREFIX
from reput.udfs.believed import believed
from reput.udfs.damage.old_queue import OldQueue, OldQueues, unlike
from reput.udfs.lost import Lost, LostReader
from reput.udfs.schemas import in_batches, rows_of, schema
from reput.udfs.staged_runs import GAP_COUNT, QUEUE_KEY, QueueFiles, Row, key_of
from reput.udfs.staging import LineFile

_MOST_IN_A_HOLE = 2
_CLAIMS_A_GAP = 1000
_TWICE_MOST = 16  # of a run
_MOST_UNLIKE, _ENTRIES_AN_UNLIKE = 2, 8  # in a run: two, and one more for each eight entries
_CREDIBLE = 1 << 62  # a queueOffset beyond it, or below 0, says nothing of what is lost

# One row for each gap: positions [first, first + count) of a queue, lost between two records.
GAP = schema(
    topic=pa.string(),
    queue_id=pa.int32(),
    batch=pa.bool_(),
    first=pa.int64(),
    count=pa.int64(),
    after=pa.int64(),  # the physical offset of the queue's record before, -1: none
    before=pa.int64(),  # and of the one after
    # IS_GAP: a gap. HOLE: a gap too, but the log lost too few bytes there for so many messages;
    # value: how many entries the queue has for each place where it does not go on for no reason.
    # The other rows are no gaps:
    # OPENING: the queue's first `count` records, from physical offset `before` on, have wrong
    # queueOffsets, of which `value` is the first. They count as first, first + 1, ...
    # (damage/openings). MOVED: the same, of records further on in the queue (damage/chain).
    # STRAY: the record at `before`, of `count` bytes, fits nowhere in the queue that it names.
    # ALONE: it would fit, but no neighbouring record of the queue confirms it; `first` is 1 where
    # that may be because what the queue had before it was lost.
    # PLACED: of the records of a MOVED row each one: `value`, its queueOffset, counts as `first`.
    # TWICE: of two records that follow each other with one queueOffset, `value`, each one.
    # The store's own ConsumeQueue says something else (udfs/old_queue): TAGGED: of the tag of the
    # record at `before`; OTHER: that another record stands at the position which it takes. CLAIM:
    # that the record at `before`, of `count` bytes, has position `first` in this queue.
    what=pa.string(),
    value=pa.int64(),
    more=pa.int64(),  # only in a task's last row: how many rows and positions are not listed
    more_positions=pa.int64(),
    lines=pa.string(),  # and the name of its file in staging, '' where there is none
)
IS_GAP, OPENING, MOVED, STRAY, HOLE, ALONE = "gap", "opening", "moved", "stray", "hole", "alone"
TAGGED, OTHER, CLAIM, PLACED, TWICE = "tagged", "other", "claim", "placed", "twice"
_HINTS = (HOLE, ALONE, TAGGED, OTHER, CLAIM, PLACED, TWICE)
GAP_TOLD = ("topic", "queue_id", "batch", "first", "count", "after", "before")


@dataclass(frozen=True)
class RunGaps:
    """The gaps in one run and before it, as arrays with an item for each gap (see GAP).

    holes: the same four arrays of gaps where the log lost too little.
    """

    counts: Any  # GAP_COUNT
    first: Any
    after: Any
    before: Any
    holes: tuple[Any, Any, Any, Any]


def _gaps(at: Any, missing: Any, wanted: Any, after: Any, before: Any) -> tuple[Any, Any, Any, Any]:
    """The four arrays of the gaps before the entries `at`."""
    counts = np.zeros(len(at), GAP_COUNT)
    counts["index"], counts["count"] = at, missing
    return counts, wanted[at], after[at], before[at]


_NONE = np.empty(0, np.int64)
_NO_RUN_GAPS = RunGaps(np.empty(0, GAP_COUNT), _NONE, _NONE, _NONE, (_NONE,) * 4)


class QueueGaps:
    """Follows one queue's runs in the log's order."""

    def __init__(self, files: QueueFiles, lost: LostReader) -> None:
        self.files, self.lost = files, lost
        self.expected: int | None = None  # the next queueOffset
        # The last record's physical offset; None: it has to be read from the last row's entries.
        self._place: int | None = -1
        self._last: Row = {}

    def __call__(self, row: Row) -> np.ndarray:
        """The GAP_COUNT rows for NumberRuns; none in a batch queue, whose positions do not follow
        queueOffsets.
        """
        counts: np.ndarray = self.of(row).counts
        return counts[:0] if row["batch"] else counts

    @property
    def place(self) -> int:
        """The physical offset of the queue's last record."""
        if self._place is None:
            count = self._last["count"]
            entry = decode_entries(self.files.entries(self._last, count - 1, count))
            self._place = int(entry["physicalOffset"][0])
        return self._place

    def of(self, row: Row) -> RunGaps:
        """The gaps of the queue's next run."""
        if self._just_goes_on(row):
            assert self.expected is not None
            self.expected += row["count"]
            self._place, self._last = None, row
            return _NO_RUN_GAPS
        offsets, ends, places = self._known(row)
        expected = self.expected
        if expected is None:
            expected = 0 if self.lost.from_start else int(offsets[0])
        credible = (offsets >= 0) & (offsets < _CREDIBLE) & (ends < _CREDIBLE)
        reached = np.maximum.accumulate(np.append(expected, np.where(credible, ends, 0)))
        wanted, places_before = reached[:-1], np.append(self.place, places[:-1])
        maybe = np.flatnonzero(credible & (offsets > wanted))
        missing = offsets[maybe] - wanted[maybe]
        lost = self.lost.between(places_before[maybe], places[maybe])
        sure = missing <= lost // RECORD_FIXED_BYTES
        if self.files.no_room:
            key = row["topic"], row["queue_id"]
            named = [(*key, place) in self.files.no_room for place in places[maybe].tolist()]
            sure |= np.array(named, np.bool_)
        at, holes = maybe[sure], maybe[~sure & (missing <= _MOST_IN_A_HOLE)]
        self.expected, self._place = int(reached[-1]), int(places[-1])
        return RunGaps(
            *_gaps(at, missing[sure], wanted, places_before, places),
            _gaps(holes, offsets[holes] - wanted[holes], wanted, places_before, places),
        )

    def _just_goes_on(self, row: Row) -> bool:
        """Whether a run has no gap, as almost all have: then its entries are not even read."""
        goes_on = row["offsets_at"] < 0 and row["first"] == self.expected
        return bool(
            goes_on and not row["batch"] and not row["decided"] and row["first"] >= 0
            and row["greatest"] < _CREDIBLE
        )  # fmt: skip

    def _known(self, row: Row) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(queueOffsets, the offsets that follow them, physicalOffsets) of those entries of the run
        that may have a gap before them.

        In a consecutive run that is only the first entry; the last one is added, for its offset.
        """
        if row["batch"]:
            entries = decode_entries(self.files.entries(row, 0, row["count"]), True)
            base = entries["baseOffset"].astype(np.int64)
            return base, base + entries["batchSize"], entries["physicalOffset"].astype(np.int64)
        offsets = self.files.offsets(row)
        if not len(offsets):
            first, last = (
                decode_entries(self.files.entries(row, at, at + 1))["physicalOffset"][0]
                for at in (0, row["count"] - 1)
            )
            known = np.array([row["first"], row["greatest"]][: row["count"]], np.int64)
            known_ends = [row["greatest"]] if row["count"] > 1 else []
            known_ends.append(min(row["greatest"], _CREDIBLE) + 1)
            after = np.array(known_ends, np.int64)
            return known, after, np.array([first, last][: row["count"]], np.int64)
        entries = decode_entries(self.files.entries(row, 0, row["count"]))
        ends = np.where(offsets < _CREDIBLE, offsets, 0) + 1
        return offsets, ends, entries["physicalOffset"].astype(np.int64)


def queue_gaps(files: QueueFiles, lost: Lost) -> Callable[[], QueueGaps]:
    """What NumberRuns calls for each queue of a task to get a QueueGaps."""
    reader = LostReader(lost, files.staging)
    return lambda: QueueGaps(files, reader)


@dataclass(frozen=True)
class FindGaps:
    """Turns RUN rows of whole queues, in order, into GAP rows; of a task the first `most` by
    offset.

    lines: also write all of them as JSON lines into a file in staging.
    """

    files: QueueFiles
    lost: Lost
    most: int
    lines: bool = False
    old: OldQueues | None = None  # where the store has queue files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found, openings, hints = _First(self.most), _First(self.most), _First(self.most)
        lines = LineFile(self.files.staging) if self.lines else None
        for row in self._found(rows_of(batches)):
            of = found if row["what"] == IS_GAP else openings
            of = hints if row["what"] in _HINTS else of
            of.add(row)
            if lines and row["what"] == IS_GAP:
                lines.add({"type": "missing", **{name: row[name] for name in GAP_TOLD}})
        listed = found.listed() + openings.listed() + hints.listed()
        if listed:
            listed[-1]["more"] = found.dropped + openings.dropped
            listed[-1]["more_positions"] = found.positions
            listed[-1]["lines"] = lines.finish() if lines else ""
        yield from in_batches(iter(listed), GAP)

    def _found(self, rows: Iterator[Row]) -> Iterator[Row]:
        lost = LostReader(self.lost, self.files.staging)
        for _, runs in groupby(rows, key_of(QUEUE_KEY)):
            queue = QueueGaps(self.files, lost)
            decided: Row | None = None
            holes: list[Row] = []
            entries = breaks = 0
            old: OldQueue | None = None
            last: Row | None = None
            for row in believed(self.files, runs, lost):
                base = {
                    **{name: row[name] for name in QUEUE_KEY},
                    "more": 0,
                    "more_positions": 0,
                    "lines": "",
                }
                if self.old and old is None and not row["batch"]:
                    is_lmq = row["topic"].startswith(
                        LMQ_PREFIX
                    )  # its messages are another queue's too
                    old = None if is_lmq else self.old.of(row["topic"], row["queue_id"])
                if old and old.any:
                    yield from self._contradicted(row, base, old)
                if row["is_left_out"]:
                    yield from self._records(row, base, STRAY)
                    continue
                if row["is_outvoted"] or row["decided"]:
                    if decided and row["is_outvoted"]:
                        yield decided
                        decided = None
                    if decided is None:
                        place = decode_entries(self.files.entries(row, 0, 1))["physicalOffset"]
                        decided = {
                            **base, "first": row["decided_from"], "count": 0, "after": -1,
                            "before": int(place[0]), "value": row["first"],
                            "what": MOVED if row["is_outvoted"] else OPENING,
                        }  # fmt: skip
                    decided["count"] += row["decided"]
                    if row["is_outvoted"]:
                        for number, record in enumerate(self._records(row, base, PLACED)):
                            first, value = row["decided_from"] + number, row["first"] + number
                            yield {**record, "first": first, "value": value}
                elif decided:
                    yield decided
                    decided = None
                entries += row["count"]
                breaks += row["is_alone"] or row["is_outvoted"] or row["decided"] > 0
                if lost.any and not row["batch"]:
                    yield from self._twice(last, row, base)
                    last = row
                gaps = queue.of(row)
                for what, found in (
                    (IS_GAP, (gaps.counts, gaps.first, gaps.after, gaps.before)),
                    (HOLE, gaps.holes),
                ):
                    for count, first, after, before in zip(*found, strict=True):
                        gap = {
                            **base, "first": int(first), "count": int(count["count"]),
                            "after": int(after), "before": int(before), "what": what, "value": 0,
                        }  # fmt: skip
                        breaks += what == HOLE
                        if what == HOLE and len(holes) < self.most:
                            holes.append(gap)
                        else:
                            yield gap
                        if old and old.any:
                            yield from _claims(old, int(first), int(count["count"]), base)
                if row["is_alone"]:
                    for record in self._records(row, base, ALONE):
                        yield {**record, "first": int(row["may_be_own"])}
            if decided:
                yield decided
            for hole in holes:
                yield {**hole, "value": entries // breaks}

    def _contradicted(self, row: Row, base: Row, old: OldQueue) -> Iterator[Row]:
        """A row for each entry of a run that the old queue contradicts. A queue that contradicts
        many was not written from this log, or by other rules: it is no witness.
        """
        mine = decode_entries(self.files.entries(row, 0, row["count"]))
        offsets = self.files.offsets(row)
        if not len(offsets):
            offsets = row["first"] + np.arange(row["count"], dtype=np.int64)
        numbers, said_of = unlike(old, offsets, mine)
        if len(numbers) > _MOST_UNLIKE + len(mine) // _ENTRIES_AN_UNLIKE:
            return
        for number, said in zip(numbers, said_of, strict=True):
            entry, offset = mine[number], int(offsets[number])
            same = said["physicalOffset"] == entry["physicalOffset"]
            yield {
                **base, "first": offset, "count": int(entry["size"]), "after": -1,
                "before": int(entry["physicalOffset"]), "what": TAGGED if same else OTHER,
                "value": int(said["tagsCode"]),
            }  # fmt: skip

    def _twice(self, before: Row | None, row: Row, base: Row) -> Iterator[Row]:
        """Rows for records with the queueOffset of the one before; before: the run before."""
        offsets = self.files.offsets(row)
        again = np.flatnonzero(np.diff(offsets) == 0)[:_TWICE_MOST].tolist()
        pairs = [(int(offsets[at]), (row, at), (row, at + 1)) for at in again]
        if before and row["first"] == before["greatest"]:
            pairs.append((row["first"], (before, before["count"] - 1), (row, 0)))
        for value, (each, number) in ((value, one) for value, *two in pairs for one in two):
            entry = decode_entries(self.files.entries(each, number, number + 1))[0]
            yield {
                **base, "first": 0, "count": int(entry["size"]), "after": -1,
                "before": int(entry["physicalOffset"]), "what": TWICE, "value": value,
            }  # fmt: skip

    def _records(self, row: Row, base: Row, what: str) -> Iterator[Row]:
        """A row for each record of a run."""
        entries = decode_entries(self.files.entries(row, 0, row["count"]))
        offsets = self.files.offsets(row)
        for number in range(row["count"]):
            value = int(offsets[number]) if len(offsets) else row["first"] + number
            yield {
                **base, "first": 0, "count": int(entries["size"][number]), "after": -1,
                "before": int(entries["physicalOffset"][number]), "what": what, "value": value,
            }  # fmt: skip


def _claims(old: OldQueue, first: int, count: int, base: Row) -> Iterator[Row]:
    """What the old queue says of these positions; of the first few of them."""
    for number, said in enumerate(old.at(first, min(count, _CLAIMS_A_GAP))):
        place, size, tags = (int(said[name]) for name in ("physicalOffset", "size", "tagsCode"))
        if size > 0:
            yield {
                **base, "first": first + number, "count": size, "after": -1, "before": place,
                "what": CLAIM, "value": tags,
            }  # fmt: skip


class _First:
    """Keeps the first `most` GAP rows by their offsets in the log; they may come in any order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[Row] = []
        self.dropped = self.positions = 0

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= 2 * self._most:
            self._cut()

    def listed(self) -> list[Row]:
        self._cut()
        return self._rows

    def _cut(self) -> None:
        self._rows.sort(key=gap_order)
        self.dropped += len(self._rows[self._most :])
        self.positions += sum(row["count"] for row in self._rows[self._most :])
        del self._rows[self._most :]


def gap_order(row: Row) -> tuple[int, str, int, int]:
    return row["after"], row["topic"], row["queue_id"], row["first"]
