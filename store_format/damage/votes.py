"""A queue's runs with the queueOffsets that count: the log's own, or those that neighbours prove.

A run without outvoted entries is handed on as it is. Any other run is handed on in pieces: outvoted
pieces get other queueOffsets or are left out (damage/queue_ends and damage/chain).
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from reput.store_format.damage.chain import (
    LOOKED_AHEAD,
    MOST_OUTVOTED,
    ChainPiece,
    Outvoted,
    goes_on,
    judge,
)
from reput.store_format.damage.queue_ends import (
    LOOKED_AT,
    LossReader,
    Run,
    RunReader,
    all_entries,
    all_offsets,
    opening,
    place_of,
    run_part,
)
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.layouts import RECORD_FIXED_BYTES
from reput.store_format.names import LMQ_PREFIX

# The columns that each run gets.
# decided, decided_from: its first `decided` queueOffsets count as decided_from, decided_from + 1...
# is_outvoted: the run is a piece that its neighbours outvote. is_left_out: it is in no queue.
# is_alone: no record of the queue confirms the run, and none contradicts it.
# may_be_own: the run may be alone only because its queue's records before it were lost.
AS_IT_IS = {
    "decided": 0, "decided_from": 0, "is_outvoted": False, "is_left_out": False, "is_alone": False,
    "may_be_own": False,
}  # fmt: skip
_LOOKED_ROUND = 128  # entries before and after an outvoted entry
_ENTRIES_A_BREAK = 8  # around an outvoted entry a queue may break off once more for so many entries
_MOST_OUTVOTED = 10_000  # pieces of a queue: a bound on the rows that a log can make


def runs_by_vote(files: RunReader, rows: Iterator[Run], lost: LossReader) -> Iterator[Run]:
    """A queue's runs, in the log's order, cut where an entry is outvoted."""
    chain = _Chain(files, lost)
    for row in _by_opening(files, rows):
        # a message may go into an LMQ queue twice, with one queueOffset
        if row["batch"] or row["topic"].startswith(LMQ_PREFIX):
            yield row
        else:
            yield from chain.take(row)
    yield from chain.rest()


def _by_opening(files: RunReader, rows: Iterator[Run]) -> Iterator[Run]:
    """A queue's runs, with corrected queueOffsets for its first entries (damage/queue_ends)."""
    head: list[Run] = []
    offsets: list[int] = []
    is_all = False
    while len(offsets) < LOOKED_AT:
        row = next(rows, None)
        if row is None:
            is_all = True
            break
        head.append({**row, **AS_IT_IS})
        if row["batch"]:
            break
        offsets += all_offsets(files, row)[:LOOKED_AT].tolist()
    decision = opening(offsets[:LOOKED_AT], is_all) if head and not head[0]["batch"] else None
    count, first = decision or (0, 0)
    for row in head:
        decided = min(count, row["count"])
        yield {**row, "decided": decided, "decided_from": first}
        count, first = count - decided, first + decided
    for row in rows:
        yield {**row, **AS_IT_IS}


class _Alone(NamedTuple):
    """A piece of a queue that no record of the queue confirms."""

    may_be_own: bool


_Finding = tuple[int, int, Outvoted | _Alone]  # (number of the first entry, entries, what it is)


class _Held:
    """A run with pieces that cannot be judged before the pieces after them are known."""

    def __init__(self, row: Run) -> None:
        self.row, self.waiting = row, 0
        self.findings: list[_Finding] = []


class _Part(NamedTuple):
    """`entries` entries of a run, from number `at` on."""

    held: _Held
    at: int
    entries: int


