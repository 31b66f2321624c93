"""The ranges of one segment: those of one kind that touch are one, and each shows its fault."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from reput.store_format.damage.ranges import Damage, DamageKind, RangeReporter, Ranges, damages
from reput.store_format.damage.resync import Prover
from reput.store_format.faults import Fault
from reput.store_format.layouts import DLEDGER_HEAD
from tests.logs.encoder import Message
from tests.store_format.damage.walked import RULES, reader, walked

BAD, OLD, CRC = DamageKind.DAMAGED, DamageKind.STALE, DamageKind.CONTENT
RAW, ROWS = walked(*(Message(body=b"body", queue_id=n) for n in range(6)))
SIZE = int(ROWS["size"][0])


def reporter(raw: Any = RAW) -> RangeReporter:
    return RangeReporter(Prover(reader(raw), 0, len(raw), RULES))


def reported(
    about: RangeReporter, *ranges: tuple[DamageKind, int, int, Fault], follows: str = "record"
) -> list[Damage]:
    def each() -> Iterator[Any]:
        for kind, at, end, fault in ranges:
            yield from about.range(kind, at, end, fault, follows)
        yield from about.rest()

    return list(each())


def test_ranges_of_one_kind_that_touch_are_one_with_the_first_fault() -> None:
    about = reporter()
    found = reported(about, (BAD, 0, 10, Fault.BAD_MAGIC), (BAD, 10, 30, Fault.LENGTHS))
    assert found == [Damage(0, 30, BAD, Fault.BAD_MAGIC, SIZE, 0xDAA320A7 - (1 << 32), "record")]
    assert about.count == 1


def test_what_does_not_touch_stays_apart_and_so_do_records_that_are_kept() -> None:
    about = reporter()
    ranges = (
        (BAD, 0, 10, Fault.LENGTHS), (BAD, 11, 30, Fault.LENGTHS), (CRC, 30, 40, Fault.BODY_CRC),
        (CRC, 40, 50, Fault.BODY_CRC), (BAD, 50, 60, Fault.LENGTHS),
    )  # fmt: skip
    found = reported(about, *ranges)
    assert [(each.offset, each.end) for each in found] == [each[1:3] for each in ranges]
    assert about.count == 5


def test_a_range_says_that_stale_records_follow_it() -> None:
    found = reported(reporter(), (BAD, 0, 10, Fault.LENGTHS), (OLD, 10, 20, Fault.NONE))
    assert [each.follows for each in found] == ["stale record", "record"]
    found = reported(reporter(), (BAD, 0, 10, Fault.LENGTHS), (OLD, 11, 20, Fault.NONE))
    assert [each.follows for each in found] == ["record", "record"]


def test_the_field_at_fault_is_shown_if_it_is_one_of_the_first() -> None:
    at = 2 * SIZE
    for fault, value in (
        (Fault.PLACE, at), (Fault.BAD_SIZE, SIZE), (Fault.BODY_LENGTH, None), (Fault.TEXT, None),
    ):  # fmt: skip
        (found,) = reported(reporter(), (BAD, at, at + 5, fault))
        assert (found.size, found.value) == (SIZE, value)


def test_at_the_segments_end_what_is_not_there_is_zero() -> None:
    (found,) = reported(reporter(RAW[: SIZE + 4]), (BAD, SIZE, SIZE + 4, Fault.BAD_MAGIC))
    assert (found.size, found.value) == (SIZE, 0)


def test_of_a_dledger_head_its_own_field_is_shown() -> None:
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
    held, ranges = about.of_stride(rows, faults, np.array([0, 77, 0, 5]), wrong)
    assert isinstance(held, Damage)
    assert isinstance(ranges, Ranges)
    assert list(damages(ranges.rows)) == [
        Damage(SIZE, 2 * SIZE, OLD, Fault.PLACE, SIZE, 77, "record"),
        Damage(3 * SIZE, 4 * SIZE, CRC, Fault.BODY_CRC, SIZE, crc, "record"),
        Damage(4 * SIZE, 5 * SIZE, BAD, Fault.BAD_MAGIC, SIZE, 5, "record"),
    ]
    assert about.count == 4
    assert list(about.of_stride(rows, np.zeros(4, np.uint8), np.zeros(4, np.int64), None)) == []
