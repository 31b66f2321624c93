"""Which damaged range keeps which lost positions: the room is counted by hand from the layout."""

import pytest

from reput.jobs.pipeline.link import Linked
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.repair import RepairSummary, place_lost
from reput.store_format.damage.queue_ends import Losses, SegmentLoss
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.damage.repair import LostPositions
from reput.udfs.staging import Staging
from tests.memory_storage import MemoryStorage

SEGMENT = 10_000
RECORD = 92  # the 91 fixed bytes with IPv4, and a topic of one letter
CRC = 20  # `__CRC32#`, 01, ten digits, 02
BLANK = 8
Placed = dict[int, list[tuple[int, int]]]  # range -> (first, many) of each


def gap(first: int, count: int, after: int, before: int, topic: str = "T") -> Gap:
    return Gap(topic, 0, False, first, count, after, before)


def placed(
    gaps: list[Gap], ranges: list[tuple[int, int]], crc: bool = False, spare: bool = False
) -> tuple[Placed, RepairSummary]:
    """ranges: (offset, bytes) of what is lost."""
    lost = Losses((SegmentLoss(0, 1 << 40, "", tuple(ranges), 0),), True)
    found = DamageMap(Linked([], 1 << 40, lost=lost), {}, [], SEGMENT, [], 0, gaps=gaps)
    summary = RepairSummary("s", "o", "5.3.3", 0, 0, {})
    staging = Staging(MemoryStorage(), "staging")
    kept: dict[int, list[LostPositions]] = place_lost(staging, found, summary, crc, spare)
    return {at: [each[2:] for each in some] for at, some in kept.items()}, summary


@pytest.mark.parametrize(
    ("length", "many"), [(3 * RECORD, 3), (3 * RECORD - 1, 2), (RECORD - 1, 0)]
)
def test_a_range_keeps_as_many_as_records_fit(length: int, many: int) -> None:
    kept, summary = placed([gap(7, 3, 50, 900)], [(100, length)])
    assert kept == ({100: [(7, many)]} if many else {})
    assert sum(each["many"] for each in summary.filled) == many
    assert [(each["first"], each["count"]) for each in summary.not_filled] == (
        [(7 + many, 3 - many)] if many < 3 else []
    )
    assert len(summary.warnings) == (many < 3)


def test_only_ranges_between_the_neighbours_of_a_gap_keep_its_positions() -> None:
    ranges = [(100, RECORD), (300, RECORD), (500, RECORD), (700, RECORD)]
    kept, _ = placed([gap(7, 9, 200, 700)], ranges)
    assert kept == {300: [(7, 1)], 500: [(8, 1)]}


def test_the_gap_that_ends_first_takes_the_first_range() -> None:
    gaps = [gap(20, 1, 50, 900, "B"), gap(10, 1, 50, 250, "A")]
    kept, summary = placed(gaps, [(100, RECORD), (300, RECORD)])
    assert kept == {100: [(10, 1)], 300: [(20, 1)]}
    assert not summary.not_filled


def test_where_a_queue_begins_the_positions_before_its_first_message_matter_most() -> None:
    kept, summary = placed([gap(0, 5, -1, 900)], [(100, 2 * RECORD)])
    assert kept == {100: [(3, 2)]}
    assert [(each["first"], each["count"]) for each in summary.not_filled] == [(0, 3)]
    assert "the queue begins behind them" in summary.warnings[0]


def test_a_queue_s_begin_gets_what_other_gaps_leave() -> None:
    gaps = [gap(0, 2, -1, 250, "A"), gap(20, 2, 50, 900, "B")]
    kept, summary = placed(gaps, [(100, 2 * RECORD)])
    assert kept == {100: [(20, 2)]}
    assert [each["topic"] for each in summary.not_filled] == ["A"]


def test_a_range_over_a_segment_s_end_is_cut_and_leaves_room_for_its_blank() -> None:
    start = SEGMENT - RECORD - BLANK
    kept, _ = placed([gap(7, 9, 50, 90_000)], [(start, 2 * RECORD + BLANK)])
    assert kept == {start: [(7, 1)], SEGMENT: [(8, 1)]}
    kept, _ = placed([gap(7, 9, 50, 90_000)], [(start + 1, 2 * RECORD + BLANK)])
    assert kept == {SEGMENT: [(7, 1)]}


@pytest.mark.parametrize(("spare", "many"), [(False, 1), (True, 2)])
def test_checksums_are_given_up_where_positions_need_their_room(spare: bool, many: int) -> None:
    kept, _ = placed([gap(7, 2, 50, 900)], [(100, RECORD + CRC + RECORD - 1)], True, spare)
    assert kept == {100: [(7, many)]}
