"""The queueOffsets of one queue as evidence: which of them its neighbours outvote.

A queue's messages stand in the log in the order of their queueOffsets, without gaps but for those
that damage took. Where a few entries do not follow each other, the reading with the fewest faults
counts: the longest consistent chain. A single wrong entry at a queue's end has one witness and
stays as it is; so does a queue that begins anew at 0 because its topic was deleted and created
again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

MOST_OUTVOTED = 2  # entries in a row: one damaged page boundary, or two flipped bits, touch no more
LOOKED_AHEAD = 8  # pieces
# What a reading costs, where each outvoted entry and each missing message costs 1. A leap or a step
# back is what a broker's restart can leave, once; a missing message where nothing was lost has to
# be another record whose queue was changed. What else was tried is in docs/decisions/0013.
_LEAP = 2


class ChainPiece(NamedTuple):
    """`entries` consecutive entries of one queue, from queueOffset `first` on.

    after: the queueOffset that follows the last entry; where: the caller's own mark of the piece.
    """

    first: int
    after: int
    entries: int
    where: Any = None


class Outvoted(NamedTuple):
    """A piece is wrong. first: the queueOffset that its neighbours give to its first entry; None
    where the queue has no room for the piece, or several places.
    """

    first: int | None


# room(before, after): how many messages may have been lost between the two
Room = Callable[[ChainPiece, ChainPiece], int]


def goes_on(before: ChainPiece, after: ChainPiece, room: Room, between: int = 0) -> bool:
    """Whether `after` may follow `before`: no more messages are missing than may be lost.

    between: how many records with wrong or unknown queueOffsets stand between the two pieces.
    """
    missing = after.first - before.after
    return missing >= 0 and (missing <= between or missing - between <= room(before, after))


def judge(
    before: ChainPiece, piece: ChainPiece, after: Sequence[ChainPiece], room: Room
) -> Outvoted | None:
    """What the neighbours say of a piece; None where it stays as it is.

    before: the last piece that counts; after: the next LOOKED_AHEAD pieces, fewer at the queue's
    end. Pieces after the first one that cannot be outvoted are no witnesses.
    """
    if piece.entries > MOST_OUTVOTED or not after:
        return None
    if goes_on(piece, after[0], room) and piece.first >= before.after:
        return None  # what is missing before it is no reason to doubt it
    anchor = next((n for n, each in enumerate(after) if each.entries > MOST_OUTVOTED), len(after))
    ahead = [before, piece, *after[: anchor + 1]]
    chain = _cheapest(ahead, room)
    if 1 in chain:
        return None
    following = ahead[chain[1]]
    witnesses = sum(ahead[n].entries for n in chain[1:])
    if witnesses <= piece.entries and not _one_bit_too_far(before, piece, following, room):
        return None
    return Outvoted(_place(before, piece, following, room))


def _one_bit_too_far(
    before: ChainPiece, piece: ChainPiece, following: ChainPiece, room: Room
) -> bool:
    """Whether one flipped bit put a lone entry's queueOffset above that of `following`."""
    is_one = piece.entries == 1 and (piece.first ^ before.after).bit_count() == 1
    missing = following.first - before.after - piece.entries
    near = 0 <= missing <= max(room(before, following), _LEAP)
    return is_one and near and following.first < piece.first


def _cheapest(ahead: Sequence[ChainPiece], room: Room) -> tuple[int, ...]:
    """The numbers of the pieces that count, in the reading that costs least.

    Of two readings that cost the same, the reading that keeps the earlier piece.
    """
    best: list[tuple[int, tuple[int, ...]]] = [(0, (0,))]
    for n in range(1, len(ahead)):
        readings = [
            (cost + _between(ahead, m, n, room), chain)
            for m, (cost, chain) in enumerate(best)
        ]  # fmt: skip
        cost, chain = min(readings, key=lambda each: (each[0], [-len(each[1]), *each[1]]))
        best.append((cost, (*chain, n)))
    # pieces at the end may be wrong too; they are judged later, with more pieces after them
    ends = [
        (cost + sum(each.entries for each in ahead[n + 1 :]), -len(chain), chain)
        for n, (cost, chain) in enumerate(best) if n
    ]  # fmt: skip
    return min(ends)[2]


def _between(ahead: Sequence[ChainPiece], m: int, n: int, room: Room) -> int:
    """The cost of a reading in which piece n follows piece m and all between are wrong."""
    before, after, skipped = ahead[m], ahead[n], ahead[m + 1 : n]
    if any(each.entries > MOST_OUTVOTED for each in skipped):
        return 1 << 30
    wrong = sum(each.entries for each in skipped)
    missing = after.first - before.after
    if missing < 0:
        return wrong + _LEAP
    if missing <= wrong:
        return wrong
    return wrong + min(max(missing - wrong - room(before, after), 0), _LEAP)


def _place(before: ChainPiece, piece: ChainPiece, following: ChainPiece, room: Room) -> int | None:
    """The queueOffset right after `before` or before `following`, where nothing is lost between."""
    if following.first - before.after < piece.entries:
        return None
    touches_before = room(before, piece) == 0
    touches_after = room(piece, following) == 0
    if touches_before and touches_after and following.first - before.after != piece.entries:
        return None
    if touches_before:
        return before.after
    if touches_after:
        return following.first - piece.entries
    return None
