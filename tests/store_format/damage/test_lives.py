"""Pages of an older life between those of the later one: which life a piece is of."""

import pytest

from reput.store_format.damage.lives import Claim, Piece, judge_lives
from tests.seeds import some
from tests.store_format.damage.generator import SEGMENT, Judged, judged, queues_of, salvaged
from tests.store_format.damage.lives import two_lives

# of 46 a stale record reaches into a live one, of 49 a whole segment is of the older life
QUICK = [(0, False), (1, False), (2, True), (46, False), (49, True)]
LONG = range(4)  # with and without `__CRC32#`, with and without queue files: 16
QUEUES = [("T", number) for number in range(6)]


@pytest.mark.parametrize(("seed", "crc"), QUICK)
def test_pages_of_an_older_life_displace_nothing_and_bring_nothing_back(seed: int, crc) -> None:
    found = judged(two_lives(seed, crc), derived=False)
    assert (found.displaced, found.fabricated) == (0, 0)


def test_a_record_that_goes_on_in_a_page_of_an_older_life_is_in_no_queue() -> None:
    """Its head is the later life's, its properties the other's."""
    hurt = two_lives(5, crc=False, body=100)
    (size,) = set(hurt.sizes)
    queues = queues_of(salvaged(hurt, derived=False).files)
    kept = [divmod(place, SEGMENT) for queue in queues.values() for place in queue.values()]
    assert len(kept) > 1000
    for number, at in kept:
        start = number * SEGMENT
        now, was = (log[start][at : at + size] for log in (hurt.log.segments, hurt.whole))
        assert now[-60:] == was[-60:]


@pytest.mark.long
def test_lives_of_records_of_one_size_displace_nothing() -> None:
    """Before a piece ended at pages too, 50,100 of these messages were displaced."""
    found = Judged()
    for seed in range(50):
        found.add(judged(two_lives(seed, crc=False, body=100)))
    assert found == Judged(untouched=found.untouched)
    assert found.untouched > 50_000


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("derived", [False, True], ids=["alone", "derived"])
@pytest.mark.parametrize("crc", [False, True], ids=["bare", "crc"])
def test_random_logs_of_two_lives(crc: bool, derived: bool) -> None:
    for seed in some(LONG):
        found = judged(two_lives(seed, crc), derived)
        assert (found.displaced, found.fabricated) == (0, 0), seed


def piece(
    start: int, times: tuple[int, int], offsets: tuple[int, int], queues: int = 6,
    records: int = 40, frame: int = -1, is_sure: bool = False,
) -> Piece:  # fmt: skip
    """A piece of 1,000 bytes from `start` on, whose queues have these first and last offsets."""
    claims = {queue: Claim(*offsets, times[1]) for queue in QUEUES[:queues]}
    return Piece(start, start + 1000, records, *times, frame, claims, is_sure)


def stale(*pieces: Piece) -> list[int]:
    return [start for start, verdict in judge_lives(pieces).items() if not verdict.live]


BEFORE = piece(0, (1, 50), (0, 9))


def test_what_is_older_and_claims_positions_is_stale_unless_the_clock_was_set_back() -> None:
    old, new = piece(4000, (51, 60), (12, 15)), piece(2000, (100, 120), (10, 13))
    assert stale(BEFORE, new, old, piece(6000, (130, 140), (15, 19))) == [4000]
    # Its times are in order; so are those of a second such piece.
    old, again = piece(2000, (51, 60), (12, 17)), piece(4000, (61, 70), (18, 19))
    assert stale(BEFORE, old, again, piece(6000, (100, 120), (15, 19))) == [2000, 4000]
    # Between the cut and the piece the later life has put no message into these queues.
    new = piece(2000, (100, 120), (10, 13), queues=1)
    old = Piece(4000, 5000, 40, 51, 60, -1, {queue: Claim(10, 12, 60) for queue in QUEUES[1:]})
    assert stale(BEFORE, new, old, piece(6000, (130, 140), (14, 20))) == [4000]
    # The queues go on from what is newer by the clock, and what follows goes on from them.
    new, back = piece(2000, (100, 120), (10, 13)), piece(4000, (51, 60), (14, 17))
    assert judge_lives([BEFORE, new, back, piece(6000, (130, 140), (18, 20))]) == {}
    assert (judge_lives([BEFORE, piece(2000, (100, 120), (10, 13)),
        piece(4000, (51, 60), (14, 17))]) == {})  # fmt: skip
    assert judge_lives([BEFORE, piece(2000, (51, 60), (0, 5)), piece(4000, (61, 70), (6, 8))]) == {}
    assert judge_lives([BEFORE, piece(2000, (30, 40), (0, 5))]) == {}  # clock set back


def test_one_wild_message_costs_no_piece_but_a_record_that_reaches_into_it_does() -> None:
    """Two records have one queueOffset in one queue: no older life."""
    one = piece(2000, (51, 60), (9, 12), queues=1)
    assert judge_lives([piece(0, (1, 50), (0, 9), queues=1), one]) == {}
    # nor in one of six queues that nothing says more of
    twice = piece(4000, (61, 70), (12, 20), queues=1)
    assert judge_lives([BEFORE, piece(2000, (51, 60), (10, 19)), twice]) == {}
    # A flipped bit of a queueOffset, in a piece whose only queue that is.
    wild = piece(2000, (51, 60), (10, 1 << 40), queues=1)
    before = piece(0, (1, 50), (0, 9), queues=1)
    assert judge_lives([before, wild, piece(4000, (61, 70), (14, 19), queues=1)]) == {}
    wild = piece(0, (1, 50), (0, 1 << 40))  # nor does such a one hide an older life behind it
    assert stale(wild, piece(2000, (51, 60), (0, 9)), piece(4000, (61, 70), (4, 7))) == [2000]
    for records in [2, 3]:
        late = piece(2000, (900, 900), (10, 10), records=records)
        following = [
            piece(n * 2000, (n * 60, n * 60 + 9), (n * 5 + 20, n * 5 + 23)) for n in (2, 3)
        ]
        found = stale(BEFORE, late, *following, piece(8000, (1000, 1010), (60, 61)))
        assert found == ([] if records == 2 else [4000, 6000])
    # Six queues go on by one on both sides, which times alone would not outweigh.
    new, old = piece(2000, (100, 120), (10, 13)), piece(4000, (51, 60), (14, 17), queues=5)
    later = piece(6000, (130, 140), (18, 19), queues=1)
    assert judge_lives([BEFORE, new, old, later]) == {}
    assert stale(BEFORE, new._replace(frame=4100), old, later) == [4000]
    new = piece(2000, (100, 120), (10, 13))
    goes_on = piece(4000, (51, 60), (16, 17), is_sure=True)
    goes_back = piece(4000, (51, 60), (12, 17), is_sure=True)
    later = piece(6000, (130, 140), (19, 22))
    assert judge_lives([BEFORE, new, goes_on, later]) == {}
    assert stale(BEFORE, new, goes_back, later) == [4000]
