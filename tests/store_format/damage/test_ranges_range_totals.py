"""Ranges counted by cause: those behind which a live record stands, and those of the log's tail."""

import numpy as np

from reput.store_format.damage.ranges import RANGE, Damage, DamageKind, RangeTotals, as_row
from reput.store_format.faults import Fault

BAD = (DamageKind.DAMAGED, Fault.BAD_MAGIC)
OLD = (DamageKind.STALE, Fault.NONE)
CRC = (DamageKind.CONTENT, Fault.BODY_CRC)


def damage(at: int, end: int, cause: tuple[DamageKind, Fault]) -> Damage:
    return Damage(at, end, *cause, end - at, None, "record")


def rows(*ranges: Damage) -> np.ndarray:
    return np.array([as_row(each) for each in ranges], RANGE)


def counted(cause: tuple[DamageKind, Fault], tail: bool, ranges: int, length: int) -> list[object]:
    return [cause[0].value, int(cause[1]), tail, ranges, length]


def totals(live_end: list[int]) -> RangeTotals:
    """live_end: one item, where the last live record ends; a test may move it."""
    return RangeTotals(lambda: live_end[0])


def test_without_ranges_there_is_nothing() -> None:
    found = totals([0])
    assert (found.causes, found.lost_end) == ([], -1)


def test_ranges_are_of_the_tail_until_a_live_record_follows() -> None:
    live = [100]
    found = totals(live)
    found.add(damage(100, 150, BAD))
    found.add(damage(150, 250, OLD))
    assert found.causes == [counted(BAD, True, 1, 50), counted(OLD, True, 1, 100)]
    assert found.lost_end == -1
    live[0] = 300
    assert found.causes == [counted(BAD, False, 1, 50), counted(OLD, False, 1, 100)]
    assert found.lost_end == 250
    found.add(damage(300, 305, BAD))
    assert found.causes == [
        counted(BAD, False, 1, 50), counted(OLD, False, 1, 100), counted(BAD, True, 1, 5),
    ]  # fmt: skip
    assert found.lost_end == 250


def test_the_tail_begins_anew_behind_each_live_record() -> None:
    live = [100]
    found = totals(live)
    for at in (100, 200, 300):
        found.add(damage(at, at + 10, BAD))
        live[0] = at + 100
    found.add(damage(400, 410, BAD))
    assert found.causes == [counted(BAD, False, 3, 30), counted(BAD, True, 1, 10)]


def test_a_record_that_is_kept_is_not_lost() -> None:
    live = [100]
    found = totals(live)
    found.add(damage(100, 150, BAD))
    found.add(damage(200, 300, CRC))
    live[0] = 301
    assert found.lost_end == 150
    found.add_rows(rows(damage(310, 320, CRC)))
    assert found.lost_end == 150
    assert counted(CRC, False, 2, 110) in found.causes


def test_rows_have_a_live_record_behind_each() -> None:
    found = totals([0])
    found.add_rows(rows(damage(0, 7, BAD), damage(10, 20, OLD), damage(30, 40, BAD)))
    found.add_rows(rows())
    found.add_rows(rows(damage(50, 60, BAD), damage(60, 65, CRC)))
    causes = [counted(BAD, False, 3, 27), counted(OLD, False, 1, 10), counted(CRC, False, 1, 5)]
    assert sorted(found.causes, key=str) == sorted(causes, key=str)
    assert found.lost_end == 60
