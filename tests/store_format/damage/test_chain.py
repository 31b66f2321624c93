"""One queue's queueOffsets as evidence: what follows what, and who outvotes whom."""

from collections.abc import Callable

from reput.store_format.damage.chain import ChainPiece, Outvoted, goes_on, judge

Room = Callable[[ChainPiece, ChainPiece], int]
BEFORE = ChainPiece(0, 9, 9)  # queueOffsets 0 to 8: the next one is 9


def piece(first: int, count: int = 1) -> ChainPiece:
    return ChainPiece(first, first + count, count)


def room(of: int) -> Room:
    return lambda before, after: of


def test_the_reading_with_the_fewest_faults_counts() -> None:
    for at, after, verdict in [
        (piece(500), [], None),  # the queue's end: no witness
        (piece(500, 3), [piece(10, 5)], None),  # damage touches no three in a row
        (piece(500, 2), [piece(11, 5)], Outvoted(9)),
        (piece(500, 2), [piece(10, 5)], Outvoted(None)),  # one position for two records
        (piece(500), [piece(700), piece(11, 5)], Outvoted(None)),  # two faults: two places
        (piece(8), [piece(9, 5)], Outvoted(None)),  # a repeat: the queue goes on without it
        (piece(0), [piece(1, 5)], None),  # deleted and created again
        (piece(4), [piece(9)], None),  # one against one
        (piece(1 << 30), [piece(10, 5)], Outvoted(9)),
        (piece(3), [piece(10, 5)], Outvoted(9)),
        (piece(70), [piece(9, 5)], Outvoted(None)),
        (piece(0, 3), [piece(9, 5)], None),  # three of them: begun anew
        (piece(70), [piece(71, 5)], None),  # a jump that those behind confirm
        (piece(11), [piece(12, 5)], None),  # a gap alone is no fault
    ]:
        assert judge(BEFORE, at, after, room(0)) == verdict
    for first, following, verdict in [(9 ^ 1 << 4, 10, Outvoted(9)), (9 ^ 1 << 62, 10, Outvoted(9)),
        (9 ^ 3 << 4, 10, None),  # two bits
        (9 ^ 1 << 3, 10, None),  # a bit cleared: it repeats, as a broker's restart may
        (9 ^ 1 << 4, 11, Outvoted(None)),  # one more is missing, so it may stand in two places
        (9 ^ 1 << 4, 12, None)  # two more
        ]:  # fmt: skip
        assert judge(BEFORE, piece(first), [piece(following)], room(0)) == verdict
    for missing, between, lost, follows in [(0, 0, 0, True),
        (-1, 0, 9, False),  # a step back is no gap
        (1, 0, 0, False), (3, 0, 3, True), (4, 0, 3, False),
        (1, 1, 0, True),  # the record between takes the one position
        (4, 1, 3, True), (5, 1, 3, False)]:  # fmt: skip
        assert goes_on(BEFORE, piece(9 + missing), room(lost), between) is follows
    wrong, after = piece(1 << 30), piece(13, 5)
    assert judge(BEFORE, wrong, [after], lambda b, a: 5 * (b == BEFORE)) == Outvoted(12)
    assert judge(BEFORE, wrong, [after], lambda b, a: 5 * (a == after)) == Outvoted(9)
    assert judge(BEFORE, wrong, [after], room(5)) == Outvoted(None)
    assert judge(BEFORE, piece(70), [piece(12)], room(5)) is None  # one against one
    # Three entries go on from the leap; that the queue comes back to 10 later is another story.
    assert judge(BEFORE, piece(500), [piece(502, 3), piece(10, 90)], room(0)) is None
