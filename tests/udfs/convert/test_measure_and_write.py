"""Where an old log's records go: links to them, and what is refused while a new segment is written.

Whole conversions are compared with a slow writer in tests/jobs/converting/ and test_convert.py.
"""

import struct
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault, StoreChanged
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite.changes import Changes
from reput.udfs.convert import measure, write
from reput.udfs.staging import ENTRIES, Staging
from tests.damaged import messages
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log
from tests.memory_storage import MemoryStorage
from tests.udfs.tables import rows_of

RULES: Any = scan_rules(profile("5.3.3"), settings_from({}), ())


def segment(path: str, start: int, length: int) -> Segment:
    return Segment(path, start, FileState(length, 0, 0))


def records(some: list[tuple[int, int]]) -> bytes:
    """(offset in its split, new size) of each record that is taken, as a file of staging."""
    return np.array(some, measure.MEASURED_RECORD).tobytes()


@pytest.mark.parametrize(("old", "new", "size"), [
    (0, 0, 0), (-1, -1, 0), (4999, 4999, 0), (5000, 3000, 300), (5001, 0, 0), (5400, 3300, 92),
    (5999, 0, 0), (6000, 0, 0), (6100, 4000, 601), (6999, 0, 0), (7000, 7000, 0),
    ((1 << 63) - 1, (1 << 63) - 1, 0),
])  # fmt: skip
def test_a_link_leads_to_the_same_record_or_nowhere(old: int, new: int, size: int) -> None:
    """Of a log from 5000 to 7000, of which three records are taken, into segments of 1000 bytes."""
    first = write.Piece(5000, 5000, "s0", 2, 3000, segment("log/5000", 5000, 1000), 601)
    second = write.Piece(6000, 6100, "s1", 1, 3392, segment("log/6000", 6000, 1000), 601)
    staging = MemoryStorage({"staging/s0.records": records([(0, 300), (400, 92)]),
                             "staging/s1.records": records([(100, 601)])})  # fmt: skip
    log = write.OldLog(MemoryStorage({}), RULES, Changes(), (first, second), 5000, 7000)
    links = np.array([6100, old, 5000], np.int64)
    places, sizes = write.PlacedRecords(Staging(staging, "staging"), log, 1000).found(links)
    assert (places.tolist(), sizes.tolist()) == ([4000, new, 3000], [601, size, 300])
    assert links.tolist() == [6100, old, 5000]


SEGMENT, BASE = 4096, 8192
LOG = build_log(messages(10, 1), SEGMENT, BASE)[BASE]
PLACES = record_places({BASE: LOG})


@pytest.mark.parametrize("cuts", [(), (PLACES[3], PLACES[5])])
@pytest.mark.parametrize(("at", "raw", "fault"), [
    (4, b"\0", Fault.BAD_MAGIC), (28, b"\1", Fault.PLACE),
    (0, struct.pack(">i", 90), Fault.BAD_SIZE),
    (0, struct.pack(">i", SEGMENT), Fault.SIZE_PAST_END),
])  # fmt: skip
def test_it_stops_for_good_at_the_first_record_that_a_scan_refuses(at, raw, fault, cuts) -> None:
    wrong = bytearray(LOG)
    place = PLACES[4] - BASE
    wrong[place + at : place + at + len(raw)] = raw
    storage = MemoryStorage()
    new = write.NewRecords(Staging(storage, "s"), RULES, 2, BASE, SEGMENT, 1 << 16)
    end = 2 * PLACES[-1] - PLACES[-2]
    for start, stop in zip((BASE, *cuts), (*cuts, end), strict=True):
        new.put(np.frombuffer(wrong[start - BASE : stop - BASE], np.uint8).copy(), start)
    row = new.finish(last=False)
    assert (row["records"], row["next"], row["fault"]) == (4, PLACES[4], int(fault))
    assert row["size"] == struct.unpack_from(">i", wrong, place)[0]
    assert len(storage.files[f"s/{row['run']}{ENTRIES}"]) == 4 * 20


@pytest.mark.parametrize(("byte", "number", "said"), [(4, 3, 2), (3, 3, 2), (28, 0, 0), (4, 0, 0)])
def test_a_log_that_was_changed_meanwhile_is_an_error_that_says_where(byte, number, said) -> None:
    """It names the first record that the segment still needs."""
    raw = bytearray(
        build_log([Message(queue_offset=n, body=bytes(100)) for n in range(5)], SEGMENT)[0]
    )
    places = record_places({0: bytes(raw)})
    size = places[1]  # so that two records and a blank fill a new segment of 512 bytes
    raw[places[number] + byte] ^= 1
    piece = write.Piece(0, 0, "a", 5, 0, segment("old", 0, SEGMENT), size)
    storage = MemoryStorage(
        {"old": bytes(raw), "s/a.records": records([(p, size) for p in places])}
    )
    log = write.OldLog(storage, RULES, Changes(), (piece,), 0, 5 * size)
    segments = tuple(
        write.NewSegment(512 * n, (write.Part(0, 0, 2 * n, 0, min(2 * n + 2, 5)),), n == 2)
        for n in range(3)
    )
    task = write.WriteSegments(Staging(storage, "s"), (log,), segments, 512, RULES)
    with pytest.raises(StoreChanged, match=f"old: changed .* offset {places[said]} are others"):
        rows_of(task, 0, 1, 2)
