"""How many bytes the log lost between two places."""

import numpy as np
import pytest

from reput.store_format.damage.queue_ends import (
    Losses,
    LossReader,
    SegmentLoss,
    lost_places,
    most_messages,
)
from reput.store_format.damage.ranges import CONTENT, KINDS, RANGE, DamageKind

MISSING = KINDS.index(DamageKind.MISSING)


def loss(start: int, *ranges: tuple[int, int]) -> SegmentLoss:
    return SegmentLoss(start, 1 << 40, "", ranges, sum(length for _, length in ranges))


def reader(*losses: SegmentLoss, from_start: bool = True) -> LossReader:
    return LossReader(Losses(losses, from_start), lambda each: lost_places(each, ()))


def between(log: LossReader, after: int, before: int) -> int:
    return int(log.between(np.array([after]), np.array([before]))[0])


@pytest.mark.parametrize(
    ("after", "before", "lost"),
    [
        (-1, 100, 0),  # a range counts behind the place where it starts
        (-1, 101, 10),
        (100, 101, 10),
        (101, 200, 0),
        (0, 301, 30),
        (0, 5000, 30),
        (0, 9001, 37),
        (201, 9001, 7 + 20),
        (9001, 1 << 62, 0),
    ],
)
def test_ranges_that_start_between_two_places(after: int, before: int, lost: int) -> None:
    log = reader(loss(0, (100, 10), (300, 20)), loss(8000, (9000, 7)))
    assert between(log, after, before) == lost


def test_a_log_without_losses_lost_nothing() -> None:
    log = reader()
    assert not log.any
    assert between(log, -1, 1 << 62) == 0
    assert log.may_take(0, 1 << 62)
    assert not log.may_take(1, 1 << 62)


def test_of_many_segments_each_is_read_when_asked_and_few_are_kept() -> None:
    asked = []

    def read(each: SegmentLoss) -> np.ndarray:
        asked.append(each.start)
        return lost_places(each, ())

    losses = tuple(loss(1000 * n, (1000 * n + 5, n)) for n in range(1, 7))
    log = LossReader(Losses(losses, True), read)
    assert asked == []
    for n in (6, 3, 1, 3, 5, 6, 3):
        assert between(log, 1000 * n, 1000 * n + 6) == n
        assert between(log, -1, 1000 * n + 6) == n * (n + 1) // 2
    assert asked == [6000, 3000, 1000, 5000]
    between(log, 2000, 2006)
    between(log, 6000, 6006)
    assert asked[4:] == [2000, 6000]


@pytest.mark.parametrize(
    ("length", "place", "may"),
    [(20, 0, True), (21, 0, False), (21, 7999, False), (21, 8000, True), (500, 8000, False)],
)
def test_one_range_took_so_much_in_the_segments_up_to_a_place(
    length: int, place: int, may: bool
) -> None:
    losses = loss(0, (100, 10), (300, 20)), loss(8000, (9000, 21))
    assert reader(*losses).may_take(length, place) is may
    assert reader(*losses, from_start=False).may_take(length, place)


def test_what_a_segment_lost_is_neither_kept_records_nor_behind_the_logs_end() -> None:
    rows = np.zeros(4, RANGE)
    rows["offset"], rows["end"] = [50, 200, 900, 1000], [60, 300, 1100, 1010]
    rows["kind"] = [MISSING, CONTENT, MISSING, MISSING]
    found = lost_places(SegmentLoss(0, 1000, "run", ((400, 5), (10, 3)), 0), [rows[:2], rows[2:]])
    assert found.tolist() == [(10, 3), (50, 10), (400, 5), (900, 200)]
    assert len(lost_places(SegmentLoss(0, 1000, "", (), 0), [])) == 0


@pytest.mark.parametrize(
    ("lost", "plain", "batch"),
    [
        (0, 0, 0),
        (90, 0, 0),
        (91, 1, 1),  # a batch of one message needs no body
        (91 + 2 * 22 - 1, 1, 1),
        (91 + 2 * 22, 1, 2),
        (91 + 32 * 22, 8, 32),
        ((1 << 63) - 1, ((1 << 63) - 1) // 91, ((1 << 63) - 92) // 22),
    ],
)
def test_the_most_messages_are_those_of_one_batch(lost: int, plain: int, batch: int) -> None:
    assert (most_messages(lost, False), most_messages(lost, True)) == (plain, batch)
    assert most_messages(np.array([0, lost]), True).tolist() == [0, batch]
