"""Which pieces of a damaged log are of an older life, judged by the whole log at once.

A log that a recovery cut back and a broker wrote on has had two lives. Where the last write of a
page never reached the disk, records of the older life stand between those of the later one: whole,
in their own places, and from the cut on with the same queueOffsets. Where two pieces claim the same
positions the later life wins; times, queueOffsets and the records right beside tell which that is:

- a piece is of an older life if it is older than what stands before it, and what follows is newer
  again;
- a piece may also stand right after the cut, in the order of times: then the queues of the later
  life go back to positions that the piece has.

Neither alone is enough. A clock may be set back, and a topic may be made again. So a piece stays
where its queues go on from what is before it, and what follows goes on from it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reput.store_format.damage.evidence import Queue, StretchVerdict, Witness
from reput.store_format.damage.queue_ends import most_messages

# What witnesses weigh; a queue that goes on by one weighs 1. Few queues of a live piece go back; of
# a stale one many go on by chance.
_OLDER, _CONFLICT, _FRAME = 3, 4, 4
_BACK_IF_SURE = 2  # queues that must go back where there is no break
_FEW = 3  # fewer records' times may be flipped bits
_AHEAD = 4  # pieces whose queues are compared with a piece before them
_MOST_REMOVED = 16  # pieces in a row that may stand between a cut and the later life


class Claim(NamedTuple):
    """A queue's first and last queueOffset in a piece, and when the last one was stored."""

    first: int
    last: int
    stored: int


Claims = Mapping[Queue, Claim]
State = dict[Queue, Claim]  # each queue's last claim


class Piece(NamedTuple):
    """Sound records of the log that follow each other without a break, [start, end).

    first_time, last_time: storeTimestamp at its beginning and end. frame: where the record ends
    that begins at `end` and is broken, -1 for none. claims: its queues. is_sure: it is a whole part
    of a segment without damage.
    """

    start: int
    end: int
    records: int
    first_time: int
    last_time: int
    frame: int
    claims: Claims
    is_sure: bool = False


def judge_lives(pieces: Sequence[Piece]) -> dict[int, StretchVerdict]:
    """Verdicts of pieces by their start; none where no piece is of an older life.

    pieces: of the whole log, in its order. A piece without a verdict is left to the records around
    it (evidence.judge_stretch).
    """
    chain, verdicts = _in_order_of_time(pieces)
    _after_cuts(chain, verdicts)
    if all(each is None or each.live for each in verdicts.values()):
        return {}
    live = StretchVerdict(True, Witness.TIME | Witness.OFFSETS, Witness.NONE)
    judged = ((each.start, verdicts.get(each.start, live)) for each in pieces)
    return {start: verdict for start, verdict in judged if verdict is not None}


_Verdicts = dict[int, StretchVerdict | None]


def _in_order_of_time(pieces: Sequence[Piece]) -> tuple[list[Piece], _Verdicts]:
    """The pieces without those that are older than what is before and after them."""
    chain: list[Piece] = []
    verdicts: _Verdicts = {}
    state: State = {}
    at = 0
    while at < len(pieces):
        count = _older(chain, pieces, at)
        group = pieces[at : at + max(count, 1)]
        at += len(group)
        if count:
            verdict = _judge_group(chain[-1], state, group, pieces[at:])
            verdicts |= {each.start: verdict for each in group}
            if verdict is not None and not verdict.live:
                continue
        for each in group:
            chain.append(each)
            state |= each.claims
    return chain, verdicts


def _older(chain: list[Piece], pieces: Sequence[Piece], at: int) -> int:
    """How many pieces from `at` on are older than the end of the chain."""
    of_many = (each for each in chain[: -_AHEAD - 1 : -1] if each.records >= _FEW)
    newest = next(of_many, None)
    if newest is None:
        return 0
    count = 0
    for each in pieces[at:]:
        if max(each.first_time, each.last_time) >= newest.last_time:
            break
        count += 1
    return count


