"""Positions that a queue lost: a gap counts where the log lost enough bytes for its messages."""

import pytest

from reput.store_format.damage.queue_ends import NO_QUEUE_DAMAGE, LossReader, QueueDamage
from reput.store_format.damage.queue_findings import QueueGaps, RunGaps
from tests.store_format.damage.staged import lost, staged

Found = list[tuple[int, int, int, int, int]]
Runs = list[list[tuple[int, int]]]
BIG = 1 << 62  # no queueOffset that could be believed


def listed(gaps: RunGaps) -> Found:
    """(before which entry, how many, first position, place before, place behind)"""
    columns = gaps.counts["index"], gaps.counts["count"], gaps.first, gaps.after, gaps.before
    return list(zip(*(each.tolist() for each in columns), strict=True))


def found(
    runs: Runs, log: LossReader, damage: QueueDamage = NO_QUEUE_DAMAGE
) -> tuple[Found, Found]:
    """(lost positions, unexplained gaps) of all runs of a queue."""
    files, rows = staged(*runs, damage=damage)
    gaps = QueueGaps(files, log)
    surely, perhaps = zip(*(gaps.of(row) for row in rows), strict=True)
    return [g for each in surely for g in listed(each)], [
        g for each in perhaps for g in listed(each)
    ]


AT_ONCE: Runs = [[(0, 0), (1, 100), (4, 900), (5, 1000)]]
IN_TWO: Runs = [[(0, 0), (1, 100)], [(4, 900), (5, 1000)]]


@pytest.mark.parametrize(
    ("bytes_lost", "surely", "perhaps"),
    [(182, True, False), (181, False, True), (0, False, True)],
)
@pytest.mark.parametrize(("runs", "index"), [(AT_ONCE, 2), (IN_TWO, 0)], ids=["one", "two"])
def test_a_lost_message_takes_91_bytes_at_least(
    runs: Runs, index: int, bytes_lost: int, surely: bool, perhaps: bool
) -> None:
    gap = [(index, 2, 2, 100, 900)]
    log = lost((200, bytes_lost)) if bytes_lost else lost()
    assert found(runs, log) == (gap * surely, gap * perhaps)


def test_bytes_that_were_lost_elsewhere_explain_nothing() -> None:
    assert found(IN_TWO, lost((50, 500), (900, 500)))[0] == []
    assert found(IN_TWO, lost((100, 182)))[0] == [(0, 2, 2, 100, 900)]


def test_more_than_two_missing_for_no_reason_are_a_leap() -> None:
    assert found([[(0, 0)], [(3, 100)]], lost())[1] == [(0, 2, 1, 0, 100)]
    assert found([[(0, 0)], [(4, 100)]], lost()) == ([], [])


@pytest.mark.parametrize(("from_start", "gaps"), [(True, [(0, 5, 0, -1, 500)]), (False, [])])
def test_a_log_from_its_start_has_each_queues_first_message(from_start: bool, gaps: Found) -> None:
    runs: Runs = [[(5, 500), (6, 600)]]
    assert found(runs, lost((0, 455), from_start=from_start)) == (gaps, [])


def test_a_step_back_and_what_repeats_it_are_no_gap() -> None:
    """Queue offset 3 counts from the highest before it."""
    runs: Runs = [[(0, 0), (1, 100), (2, 200)], [(0, 900), (1, 1000)], [(3, 1100)]]
    assert found(runs, lost((300, 600))) == ([], [])
    assert found([*runs, [(5, 1200)]], lost((1150, 91)))[0] == [(0, 1, 4, 1100, 1200)]


@pytest.mark.parametrize("odd", [-1, -(1 << 63), BIG, (1 << 63) - 1])
def test_an_incredible_offset_is_passed_over(odd: int) -> None:
    runs: Runs = [[(0, 0)], [(odd, 100)], [(2, 300)]]
    assert found(runs, lost((200, 91))) == ([(0, 1, 1, 100, 300)], [])
    assert found([[pair for run in runs for pair in run]], lost((200, 91)))[0] == [
        (2, 1, 1, 100, 300)
    ]


def test_a_position_that_is_kept_needs_no_room() -> None:
    kept = QueueDamage(no_room=frozenset({("T", 0, 900)}))
    assert found(AT_ONCE, lost(), kept) == ([(2, 2, 2, 100, 900)], [])
    other = QueueDamage(no_room=frozenset({("T", 1, 900)}))
    assert found(AT_ONCE, lost(), other)[0] == []


def test_a_batch_takes_as_many_positions_as_it_has_messages() -> None:
    """Its entries' numbers are no queueOffsets, so no entry is added."""
    files, (row,) = staged([(0, 0), (3, 100), (9, 900)], batch=3)
    assert listed(QueueGaps(files, lost((200, 700))).of(row)[0]) == [(2, 3, 6, 100, 900)]
    assert len(QueueGaps(files, lost((200, 700)))(row)) == 0


@pytest.mark.parametrize(("bytes_lost", "surely"), [(91 + 24 * 22, True), (90 + 24 * 22, False)])
def test_a_lost_batch_takes_91_bytes_once_and_22_for_each_message(
    bytes_lost: int, surely: bool
) -> None:
    files, (row,) = staged([(0, 0), (3, 100), (30, 900)], batch=3)
    gaps = QueueGaps(files, lost((200, bytes_lost))).of(row)[0]
    assert listed(gaps) == [(2, 24, 6, 100, 900)] * surely
