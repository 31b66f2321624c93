"""Ranges of a log as rows: nothing of them is lost, however odd their numbers are."""

import json
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from reput.store_format.damage import ranges
from reput.store_format.damage.resync import Prover
from reput.store_format.faults import Fault
from reput.store_format.layouts import DLEDGER_HEAD
from tests.logs.encoder import Message
from tests.store_format.damage.walked import RULES, reader, walked

LONG_MAX, INT_MIN = (1 << 63) - 1, -(1 << 31)
SOUGHT = ranges.Damage(4096, 4200, ranges.DamageKind.DAMAGED, Fault.BAD_MAGIC, 104, 7, "record")


def there_and_back(*some: ranges.Damage) -> list[ranges.Damage]:
    return list(ranges.damages(np.array([ranges.as_row(each) for each in some], ranges.RANGE)))


def test_every_range_comes_back_and_those_that_touch_are_one() -> None:
    assert SOUGHT.length == 104
    assert SOUGHT._replace(end=SOUGHT.offset).length == 0
    for value in [None, 0, -1, INT_MIN, LONG_MAX, ~LONG_MAX]:
        assert there_and_back(SOUGHT._replace(value=value)) == [SOUGHT._replace(value=value)]
    some = [*(SOUGHT._replace(kind=kind) for kind in ranges.DamageKind),
        *(SOUGHT._replace(fault=fault) for fault in Fault),
        *(SOUGHT._replace(follows=follows) for follows in ranges.FOLLOWS)]  # fmt: skip
    assert there_and_back(*some) == some
    far = SOUGHT._replace(offset=LONG_MAX - 1, end=LONG_MAX, size=INT_MIN)
    assert there_and_back(far, SOUGHT) == [far, SOUGHT]
    assert there_and_back() == []
    each = [ranges.as_row(SOUGHT._replace(kind=kind)) for kind in ranges.KINDS]
    content = np.flatnonzero(np.array(each, ranges.RANGE)["kind"] == ranges.CONTENT)
    assert [ranges.KINDS[n] for n in content] == [ranges.DamageKind.CONTENT]
    [found] = there_and_back(SOUGHT)
    assert json.loads(json.dumps(found)) == [4096, 4200, "damaged", 5, 104, 7, "record"]
    about = reporter()
    found = reported(about, (BAD, 0, 10, Fault.BAD_MAGIC), (BAD, 10, 30, Fault.LENGTHS))
    one = ranges.Damage(0, 30, BAD, Fault.BAD_MAGIC, SIZE, 0xDAA320A7 - (1 << 32), "record")
    assert found == [one]
    assert about.count == 1
    about = reporter()
    some = ((BAD, 0, 10, Fault.LENGTHS), (BAD, 11, 30, Fault.LENGTHS),
        (CRC, 30, 40, Fault.BODY_CRC), (CRC, 40, 50, Fault.BODY_CRC),
        (BAD, 50, 60, Fault.LENGTHS))  # fmt: skip
    found = reported(about, *some)
    assert [(each.offset, each.end) for each in found] == [each[1:3] for each in some]
    assert about.count == 5
    found = reported(reporter(), (BAD, 0, 10, Fault.LENGTHS), (OLD, 10, 20, Fault.NONE))
    assert [each.follows for each in found] == ["stale record", "record"]
    found = reported(reporter(), (BAD, 0, 10, Fault.LENGTHS), (OLD, 11, 20, Fault.NONE))
    assert [each.follows for each in found] == ["record", "record"]


# --- The ranges of one segment: those of one kind that touch are one, and each shows its fault.
BAD, OLD, CRC = ranges.DamageKind.DAMAGED, ranges.DamageKind.STALE, ranges.DamageKind.CONTENT
RAW, ROWS = walked(*(Message(body=b"body", queue_id=n) for n in range(6)))
SIZE = int(ROWS["size"][0])


def reporter(raw: Any = RAW) -> ranges.RangeReporter:
    return ranges.RangeReporter(Prover(reader(raw), 0, len(raw), RULES))


def reported(
    about: ranges.RangeReporter,
    *some: tuple[ranges.DamageKind, int, int, Fault],
    follows: str = "record",
) -> list[ranges.Damage]:
    def each() -> Iterator[Any]:
        for kind, at, end, fault in some:
            yield from about.range(kind, at, end, fault, follows)
        yield from about.rest()

    return list(each())


def test_the_field_at_fault_is_shown_if_it_is_one_of_the_first() -> None:
    at = 2 * SIZE
    for fault, value in ((Fault.PLACE, at), (Fault.BAD_SIZE, SIZE), (Fault.BODY_LENGTH, None),
        (Fault.TEXT, None)):  # fmt: skip
        (found,) = reported(reporter(), (BAD, at, at + 5, fault))
        assert (found.size, found.value) == (SIZE, value)
    (found,) = reported(reporter(RAW[: SIZE + 4]), (BAD, SIZE, SIZE + 4, Fault.BAD_MAGIC))
    assert (found.size, found.value) == (SIZE, 0)
    head = np.zeros(1, DLEDGER_HEAD)
    head["magic"], head["size"], head["index"], head["term"] = 1, 500, 1 << 40, -3
    for fault, value in ((Fault.HEAD_INDEX, 1 << 40), (Fault.HEAD_TERM, -3)):
        (found,) = reported(reporter(head.view(np.uint8)), (CRC, 0, 9, fault))
        assert (found.size, found.value) == (500, value)