def _judge_group(
    before: Piece, state: State, group: Sequence[Piece], after: Sequence[Piece]
) -> StretchVerdict | None:
    """Whether pieces that are older than `before` are live; None where only their times speak, and
    nothing follows.

    That they go on from what is older yet says nothing: either life does.
    """
    newer = {queue: claim for queue, claim in state.items() if claim.stored > group[-1].last_time}
    yes, no = _compare(newer, _firsts(group))
    yes_behind, no_behind = _compare(_lasts(group), _firsts(after))
    stale = _CONFLICT * (no + no_behind) + (_OLDER if after else 0)
    spoke = Witness.TIME | (Witness.TIME_BEHIND if after else Witness.NONE)
    if before.frame > group[0].start:
        stale += _FRAME
        spoke |= Witness.FRAME
    for count, witness in ((no, Witness.OFFSETS), (no_behind, Witness.OFFSETS_BEHIND)):
        spoke |= witness if count else Witness.NONE
    sure = any(each.is_sure for each in group)
    if yes + yes_behind > stale or (sure and no + no_behind < _BACK_IF_SURE):
        return StretchVerdict(True, Witness.OFFSETS | Witness.OFFSETS_BEHIND, spoke)
    return StretchVerdict(False, spoke, Witness.NONE) if stale else None


def _after_cuts(chain: list[Piece], verdicts: _Verdicts) -> None:
    """Add verdicts of the pieces in a chain whose positions a later life claims."""
    kept: deque[_Kept] = deque(maxlen=_MOST_REMOVED + 1)
    state: State = {}
    for at, each in enumerate(chain):
        if _compare(state, each.claims)[1]:
            for _ in range(_removed(kept, state, each, chain[at:])):
                piece, had = kept.pop()
                _restore(state, piece, had)
                spoke = Witness.OFFSETS_BEHIND | Witness.TIME_BEHIND
                verdicts[piece.start] = StretchVerdict(False, spoke, Witness.TIME)
        had = {queue: state[queue] for queue in each.claims if queue in state}
        kept.append(_Kept(each, had))
        state |= each.claims


class _Kept(NamedTuple):
    """A piece that was kept so far, and what its queues had before it."""

    piece: Piece
    had: State


def _removed(kept: Sequence[_Kept], given: State, later: Piece, after: Sequence[Piece]) -> int:
    """How many of the last kept pieces a later life has overwritten, by the reading that costs
    least: the claims of `after` that go back, and what speaks for the pieces that are left out.
    """
    state, firsts = dict(given), _firsts(after)
    room = most_messages(later.start - kept[0].piece.start, False)
    best, cheapest = 0, _CONFLICT * _compare(state, firsts, room)[1]
    left_out = 0
    for count in range(1, len(kept)):
        piece, had = kept[-count]
        if piece.is_sure or piece.last_time > later.first_time:
            break
        left_out += piece.records.bit_length() + _compare(piece.claims, firsts)[0]
        left_out -= _CONFLICT * _compare(had, piece.claims, room)[1]
        if kept[-count - 1].piece.frame > piece.start:
            left_out -= _FRAME
        _restore(state, piece, had)
        cost = _CONFLICT * _compare(state, firsts, room)[1] + left_out
        if cost < cheapest:
            best, cheapest = count, cost
    return best


def _restore(state: State, piece: Piece, had: State) -> None:
    """Put the state back to what it was before a piece."""
    for queue in piece.claims:
        del state[queue]
    state |= had


def _compare(state: Claims, claims: Claims, room: int = 1 << 62) -> tuple[int, int]:
    """(queues that go on by one from what they have, queues that go back to a position they have).

    A queue that begins at 0 again goes back nowhere: its topic was deleted and made again. Nor does
    one that goes back by more than `room` messages: no older life has put so many there.
    """
    goes_on = back = 0
    for queue, claim in claims.items():
        had = state.get(queue)
        if had is not None and claim.first > 0:
            goes_on += claim.first == had.last + 1
            back += had.last - room < claim.first <= had.last
    return goes_on, back


def _firsts(pieces: Sequence[Piece]) -> State:
    firsts: State = {}
    for each in reversed(pieces[:_AHEAD]):
        firsts |= each.claims
    return firsts


def _lasts(pieces: Sequence[Piece]) -> State:
    lasts: State = {}
    for each in pieces:
        lasts |= each.claims
    return lasts
