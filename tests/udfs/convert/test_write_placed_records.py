"""Where the records of an old log go, and what becomes of links to them."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite.changes import Changes
from reput.udfs.convert.measure import MEASURED_ORDER, MEASURED_RECORD
from reput.udfs.convert.write import OldLog, Piece, PlacedRecords, placed
from reput.udfs.staging import Staging
from tests.memory_storage import MemoryStorage

SEGMENT = 1000
OLD_START, OLD_END = 5000, 7000
# Two splits; each record's offset in its split, and its new size.
SPLITS = ([(0, 300), (400, 92)], [(100, 601)])
AT = (3000, 3392)  # where the new log ends before each


def measured(records: list[tuple[int, int]]) -> Any:
    return np.array(records, MEASURED_RECORD)


def old_log(ordered: bool) -> tuple[Staging, OldLog]:
    files: dict[str, bytes] = {}
    pieces = []
    for n, records in enumerate(SPLITS):
        start = OLD_START + n * SEGMENT
        files[f"staging/s{n}.records"] = measured(records).tobytes()
        # As if the second split's record came first.
        places = np.array([[3600, 4000], [3000]][n], np.int64)
        files[f"staging/s{n}.places"] = places.tobytes()
        # each record is in two queues
        files[f"staging/s{n}.numbers"] = np.repeat(places - 3000, 2).tobytes()
        order = np.array([(0, 2)] * len(places), MEASURED_ORDER)
        files[f"staging/s{n}.order"] = order.tobytes()
        segment = Segment(f"log/{start}", start, FileState(SEGMENT, 0, 0))
        pieces.append(
            Piece(start, start + records[0][0], f"s{n}", len(records), AT[n], segment, 601)
        )
    storage = MemoryStorage(files)
    rules = scan_rules(profile("5.3.3"), settings_from({}), ())
    log = OldLog(storage, rules, Changes(), tuple(pieces), OLD_START, OLD_END, ordered)
    return Staging(storage, "staging"), log


def records(ordered: bool = False) -> PlacedRecords:
    return PlacedRecords(*old_log(ordered), SEGMENT)


@pytest.mark.parametrize(
    ("sizes", "at", "places", "begins", "end"),
    [
        ([992, 992], 0, [0, 1000], [0, 1], 1992),
        ([500, 492], 0, [0, 500], [0], 992),
        ([500, 493], 0, [0, 1000], [0, 1], 1493),
        ([100], 900, [1000], [0], 1100),
        ([92], 900, [900], [], 992),
        ([], 900, [], [], 900),
    ],
)
def test_a_record_needs_room_for_a_blank_behind_it(
    sizes: list[int], at: int, places: list[int], begins: list[int], end: int
) -> None:
    found, indices, stands = placed(measured([(0, size) for size in sizes]), at, SEGMENT)
    assert (found.tolist(), indices.tolist(), stands) == (places, begins, end)


def test_records_go_one_behind_the_other_or_where_they_were_ordered_to() -> None:
    first, second = (records().of(n) for n in (0, 1))
    assert first.offsets.tolist() == [5000, 5400]
    assert (first.places.tolist(), second.places.tolist()) == ([3000, 3300], [4000])
    assert first.own.tolist() == [-1, -1]
    ordered = records(ordered=True)
    assert [ordered.of(n).places.tolist() for n in (0, 1)] == [[3600, 4000], [3000]]
    assert ordered.of(0).own.tolist() == [600, 1000]
    assert ordered.of(0).between(1, 2).firsts.tolist() == [2]
    assert first.between(1, 2).sizes.tolist() == [92]


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        (0, 0, 0),
        (-1, -1, 0),
        (4999, 4999, 0),
        (5000, 3000, 300),
        (5001, 0, 0),
        (5400, 3300, 92),
        (5999, 0, 0),
        (6000, 0, 0),
        (6100, 4000, 601),
        (6999, 0, 0),
        (7000, 7000, 0),
        ((1 << 63) - 1, (1 << 63) - 1, 0),
    ],
)
def test_a_link_leads_to_the_same_record_or_nowhere(old: int, new: int, size: int) -> None:
    links = np.array([6100, old, 5000], np.int64)
    places, sizes = records().found(links)
    assert places.tolist() == [4000, new, 3000]
    assert sizes.tolist() == [601, size, 300]
    assert links.tolist() == [6100, old, 5000]


def test_in_a_log_that_begins_at_0_a_0_is_still_no_link() -> None:
    staging, log = old_log(False)
    piece = log.pieces[0]._replace(start=0, first=0)
    moved = PlacedRecords(staging, OldLog(log.storage, log.rules, Changes(), (piece,), 0,
                                          OLD_END), SEGMENT)  # fmt: skip
    assert moved.links(np.array([0, 400], np.int64)).tolist() == [0, 3300]
    places, sizes = moved.found(np.array([0, 400], np.int64))  # as a timerlog's unit names it
    assert (places.tolist(), sizes.tolist()) == ([3000, 3300], [300, 92])
