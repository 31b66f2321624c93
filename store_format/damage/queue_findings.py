"""What one queue's runs show of damage: the positions that it lost, and the records that name a
wrong queue.

Each kind of finding is a type of its own. `place`, `after` and `before` are physical offsets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from reput.store_format.damage.contradictions import OldQueue, contradictions
from reput.store_format.damage.queue_ends import (
    GAP_COUNT,
    NO_GAPS,
    LossReader,
    Run,
    RunReader,
    all_entries,
    all_offsets,
    entry_at,
    most_messages,
    place_of,
)
from reput.store_format.damage.repair import least_bytes
from reput.store_format.damage.votes import runs_by_vote

# ---
# The positions that a queue lost where the log lost bytes.
#
# If two neighbouring entries of a queue do not have neighbouring queueOffsets, the queueOffsets
# between may be lost. They count as lost only if the log lost enough bytes for all their messages
# between the two records.

_MOST_UNEXPLAINED = 2  # messages missing where the log lost too few bytes; more are a leap
_CREDIBLE = 1 << 62  # a queueOffset from here on, or below 0, shows no gap


@dataclass(frozen=True)
class RunGaps:
    """Gaps in one run and before it, as arrays with an item for each gap.

    counts: GAP_COUNT; first: the gap's first position; after, before: the physical offsets of the
    queue's records around it, -1 for none.
    """

    counts: Any
    first: Any
    after: Any
    before: Any


_NONE = np.empty(0, np.int64)
_NO_RUN_GAPS = RunGaps(NO_GAPS, _NONE, _NONE, _NONE)


class QueueGaps:
    """Follows one queue's runs in the log's order."""

    def __init__(self, files: RunReader, lost: LossReader) -> None:
        self.files, self.lost = files, lost
        self.expected: int | None = None  # the next queueOffset
        # The last record's physical offset; None: it has to be read from the last run's entries.
        self._place: int | None = -1
        self._last: Run = {}

    def __call__(self, run: Run) -> np.ndarray:
        """GAP_COUNT rows for NumberRuns; none in a batch queue (positions are no queueOffsets)."""
        counts: np.ndarray = self.of(run)[0].counts
        return NO_GAPS if run["batch"] else counts

    @property
    def place(self) -> int:
        """The physical offset of the queue's last record."""
        if self._place is None:
            self._place = place_of(self.files, self._last, self._last["count"] - 1)
        return self._place

    def of(self, run: Run) -> tuple[RunGaps, RunGaps]:
        """(lost positions, gaps where the log lost too few bytes) of the queue's next run."""
        if self._just_goes_on(run):
            assert self.expected is not None
            self.expected += run["count"]
            self._place, self._last = None, run
            return _NO_RUN_GAPS, _NO_RUN_GAPS
        offsets, ends, places = self._asked_entries(run)
        expected = self.expected
        if expected is None:
            expected = 0 if self.lost.from_start else int(offsets[0])
        credible = (offsets >= 0) & (offsets < _CREDIBLE) & (ends < _CREDIBLE)
        reached = np.maximum.accumulate(np.append(expected, np.where(credible, ends, 0)))
        wanted, places_before = reached[:-1], np.append(self.place, places[:-1])
        maybe = np.flatnonzero(credible & (offsets > wanted))
        missing = offsets[maybe] - wanted[maybe]
        lost = self.lost.between(places_before[maybe], places[maybe])
        sure = missing <= most_messages(lost, run["batch"])
        if self.files.damage.no_room:
            key = run["topic"], run["queue_id"]
            kept = [(*key, place) in self.files.damage.no_room for place in places[maybe].tolist()]
            sure |= np.array(kept, np.bool_)
        self.expected, self._place = int(reached[-1]), int(places[-1])

        def gaps(these: Any) -> RunGaps:
            at = maybe[these]
            counts = np.zeros(len(at), GAP_COUNT)
            counts["index"], counts["count"] = at, missing[these]
            return RunGaps(counts, wanted[at], places_before[at], places[at])

        return gaps(sure), gaps(~sure & (missing <= _MOST_UNEXPLAINED))

    def _just_goes_on(self, run: Run) -> bool:
        """Whether a run has no gap, as almost all have: then its entries are not even read."""
        goes_on = run["offsets_at"] < 0 and run["first"] == self.expected
        return bool(
            goes_on and not run["batch"] and not run["decided"] and run["first"] >= 0
            and run["greatest"] < _CREDIBLE
        )  # fmt: skip

    def _asked_entries(self, run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(queueOffsets, next queueOffsets, physicalOffsets) of entries that may follow a gap.

        In a consecutive run only the first entry may; the last one is added for its offsets.
        """
        if run["batch"]:
            entries = all_entries(self.files, run)
            base = entries["baseOffset"].astype(np.int64)
            return base, base + entries["batchSize"], entries["physicalOffset"].astype(np.int64)
        offsets = self.files.offsets(run)
        if len(offsets):
            places = all_entries(self.files, run)["physicalOffset"].astype(np.int64)
            return offsets, np.where(offsets < _CREDIBLE, offsets, 0) + 1, places
        last = run["count"] - 1
        asked = [(0, run["first"])] if last == 0 else [(0, run["first"]), (last, run["greatest"])]
        ends = [run["greatest"]] if last else []
        ends.append(min(run["greatest"], _CREDIBLE) + 1)
        places = np.array([place_of(self.files, run, number) for number, _ in asked], np.int64)
        return np.array([offset for _, offset in asked], np.int64), np.array(ends, np.int64), places


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
    (damage/queue_ends); otherwise their neighbours outvote them (damage/chain).
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


# ---
# Finds records that name a wrong queue, by other queues and the store's own files.

ENTRIES_A_BREAK = 32  # entries for each place where a credible queue does not go on
_MOST_LOST_BESIDE = 64  # messages; longer gaps are not compared with other queues' records
_UNREAD = "\ufffd"  # what Java and `decode` make of bytes that are no UTF-8

Doubted = LoneRecord | OutvotedRecord | TwinRecord


def displaced_records(findings: QueueFindings, lost: LossReader) -> list[tuple[Doubted, QueueGap]]:
    """(record, gap) of each record whose queueOffset another queue misses at its place.

    Three witnesses: the queue that the record names has no message beside it, outvotes it, or has
    its queueOffset twice; the other queue misses just this queueOffset, between two places around
    the record; and one flipped bit makes one queue's name the other's.
    """
    by_offset: dict[int, list[QueueGap]] = {}
    short = [gap for gap in findings.of(Gap) if gap.count <= _MOST_LOST_BESIDE]
    gaps: list[QueueGap] = [*short, *findings.of(UnexplainedGap)]
    for gap in gaps:
        for offset in range(gap.first, gap.first + gap.count):
            by_offset.setdefault(offset, []).append(gap)
    found: list[tuple[Doubted, QueueGap]] = []
    doubted: list[Doubted] = [
        *findings.of(LoneRecord), *findings.of(OutvotedRecord), *findings.of(TwinRecord)
    ]  # fmt: skip
    for record in doubted:
        for gap in by_offset.get(record.queue_offset, ()):
            if not gap.after < record.place < gap.before or bits_between(record, gap) != 1:
                continue
            # A record that may be of its named queue stays there, unless another surely misses it.
            sure = isinstance(gap, UnexplainedGap) and gap.entries_a_break >= ENTRIES_A_BREAK
            if sure or not _may_be_own(record, lost):
                found.append((record, gap))
                break
    return found


def _may_be_own(record: Doubted, lost: LossReader) -> bool:
    """Whether a record may be of the queue that it names: it is a twin, or one bit away from the
    queueOffset that its queue has for it, or its queue's only survivor.

    A survivor's queue lost everything before it in one range: that many small ranges took just its
    messages is too unlikely beside one flipped bit.
    """
    match record:
        case TwinRecord():
            return True
        case OutvotedRecord():
            return (record.counts_as ^ record.queue_offset).bit_count() <= 1
    needs = record.queue_offset * least_bytes(record.topic, False)
    return record.may_be_own and lost.may_take(needs, record.place)


def bits_between(one: QueueRecord, other: QueueGap) -> int:
    """How many bits of topic and queueId differ between two queues; 64 where the topics differ in
    length. What is no UTF-8 differs from a letter in at least one bit, and counts as one.
    """
    if len(one.topic) != len(other.topic):
        return 64
    bits = ((one.queue_id ^ other.queue_id) & 0xFFFFFFFF).bit_count()
    for mine, theirs in zip(one.topic, other.topic, strict=True):
        unread = (mine == _UNREAD) != (theirs == _UNREAD)
        bits += 1 if unread else (ord(mine) ^ ord(theirs)).bit_count()
    return bits


def claimed_records(findings: QueueFindings) -> list[tuple[QueueRecord, QueueClaim]]:
    """(record, claim) of each record that the store's own queue files have at another position.

    Two witnesses: the files have another record at the record's own position, or it is alone in its
    queue; and an entry elsewhere points to just this record.
    """
    claims = {(claim.place, claim.size): claim for claim in findings.of(QueueClaim)}
    others = [each for each in findings.of(ContradictedRecord) if not each.tag_only]
    asked: list[QueueRecord] = [*others, *findings.of(LoneRecord)]
    return [(r, claims[r.place, r.size]) for r in asked if (r.place, r.size) in claims]
