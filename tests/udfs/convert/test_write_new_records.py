"""A new segment's records, dispatched from memory as a scan would dispatch them from disk."""

import struct
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.convert.write import NewRecords
from reput.udfs.staging import ENTRIES, MESSAGES, Staging
from tests.damaged import START, messages
from tests.logs.damage import record_places
from tests.logs.encoder import build_log
from tests.memory_storage import MemoryStorage

SEGMENT, BASE = 4096, 8192
RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
LOG = build_log(messages(10, 1), SEGMENT, BASE)[BASE]
PLACES = record_places({BASE: LOG})
SIZE = PLACES[1] - BASE
END = PLACES[-1] + SIZE


def put(raw: bytes, *cuts: int, last: bool = True) -> tuple[dict[str, Any], MemoryStorage]:
    """The SCANNED row of a segment whose records are put in windows, cut at these places."""
    storage = MemoryStorage()
    new = NewRecords(Staging(storage, "s"), RULES, 2, BASE, SEGMENT, 1 << 16)
    for start, stop in zip((BASE, *cuts), (*cuts, END), strict=True):
        new.put(np.frombuffer(raw[start - BASE : stop - BASE], np.uint8).copy(), start)
    return new.finish(last), storage


def content(row: dict[str, Any], storage: MemoryStorage, kind: str) -> bytes:
    return storage.files.get(f"s/{row['run']}{kind}", b"")


@pytest.mark.parametrize("cuts", [(), (PLACES[1],), (PLACES[3], PLACES[4], PLACES[9])])
def test_any_windows_of_whole_records_give_the_same_entries(cuts: tuple[int, ...]) -> None:
    row, storage = put(LOG, *cuts)
    raw = content(row, storage, ENTRIES)
    entries = [struct.unpack_from(">qiq", raw, at) for at in range(0, 200, 20)]
    assert entries == [(place, SIZE, 0) for place in PLACES]
    assert content(row, storage, MESSAGES) == b"".join(
        struct.pack("=qq", place, START + n) for n, place in enumerate(PLACES)
    )
    told = ("split", "records", "index_puts", "first", "last_record", "last_timestamp")
    assert [row[name] for name in told] == [2, 10, 10, BASE, PLACES[-1], START + 9]


@pytest.mark.parametrize(
    ("last", "fault", "end"), [(True, Fault.ZEROS, END), (False, Fault.BLANK, BASE + SEGMENT)]
)
def test_a_segment_ends_with_a_blank_unless_it_is_the_last(
    last: bool, fault: Fault, end: int
) -> None:
    row, _ = put(LOG, last=last)
    assert (row["fault"], row["next"]) == (int(fault), end)


@pytest.mark.parametrize("cuts", [(), (PLACES[3], PLACES[5])])
@pytest.mark.parametrize(
    ("at", "raw", "fault"),
    [
        (4, b"\0", Fault.BAD_MAGIC),
        (28, b"\1", Fault.PLACE),
        (0, struct.pack(">i", 90), Fault.BAD_SIZE),
        (0, struct.pack(">i", SEGMENT), Fault.SIZE_PAST_END),
    ],
)
def test_it_stops_for_good_at_the_first_record_that_a_scan_refuses(
    at: int, raw: bytes, fault: Fault, cuts: tuple[int, ...]
) -> None:
    wrong = bytearray(LOG)
    place = PLACES[4] - BASE
    wrong[place + at : place + at + len(raw)] = raw
    row, storage = put(bytes(wrong), *cuts, last=False)
    assert (row["records"], row["next"], row["fault"]) == (4, PLACES[4], int(fault))
    assert row["size"] == struct.unpack_from(">i", wrong, place)[0]
    assert len(content(row, storage, ENTRIES)) == 4 * 20
