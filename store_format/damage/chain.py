"""The queueOffsets of one queue as evidence: which of them its neighbours outvote.

A queue's messages stand in the log in the order of their queueOffsets, without gaps but for those
that damage took. So an entry that does not go on from the one before it, or before which the next
one cannot stand, is wrong if both neighbours go on from each other without it: two witnesses
against one field. What is wrong alone, at a queue's end, has one witness and stays as it is; so
does a queue that begins anew at 0, as of a topic that was deleted and made again.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

MOST_OUTVOTED = 2  # entries in a row: those that one damaged page boundary, or two flips, may touch


class Piece(NamedTuple):
    """Entries of one queue that go on from each other: `entries` of them, from queueOffset `first`
    on; `after` is the queueOffset that goes on. where: what the caller knows them by.
    """

    first: int
    after: int
    entries: int
    where: Any = None


class Outvoted(NamedTuple):
    """A piece is wrong. first: the queueOffset that its first entry has by its neighbours; None
    where there is no room for it in this queue, or it can have several places.
    """

    first: int | None


# room(before, after): how many messages may have been lost between the two
Room = Callable[[Piece, Piece], int]


def goes_on(before: Piece, after: Piece, room: Room, between: int = 0) -> bool:
    """Whether `after` may follow: as many messages are missing as may have been lost.

    between: so many records of other or unknown offsets stand between the two.
    """
    missing = after.first - before.after
    return missing >= 0 and (missing <= between or missing - between <= room(before, after))


def judge(before: Piece, piece: Piece, after: Sequence[Piece], room: Room) -> Outvoted | None:
    """What the neighbours say of a piece; None where it stays as it is.

    before: the last piece that counts; after: the next two pieces, fewer at the queue's end.
    """
    if piece.entries > MOST_OUTVOTED or not after:
        return None
    following = after[0]
    if goes_on(piece, following, room) and piece.first >= before.after:
        return None  # what is missing before it is no reason to doubt it
    support = following.entries
    if len(after) > 1 and goes_on(following, after[1], room):
        support += after[1].entries
    if support <= piece.entries or not goes_on(before, following, room, piece.entries):
        return None
    return Outvoted(_place(before, piece, following, room))


def _place(before: Piece, piece: Piece, following: Piece, room: Room) -> int | None:
    """Where it belongs: right behind `before` or right before `following`, where nothing is lost
    between them.
    """
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
