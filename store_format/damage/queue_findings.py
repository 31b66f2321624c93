"""What one queue's runs show of damage: positions that it lost, and records that are not its own.

Each kind of finding is a type of its own. `place`, `after` and `before` are physical offsets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from reput.store_format.damage.losses import LossReader
from reput.store_format.damage.offset_votes import runs_by_vote
from reput.store_format.damage.old_queue import OldQueue, contradictions
from reput.store_format.damage.queue_gaps import QueueGaps
from reput.store_format.damage.run_reader import (
    Run,
    RunReader,
    all_entries,
    all_offsets,
    entry_at,
    place_of,
)

_CLAIMS_A_GAP = 1000
_MOST_TWINS = 16  # pairs in a run
_MOST_UNLIKE, _ENTRIES_AN_UNLIKE = 2, 8  # most in a run: two, and one for each eight entries


@dataclass(frozen=True)
class QueueGap:
    """Positions [first, first + count) that a queue misses from `after` (-1: none) to `before`."""

    topic: str
    queue_id: int
    batch: bool
    first: int
    count: int
    after: int
    before: int


@dataclass(frozen=True)
class Gap(QueueGap):
    """A gap whose messages are lost: the log lost enough bytes there."""


@dataclass(frozen=True)
class UnexplainedGap(QueueGap):
    """A gap where the log lost too few bytes for the messages that are missing.

    entries_a_break: the queue's entries for each place where it does not go on for no known reason;
    0 where that was not counted.
    """

    entries_a_break: int = 0


@dataclass(frozen=True)
class Renumbering:
    """The queueOffsets of `count` records, from the one at `place` on, count as first, first + 1...

    said: the first record's own queueOffset. opens: the records are the queue's first
    (damage/openings); otherwise their neighbours outvote them (damage/chain).
    """

    topic: str
    queue_id: int
    first: int
    count: int
    place: int
    said: int
    opens: bool


@dataclass(frozen=True)
class QueueRecord:
    """A record at the physical offset `place`, of `size` bytes, with a queueOffset of a queue."""

    topic: str
    queue_id: int
    place: int
    size: int
    queue_offset: int


@dataclass(frozen=True)
class StrayRecord(QueueRecord):
    """A record that fits nowhere in the queue that it names."""


@dataclass(frozen=True)
class LoneRecord(QueueRecord):
    """A record that no other of its queue confirms. may_be_own: those before it may be lost."""

    may_be_own: bool


@dataclass(frozen=True)
class OutvotedRecord(QueueRecord):
    """A record whose neighbours give it queueOffset `counts_as`; it does not open its queue."""

    counts_as: int


@dataclass(frozen=True)
class TwinRecord(QueueRecord):
    """One of two records that follow each other in a queue with one queueOffset."""


@dataclass(frozen=True)
class ContradictedRecord(QueueRecord):
    """A record at whose position the store's own ConsumeQueue has another record, or another tag.

    tag_only: the entry points to this record, with another tag.
    """

    tag_only: bool


@dataclass(frozen=True)
class QueueClaim(QueueRecord):
    """The store's own ConsumeQueue says that this record has this position, which is missing."""


Finding = QueueGap | Renumbering | QueueRecord
KINDS: tuple[type[Finding], ...] = (
    Gap, UnexplainedGap, Renumbering, StrayRecord, LoneRecord, OutvotedRecord, TwinRecord,
    ContradictedRecord, QueueClaim,
)  # fmt: skip
_F = TypeVar("_F", bound=Finding)