def test_a_strides_ranges_are_before_its_rows_and_of_those_that_a_crc_fails() -> None:
    """Between the rows 0, 1 and 3 stand two records that are wrong; record 3 fails its CRC."""
    about = reporter()
    assert list(about.range(BAD, 0, 0, Fault.LENGTHS, "record")) == []
    rows = ROWS[[0, 2, 3, 5]]
    faults = np.array([Fault.NONE, Fault.PLACE, Fault.NONE, Fault.BAD_MAGIC], np.uint8)
    wrong = np.array([0, 0, Fault.BODY_CRC, 0], np.uint8)
    crc = zlib.crc32(b"body") & 0x7FFFFFFF
    held, some = about.of_stride(rows, faults, np.array([0, 77, 0, 5]), wrong)
    assert isinstance(held, ranges.Damage)
    assert isinstance(some, ranges.Ranges)
    assert list(ranges.damages(some.rows)) == [
        ranges.Damage(SIZE, 2 * SIZE, OLD, Fault.PLACE, SIZE, 77, "record"),
        ranges.Damage(3 * SIZE, 4 * SIZE, CRC, Fault.BODY_CRC, SIZE, crc, "record"),
        ranges.Damage(4 * SIZE, 5 * SIZE, BAD, Fault.BAD_MAGIC, SIZE, 5, "record"),
    ]
    assert about.count == 4
    assert list(about.of_stride(rows, np.zeros(4, np.uint8), np.zeros(4, np.int64), None)) == []


# --- Ranges counted by cause: those behind which a live record stands, and those of the log's tail.
RANGE_BAD = (ranges.DamageKind.DAMAGED, Fault.BAD_MAGIC)
RANGE_OLD = (ranges.DamageKind.STALE, Fault.NONE)
RANGE_CRC = (ranges.DamageKind.CONTENT, Fault.BODY_CRC)


def damage(at: int, end: int, cause: tuple[ranges.DamageKind, Fault]) -> ranges.Damage:
    return ranges.Damage(at, end, *cause, end - at, None, "record")


def rows(*some: ranges.Damage) -> np.ndarray:
    return np.array([ranges.as_row(each) for each in some], ranges.RANGE)


def counted(
    cause: tuple[ranges.DamageKind, Fault], tail: bool, some: int, length: int
) -> list[object]:
    return [cause[0].value, int(cause[1]), tail, some, length]


def totals(live_end: list[int]) -> ranges.RangeTotals:
    """live_end: one item, where the last live record ends; a test may move it."""
    return ranges.RangeTotals(lambda: live_end[0])


def test_ranges_are_of_the_tail_until_a_live_record_follows() -> None:
    found = totals([0])
    assert (found.causes, found.lost_end) == ([], -1)
    live = [100]
    found = totals(live)
    found.add(damage(100, 150, RANGE_BAD))
    found.add(damage(150, 250, RANGE_OLD))
    assert found.causes == [counted(RANGE_BAD, True, 1, 50), counted(RANGE_OLD, True, 1, 100)]
    assert found.lost_end == -1
    live[0] = 300
    assert found.causes == [counted(RANGE_BAD, False, 1, 50), counted(RANGE_OLD, False, 1, 100)]
    assert found.lost_end == 250
    found.add(damage(300, 305, RANGE_BAD))
    assert found.causes == [counted(RANGE_BAD, False, 1, 50), counted(RANGE_OLD, False, 1, 100),
        counted(RANGE_BAD, True, 1, 5)]  # fmt: skip
    assert found.lost_end == 250
    live = [100]
    found = totals(live)
    for at in (100, 200, 300):
        found.add(damage(at, at + 10, RANGE_BAD))
        live[0] = at + 100
    found.add(damage(400, 410, RANGE_BAD))
    assert found.causes == [counted(RANGE_BAD, False, 3, 30), counted(RANGE_BAD, True, 1, 10)]
    live = [100]
    found = totals(live)
    found.add(damage(100, 150, RANGE_BAD))
    found.add(damage(200, 300, RANGE_CRC))
    live[0] = 301
    assert found.lost_end == 150
    found.add_rows(rows(damage(310, 320, RANGE_CRC)))
    assert found.lost_end == 150
    assert counted(RANGE_CRC, False, 2, 110) in found.causes
    found = totals([0])
    found.add_rows(
        rows(damage(0, 7, RANGE_BAD), damage(10, 20, RANGE_OLD), damage(30, 40, RANGE_BAD))
    )
    found.add_rows(rows())
    found.add_rows(rows(damage(50, 60, RANGE_BAD), damage(60, 65, RANGE_CRC)))
    causes = [counted(RANGE_BAD, False, 3, 27), counted(RANGE_OLD, False, 1, 10),
        counted(RANGE_CRC, False, 1, 5)]  # fmt: skip
    assert sorted(found.causes, key=str) == sorted(causes, key=str)
    assert found.lost_end == 60
