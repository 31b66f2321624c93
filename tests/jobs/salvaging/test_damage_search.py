"""The search for damage: where a range is, what is lost in it, and where the live log ends."""

import struct
from typing import Any

import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.damage_search import map_damage
from reput.store_format.damage.ranges import DamageKind
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.faults import Fault
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.in_process import STORE, storage_of
from tests.jobs.found import found, job_of
from tests.logs.encoder import MAGIC_BLANK

DAMAGED, CONTENT, MISSING = DamageKind.DAMAGED, DamageKind.CONTENT, DamageKind.MISSING


def mapped(log: Damaged, without: int | None = None, **more: Any) -> DamageMap:
    storage = storage_of(log.log)
    if without is not None:
        del storage.files[f"{STORE}/commitlog/{without:020d}"]
    return map_damage(job_of(found(log.log, storage, Cut(1500), purpose=REPLICATE)), **more)


def of_three() -> Damaged:
    log = damaged(messages(100))
    assert sorted(log.segments) == [0, SEGMENT, 2 * SEGMENT]
    return log


def end(log: Damaged) -> int:
    return log.places[-1] + log.size(len(log.places) - 1)


def ranges(found_map: DamageMap) -> list[tuple[int, int, DamageKind, Fault]]:
    return [(each.offset, each.end, each.kind, each.fault) for each in found_map.ranges]


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_a_sound_log_has_no_damage_and_spare_segments_are_not_in_use(spare: int) -> None:
    log = damaged(messages(100), extra_segments=spare)
    found_map = mapped(log)
    assert (found_map.count, found_map.bytes_lost, found_map.in_use) == (0, 0, 3)
    assert found_map.linked.end == end(log)
    assert not found_map.linked.lost.any


def test_an_empty_log_ends_where_it_begins() -> None:
    log = damaged(messages(1), extra_segments=2)
    log.segments[0][:] = bytes(SEGMENT)
    found_map = mapped(log)
    assert (found_map.count, found_map.in_use, found_map.linked.end) == (0, 1, 0)


@pytest.mark.parametrize(
    ("byte", "kind", "fault"),
    [(5, DAMAGED, Fault.BAD_MAGIC), (1, DAMAGED, Fault.SIZE_PAST_END),
     (90, CONTENT, Fault.BODY_CRC)],
)  # fmt: skip
@pytest.mark.parametrize("number", [0, 45, 98])
def test_one_wrong_record_is_one_range_and_only_content_is_kept(
    number: int, byte: int, kind: DamageKind, fault: Fault
) -> None:
    log = of_three()
    place, size = log.places[number], log.size(number)
    log.flip(number, byte)
    found_map = mapped(log)
    assert ranges(found_map) == [(place, place + size, kind, fault)]
    lost = kind != CONTENT
    assert (found_map.bytes_lost, found_map.messages_missing) == (
        (size, number != 98) if lost else (0, 0)
    )
    assert sum(row["records"] for row in found_map.linked.accepted) == 100 - lost
    assert found_map.linked.end == end(log)


def test_bytes_are_lost_only_before_the_live_logs_end() -> None:
    log = of_three()
    log.put(end(log), b"\0\0\0\x7fgarbage")
    found_map = mapped(log)
    assert (found_map.count, found_map.bytes_lost) == (1, 0)
    assert found_map.linked.end == end(log)
    log.flip(10, 5)
    found_map = mapped(log)
    assert (found_map.count, found_map.bytes_lost) == (2, log.size(11))
    assert {fault for _, fault in found_map.causes} == {int(Fault.BAD_MAGIC)}


def test_a_missing_segment_is_one_range_of_its_length() -> None:
    log = of_three()
    found_map = mapped(log, without=SEGMENT)
    assert (SEGMENT, 2 * SEGMENT, MISSING, Fault.MISSING) in ranges(found_map)
    assert found_map.bytes_lost == SEGMENT
    assert found_map.linked.end == end(log)
    (loss,) = found_map.linked.lost.segments
    assert (loss.total, loss.more) == (SEGMENT, ((SEGMENT, SEGMENT),))


def test_a_segment_of_zeros_within_the_log_is_lost_and_one_behind_it_is_spare() -> None:
    log = of_three()
    log.segments[SEGMENT][:] = bytes(SEGMENT)
    found_map = mapped(log)
    assert ranges(found_map) == [(SEGMENT, 2 * SEGMENT, DAMAGED, Fault.ZEROS)]
    assert (found_map.bytes_lost, found_map.in_use) == (SEGMENT, 3)
    log.segments[2 * SEGMENT][:] = bytes(SEGMENT)
    found_map = mapped(log)
    assert (found_map.count, found_map.in_use) == (0, 1)
    assert found_map.linked.end == SEGMENT


def test_zeros_up_to_a_segments_end_are_lost_where_the_log_goes_on() -> None:
    log = of_three()
    last = max(n for n, place in enumerate(log.places) if place < SEGMENT)
    start = log.places[last - 1]
    log.put(start, bytes(SEGMENT - start))
    found_map = mapped(log)
    assert ranges(found_map) == [(start, SEGMENT, DAMAGED, Fault.ZEROS)]
    assert found_map.bytes_lost == SEGMENT - start
    assert found_map.messages_missing == 2


def test_a_blank_of_a_wrong_size_is_damage() -> None:
    log = of_three()
    log.put(log.places[7], struct.pack(">iI", 8, MAGIC_BLANK))
    found_map = mapped(log)
    assert found_map.count == 1
    assert ranges(found_map)[0][:2] == (log.places[7], log.places[8])
    assert sum(row["records"] for row in found_map.linked.accepted) == 99


def test_behind_so_many_ranges_a_segments_rest_is_left_out_with_a_warning() -> None:
    log = of_three()
    for number in (2, 5, 8, 11):
        log.flip(number, 5)
    assert mapped(log).count == 4
    found_map = mapped(log, ranges_a_segment=2)
    (warning,) = found_map.warnings
    assert warning == f"{STORE}/commitlog/{0:020d}: too much damage: its rest was left out"
    assert found_map.linked.end == end(log)