class QueueFindings:
    """The findings of all queues, by kind. gaps_unlisted, positions_unlisted: gaps, and their lost
    positions, that are not among these; gap_lines: the files of staging that list all gaps.
    """

    def __init__(
        self, by_kind: Mapping[Any, list[Any]], gaps_unlisted: int = 0,
        positions_unlisted: int = 0, gap_lines: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._by_kind = by_kind
        self.gaps_unlisted, self.positions_unlisted = gaps_unlisted, positions_unlisted
        self.gap_lines = gap_lines

    def of(self, kind: type[_F]) -> list[_F]:
        found: list[_F] = self._by_kind[kind]
        return found


class QueueSearch:
    """Searches one queue's runs; old: the queue's files in the store, if they are witnesses.

    The first `most` unexplained gaps wait for the queue's end, when it is known how often the queue
    does not go on.
    """

    def __init__(self, files: RunReader, lost: LossReader, old: OldQueue | None, most: int) -> None:
        self._files, self._lost, self._old, self._most = files, lost, old, most
        self._gaps = QueueGaps(files, lost)
        self._renumbering: Renumbering | None = None  # it may go on with the next run
        self._unexplained: list[UnexplainedGap] = []
        self._entries = self._breaks = 0
        self._last: Run | None = None

    def findings(self, runs: Iterator[Run]) -> Iterator[Finding]:
        """The findings of all runs, which come in the log's order."""
        for run in runs_by_vote(self._files, runs, self._lost):
            yield from self._contradictions(run)
            if run["is_left_out"]:
                yield from (StrayRecord(*each) for each in self._records(run))
                continue
            yield from self._renumberings(run)
            self._entries += run["count"]
            self._breaks += run["is_alone"] or run["is_outvoted"] or run["decided"] > 0
            if self._lost.any and not run["batch"]:
                yield from self._twins(run)
                self._last = run
            yield from self._gaps_of(run)
            if run["is_alone"]:
                yield from (LoneRecord(*r, run["may_be_own"]) for r in self._records(run))
        if self._renumbering:
            yield self._renumbering
        for gap in self._unexplained:
            yield replace(gap, entries_a_break=self._entries // self._breaks)

    def _renumberings(self, run: Run) -> Iterator[Finding]:
        counts = run["decided"] > 0 or run["is_outvoted"]
        if self._renumbering and (run["is_outvoted"] or not counts):
            yield self._renumbering
            self._renumbering = None
        if not counts:
            return
        held = self._renumbering or Renumbering(
            run["topic"], run["queue_id"], run["decided_from"], 0, place_of(self._files, run, 0),
            run["first"], not run["is_outvoted"],
        )  # fmt: skip
        self._renumbering = replace(held, count=held.count + run["decided"])
        if run["is_outvoted"]:
            for number, record in enumerate(self._records(run)):
                said, counts_as = run["first"] + number, run["decided_from"] + number
                yield OutvotedRecord(*record[:4], said, counts_as)

    def _gaps_of(self, run: Run) -> Iterator[Finding]:
        lost, unexplained = self._gaps.of(run)
        queue = run["topic"], run["queue_id"], run["batch"]
        for is_lost, gaps in ((True, lost), (False, unexplained)):
            arrays = (gaps.first, gaps.counts["count"], gaps.after, gaps.before)
            for values in zip(*(each.tolist() for each in arrays), strict=True):
                if is_lost:
                    yield Gap(*queue, *values)
                else:
                    yield from self._wait(UnexplainedGap(*queue, *values))
                yield from self._claims(run, *values[:2])

    def _wait(self, gap: UnexplainedGap) -> Iterator[Finding]:
        self._breaks += 1
        if len(self._unexplained) < self._most:
            self._unexplained.append(gap)
        else:
            yield gap

    def _contradictions(self, run: Run) -> Iterator[Finding]:
        """The entries of a run that the old queue contradicts. A queue that contradicts many was
        not written from this log, or by other rules: it is no witness.
        """
        if not self._old or not self._old.any or run["batch"]:
            return
        mine, offsets = all_entries(self._files, run), all_offsets(self._files, run)
        numbers, said = contradictions(self._old, offsets, mine)
        if len(numbers) > _MOST_UNLIKE + len(mine) // _ENTRIES_AN_UNLIKE:
            return
        for number, theirs in zip(numbers.tolist(), said, strict=True):
            place = int(mine[number]["physicalOffset"])
            yield ContradictedRecord(
                run["topic"], run["queue_id"], place, int(mine[number]["size"]),
                int(offsets[number]), int(theirs["physicalOffset"]) == place,
            )  # fmt: skip

    def _claims(self, run: Run, first: int, count: int) -> Iterator[Finding]:
        """The old queue's entries at the first lost positions from `first` on."""
        if not self._old or not self._old.any:
            return
        for number, said in enumerate(self._old.at(first, min(count, _CLAIMS_A_GAP))):
            place, size = int(said["physicalOffset"]), int(said["size"])
            if size > 0:
                yield QueueClaim(run["topic"], run["queue_id"], place, size, first + number)

    def _twins(self, run: Run) -> Iterator[Finding]:
        """The pairs of neighbouring records with one queueOffset, less any record that the store's
        own queue has at that position.
        """
        offsets, last = self._files.offsets(run), self._last
        again = np.flatnonzero(np.diff(offsets) == 0)[:_MOST_TWINS].tolist()
        twins = [(run, number, int(offsets[at])) for at in again for number in (at, at + 1)]
        if last and run["first"] == last["greatest"]:
            twins += [(last, last["count"] - 1, run["first"]), (run, 0, run["first"])]
        for of, number, said in twins:
            entry = entry_at(self._files, of, number)
            if self._old and self._old.at(said, 1)[0] == entry:
                continue
            place, size = int(entry["physicalOffset"]), int(entry["size"])
            yield TwinRecord(run["topic"], run["queue_id"], place, size, said)

    def _records(self, run: Run) -> Iterator[tuple[str, int, int, int, int]]:
        """(topic, queueId, physical offset, bytes, queueOffset) of each record of a run."""
        entries = all_entries(self._files, run)
        columns = entries["physicalOffset"], entries["size"], all_offsets(self._files, run)
        for values in zip(*(each.tolist() for each in columns), strict=True):
            yield (run["topic"], run["queue_id"], *values)
