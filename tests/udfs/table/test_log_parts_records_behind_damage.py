"""Behind damage the records of a segment go on, from any offset and only as far as is asked."""

from collections.abc import Sequence

import pytest

from reput.store_format.log.segments import find_segments
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.table.log_parts import live_behind
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.in_process import STORE, as_text, storage_of


def behind(
    log: Damaged, place: int, limit: int | None = None, batch_topics: Sequence[str] = ()
) -> list[int]:
    storage = storage_of(log.log)
    settings = settings_from(as_text(log.settings))
    segments = find_segments(storage, [f"{STORE}/commitlog"], SEGMENT)
    steps = live_behind(storage, segments, profile(log.version), settings, batch_topics, limit)
    return [int(at) for step in steps(place) for at in step.rows["physicalOffset"]]


def in_segment(log: Damaged, number: int) -> list[int]:
    return [at for at in log.places if at // SEGMENT == number]


def test_a_sound_segment_has_its_records_from_the_offset_to_its_end() -> None:
    log = damaged()
    first, second = in_segment(log, 0), in_segment(log, 1)
    assert (len(first) > 20, len(second) > 20) == (True, True)
    assert behind(log, 0) == first
    assert behind(log, first[5]) == first[5:]
    assert behind(log, first[5] + 1) == first[6:]
    assert behind(log, SEGMENT) == second
    assert behind(log, SEGMENT - 1) == []


@pytest.mark.parametrize("number", [0, 7])
def test_a_damaged_record_is_passed_over(number: int) -> None:
    log = damaged()
    log.flip(number, 1)  # totalSize is 1 << 16 more
    left = [at for at in in_segment(log, 0) if at != log.places[number]]
    assert behind(log, 0) == left
    assert behind(log, log.places[number] + 1) == [at for at in left if at > log.places[number]]


def test_a_record_with_nothing_but_a_wrong_body_stays() -> None:
    log = damaged()
    log.flip(7, 90)  # in the body, which begins 88 bytes into a record
    assert behind(log, log.places[7]) == in_segment(log, 0)[7:]


@pytest.mark.parametrize(("of", "left"), [("5.3.3", False), ("5.1.4", True)])
def test_a_checksum_of_the_whole_record_counts_where_the_release_has_it(
    of: str, left: bool
) -> None:
    log = damaged(messages(20, crc_property=True))
    log.version = of
    log.flip(7, 74)  # reconsumeTimes: nothing else covers it
    assert (log.places[7] in behind(log, 0)) == left


def test_no_record_at_the_limit_or_behind_it() -> None:
    log = damaged()
    log.flip(3, 1)
    for limit, last in ((log.places[9], 8), (log.places[9] + 1, 9), (SEGMENT * 2, None)):
        wanted = in_segment(log, 0)[4:]
        end = len(wanted) if last is None else last - 3
        assert behind(log, log.places[3] + 1, limit) == wanted[:end]


def test_an_offset_outside_of_the_log_is_no_segments() -> None:
    log = damaged()
    with pytest.raises(StopIteration):
        behind(log, (max(log.segments) // SEGMENT + 1) * SEGMENT)