class _Chain:
    """Follows one queue; holds the few runs whose pieces cannot be judged yet.

    Pieces that go on by one are one piece, whether they are of one run or of several: the verdict
    must not depend on how the log was cut into splits.
    """

    def __init__(self, files: RunReader, lost: LossReader) -> None:
        self._files, self._lost = files, lost
        self._before: ChainPiece | None = None
        self._pieces: deque[ChainPiece] = deque()
        self._held: deque[_Held] = deque()
        self._after_stray = False  # whether the last piece is one of damage.twins
        self._left = _MOST_OUTVOTED
        self._entries = 0  # entries judged so far
        self._waits = 0  # entries that wait
        # Numbers of judged entries that do not follow the entry before them.
        self._breaks: deque[int] = deque()

    def take(self, row: Run) -> Iterator[Run]:
        held = _Held(row)
        self._held.append(held)
        for at, first, after, count in self._cut(row):
            for piece in self._without_strays(
                row, ChainPiece(first, after, count, _Part(held, at, count))
            ):
                self._add(piece)
        # The last piece may still grow, the pieces before it are witnesses, and _is_orderly looks
        # at the entries on both sides.
        while (
            len(self._pieces) > LOOKED_AHEAD + 1
            and self._waits - self._pieces[-1].entries > 2 * _LOOKED_ROUND
        ):
            self._judge()
        yield from self._done()

    def rest(self) -> Iterator[Run]:
        while self._pieces:
            self._judge()
        yield from self._done()

    def _add(self, piece: ChainPiece) -> None:
        """Hold a piece while it may be outvoted; of a longer piece hold its first and last part."""
        last = self._pieces[-1] if self._pieces else None
        waits = piece.entries <= MOST_OUTVOTED
        self._waits += piece.entries
        stray = self._is_one_of(piece, self._files.damage.twins)
        apart, self._after_stray = stray or self._after_stray, stray
        if last is not None and last.after == piece.first and not apart:
            count, parts = last.entries + piece.entries, last.where + piece.where
            waits = count <= MOST_OUTVOTED
            if not waits:
                for part in last.where if last.entries <= MOST_OUTVOTED else ():
                    part.held.waiting -= 1
                parts = parts[:1] + parts[-1:]
            self._pieces[-1] = ChainPiece(last.first, piece.after, count, parts)
        else:
            self._pieces.append(piece)
        piece.where[-1].held.waiting += waits

    def _is_one_of(self, piece: ChainPiece, records: frozenset[int]) -> bool:
        return bool(records) and self._place(piece.where[0], 0) in records

    def _without_strays(self, row: Run, piece: ChainPiece) -> Iterator[ChainPiece]:
        """The piece, cut so that each of damage.twins in it is a piece of its own."""
        part: _Part = piece.where
        if not self._files.damage.twins or piece.entries == 1:
            yield piece._replace(where=(part,))
            return
        offsets = all_offsets(self._files, row)
        entries = self._files.entries(row, part.at, part.at + part.entries)
        places = decode_entries(entries)["physicalOffset"].tolist()
        cuts = {0, part.entries}
        for number, place in enumerate(places):
            if place in self._files.damage.twins:
                cuts |= {number, number + 1}
        for start, stop in pairwise(sorted(cuts)):
            at, last = part.at + start, part.at + stop - 1
            first, after = int(offsets[at]), int(offsets[last]) + 1
            yield ChainPiece(first, after, stop - start, (_Part(part.held, at, stop - start),))

    def _judge(self) -> None:
        piece = self._pieces.popleft()
        self._waits -= piece.entries
        wrong = self._wrong(piece)
        if piece.entries <= MOST_OUTVOTED:
            for part in piece.where:
                part.held.waiting -= 1
        if not wrong:
            if self._is_alone(piece):
                alone = _Alone(self._before is None and self._may_have_begun(piece))
                for part in piece.where:
                    part.held.findings.append((part.at, part.entries, alone))
            if self._before is not None and not self._goes_on(self._before, piece):
                self._breaks.append(self._entries)
            self._before = piece
            self._entries += piece.entries
            return
        self._breaks.extend((self._entries, self._entries))
        self._entries += piece.entries
        first = wrong.first
        for part in piece.where:
            part.held.findings.append((part.at, part.entries, Outvoted(first)))
            first = first + part.entries if first is not None else None

    def _wrong(self, piece: ChainPiece) -> Outvoted | None:
        if piece.entries > MOST_OUTVOTED or not self._left:
            return None
        if self._is_one_of(piece, self._files.damage.strays):
            return Outvoted(None)
        if self._before is None:
            return None
        wrong = judge(self._before, piece, list(islice(self._pieces, LOOKED_AHEAD)), self._room)
        if wrong is None:
            return None
        # If the next piece does not follow without this one, several faults stand side by side.
        is_single = goes_on(self._before, self._pieces[0], self._room, piece.entries)
        if not self._is_orderly(piece, 2 if is_single else 1):
            return None
        self._left -= 1
        return wrong

    def _is_orderly(self, piece: ChainPiece, breaks_of_its_own: int = 2) -> bool:
        """Whether nearly every entry around a piece follows the entry before it.

        Where a producer or a test made up the queueOffsets, the queue's order is no witness.
        """
        while self._breaks and self._breaks[0] < self._entries - _LOOKED_ROUND:
            self._breaks.popleft()
        breaks, seen, before = len(self._breaks), 0, piece
        for following in self._pieces:
            if seen >= _LOOKED_ROUND:
                break
            breaks += not self._goes_on(before, following)
            seen += following.entries
            before = following
        seen = min(seen, _LOOKED_ROUND) + min(self._entries, _LOOKED_ROUND)
        return breaks <= breaks_of_its_own + seen // _ENTRIES_A_BREAK

    def _goes_on(self, before: ChainPiece, after: ChainPiece) -> bool:
        return goes_on(before, after, self._room)

    def _is_alone(self, piece: ChainPiece) -> bool:
        """Whether a piece does not follow the piece before it, and the next does not follow it."""
        if piece.entries > MOST_OUTVOTED:
            return False
        if self._pieces and self._goes_on(piece, self._pieces[0]):
            return False
        if self._before:
            return not self._goes_on(self._before, piece) and self._is_orderly(piece)
        return piece.first != 0 or (piece.entries == 1 and not self._pieces)

    def _may_have_begun(self, piece: ChainPiece) -> bool:
        """Whether all that a queue lacks before its first piece may have been lost."""
        if not self._lost.any or not self._lost.from_start:
            return piece.first == 0 or self._lost.any
        place = np.array([self._place(piece.where[0], 0)])
        lost = int(self._lost.between(np.array([-1]), place)[0])
        return 0 <= piece.first <= lost // RECORD_FIXED_BYTES

    def _place(self, part: _Part, number: int) -> int:
        return place_of(self._files, part.held.row, part.at + number)

    def _done(self) -> Iterator[Run]:
        while self._held and not self._held[0].waiting:
            held = self._held.popleft()
            yield from self._in_parts(held.row, held.findings)

    def _in_parts(self, row: Run, findings: list[_Finding]) -> Iterator[Run]:
        at = 0
        offsets = self._files.offsets(row) if findings else np.empty(0, np.int64)
        for start, count, finding in findings:
            if start > at:
                yield _part(row, offsets, at, start)
            part = _part(row, offsets, start, start + count)
            at = start + count
            if isinstance(finding, _Alone):
                yield {**part, "is_alone": True, "may_be_own": finding.may_be_own}
            elif finding.first is None:
                yield {**part, "is_outvoted": True, "is_left_out": True}
            else:
                yield {
                    **part, "is_outvoted": True, "decided": count, "decided_from": finding.first,
                }  # fmt: skip
        if at == 0:
            yield row
        elif at < row["count"]:
            yield _part(row, offsets, at, row["count"])

    def _cut(self, row: Run) -> Iterator[tuple[int, int, int, int]]:
        """A run's pieces: (number of the first entry, its queueOffset, next queueOffset, entries).

        Pieces with only lost messages between them are one piece, unless they stand beside a break:
        so a run with a million gaps is few pieces.
        """
        offsets = self._files.offsets(row)
        count = row["count"]
        if not len(offsets):
            yield 0, row["first"], row["first"] + count, count
            return
        starts = np.append(0, np.flatnonzero(np.diff(offsets) != 1) + 1)
        ends = np.append(starts[1:], count)
        missing = offsets[starts[1:]] - offsets[ends[:-1] - 1] - 1
        fine = missing >= 0
        fine[fine] = missing[fine] <= self._lost_before(row, starts[1:][fine])
        near = np.zeros(len(starts), np.bool_)
        for i in np.flatnonzero(~fine).tolist():
            near[max(i - 1, 0) : i + 4] = True
        near[:3], near[-3:] = True, True
        at = 0
        for i in range(len(starts)):
            last = i + 1 == len(starts) or near[i] or near[i + 1]
            if last:
                stop = int(ends[i])
                yield at, int(offsets[at]), int(offsets[stop - 1]) + 1, stop - at
                at = stop

    def _lost_before(self, row: Run, entries: np.ndarray) -> np.ndarray:
        """How many messages may have been lost right before each of these entries."""
        if not self._lost.any:
            return np.zeros(len(entries), np.int64)
        places = all_entries(self._files, row)["physicalOffset"].astype(np.int64)
        return self._lost.between(places[entries - 1], places[entries]) // RECORD_FIXED_BYTES

    def _room(self, before: ChainPiece, after: ChainPiece) -> int:
        if not self._lost.any:
            return 0
        last, first = before.where[-1], after.where[0]
        places = self._place(last, last.entries - 1), self._place(first, 0)
        lost = self._lost.between(np.array(places[:1]), np.array(places[1:]))
        return int(lost[0]) // RECORD_FIXED_BYTES


def _part(row: Run, offsets: np.ndarray, start: int, stop: int) -> Run:
    mine = offsets[start:stop]
    decided = max(min(row["decided"] - start, stop - start), 0)
    part = run_part(row, start, stop)
    return {
        **part, "first": part["first"] if row["offsets_at"] < 0 or not start else int(mine[0]),
        "greatest": int(mine.max()) if len(mine) else row["first"] + stop - 1,
        "decided": decided, "decided_from": row["decided_from"] + start,
    }  # fmt: skip
