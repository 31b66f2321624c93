"""What a report says of damaged ranges: where, of what cause, and whether anything follows."""

from typing import Any

import numpy as np

from reput.jobs.pipeline.link import Linked
from reput.jobs.salvaging.damage_map import DamageMap, describe, harms, read_places, segment_of
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from tests.memory_storage import MemoryStorage

SIZE = 1000
# The segment at 2000 is missing, and the last one ends after 10 bytes.
FILES = {0: bytes(SIZE), 1000: b"\1" * SIZE, 3000: b"\3" * 10}
STORAGE = MemoryStorage({f"log/{start}": raw for start, raw in FILES.items()})
SEGMENTS = [Segment(f"log/{at}", at, FileState(len(raw), 0, 0)) for at, raw in FILES.items()]


def a_map(end: int = 4000) -> DamageMap:
    return DamageMap(Linked([], end), {}, SEGMENTS, SIZE, [], len(SEGMENTS))


def a_range(
    start: int, end: int, kind: DamageKind = DamageKind.DAMAGED, fault: Fault = Fault.BAD_MAGIC
) -> Damage:
    return Damage(start, end, kind, fault, 0, 7, "record")


def test_places_are_read_in_their_segment_with_zeros_behind_a_short_file() -> None:
    raw = np.empty(4, np.uint8)
    read_there = []
    for place, segment, read in read_places(STORAGE, a_map(), [1996, 2500, 3008]):
        read(place, raw)
        read_there.append((place, segment.start, raw.tolist()))
    assert read_there == [(1996, 1000, [1, 1, 1, 1]), (3008, 3000, [3, 3, 0, 0])]


def test_a_range_is_told_with_its_file_and_the_messages_lost_there() -> None:
    found = a_map(end=3005)
    found.gaps = [Gap("T", n, False, 5, 2, after, 1500) for n, after in enumerate((1199, 1200))]
    told = describe(a_range(1200, 1300), found)
    assert (told["file"], told["offset"], told["length"]) == ("log/1000", 200, 100)
    assert (told["value"], told["follows"]) == (7, "record")
    assert [gap["queue_id"] for gap in told["missing"]] == [0]
    hole = describe(a_range(2000, 3000), found)
    assert (hole["file"], hole["offset"], hole["physical_offset"]) == (None, 0, 2000)
    follows = [describe(a_range(at, 4000), found)["follows"] for at in (3004, 3005)]
    assert follows == ["record", "nothing live"]
    told = describe(a_range(1200, 1300, DamageKind.STALE, Fault.NONE), a_map())
    assert (told["field"], told["value"]) == ("storeTimestamp/queueOffset", None)


def test_a_broker_is_harmed_by_what_it_stops_at() -> None:
    for kind, fault, harm in [
        (DamageKind.DAMAGED, Fault.BAD_MAGIC, True), (DamageKind.DAMAGED, Fault.STRAY, False),
        (DamageKind.DAMAGED, Fault.KEPT_OUT, False), (DamageKind.CONTENT, Fault.BODY_CRC, True),
        (DamageKind.CONTENT, Fault.PROPERTY_CRC, True), (DamageKind.CONTENT, Fault.TAG, False),
    ]:  # fmt: skip
        told: dict[str, Any] = describe(a_range(1200, 1300, kind, fault), a_map())
        assert harms(told) is harm


def test_a_segment_holds_its_whole_length_and_what_is_outside_is_in_none() -> None:
    for offset, start in [
        (-1, None), (0, 0), (999, 0), (1000, 1000), (1999, 1000), (2000, None), (2999, None),
        (3999, 3000), (4000, None),
    ]:  # fmt: skip
        found = segment_of(SEGMENTS, SIZE, offset)
        assert (found.start if found else None) == start
