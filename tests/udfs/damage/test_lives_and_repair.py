"""The pieces of a damaged segment, as a task lists them, and what another says of them all."""

import hashlib
import json
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.damage.ranges import RANGE, Damage, DamageKind, as_row
from reput.store_format.dispatch.scan import End, scan_rules
from reput.store_format.faults import Fault, StoreError
from reput.store_format.log.rules import RecordRules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.damage.lives import JudgeLives, ListPieces, pieces_in, suspect
from reput.udfs.damage.lives import judged as judged_by_all
from reput.udfs.damage.repair import RepairSegments, SegmentRepair
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, SETTINGS, Damaged, damaged, messages
from tests.in_process import as_text
from tests.logs.damage import record_places
from tests.memory_storage import MemoryStorage
from tests.seeds import some
from tests.store_format.damage.generator import PAGE
from tests.store_format.damage.generator import SEGMENT as LARGE
from tests.store_format.damage.lives import one_life, two_lives
from tests.store_format.damage.walked import reader
from tests.udfs.damage.logs import stored
from tests.udfs.tables import rows_of

# Of records of one size: of 1 no segment has a fault, and a page begins within a record's first
# bytes; of 39 a segment begins in one; of 193 one queue alone breaks off where times fall.
ALIKE = [1, 39, 193]
HEALTHY = range(12)
WRONG = {47: [(266089, 290548)]}  # a fault that is open: of 100 healthy logs one has such a piece
RULES = scan_rules(profile("5.3.3"), settings_from(as_text(SETTINGS)), ())


def judged(log: Damaged, last_first: bool = False) -> list[dict[str, object]]:
    """VERDICTS rows of a log; last_first: its segments' pieces come in the other order."""
    storage, segments = stored(log)
    staging = Staging(storage, "staging")
    task = ListPieces(storage, staging, tuple(enumerate(segments)), SEGMENT, RULES)
    listed = rows_of(task, *range(len(segments)))
    assert [row["segment"] for row in listed] == list(range(len(segments)))
    lines = tuple(row["lines"] for row in listed)[:: -1 if last_first else 1]
    return rows_of(JudgeLives(staging, lines, ()), 0)


def with_older(count: int) -> Damaged:
    """So many messages: 10 to 19 are of an hour before, and of positions that others have."""
    made = messages(count)
    made[10:20] = [
        replace(m, store_timestamp=m.store_timestamp - 3_600_000, queue_offset=m.queue_offset - 2)
        for m in made[10:20]
    ]
    return damaged(made)


def stale(log: Damaged) -> list[tuple[int, int]]:
    """[start, end) of the pieces that are of an older life."""
    pieces = []
    for start, raw in sorted(log.segments.items()):
        read = reader(np.frombuffer(bytes(raw), np.uint8), start)
        pieces += pieces_in(read, start, start + LARGE, RULES)
    return [(each.start, each.end) for each in judged_by_all(pieces) if not each.live]


def unlike(seed: int) -> tuple[int, int]:
    """(untouched messages in pieces of an older life, touched ones in none and with their CRC)."""
    hurt = two_lives(seed, crc=False, body=100)
    found, touched = stale(hurt.log), hurt.touched()
    left_out = {number for number, place in enumerate(hurt.log.places)
                if any(start <= place < end for start, end in found)}  # fmt: skip
    sound = {number for number in touched - left_out
             if zlib.crc32(hurt.read(hurt.log.places[number] + 88, 100)) & 0x7FFFFFFF
             == int.from_bytes(hurt.read(hurt.log.places[number] + 8, 4), "big")}  # fmt: skip
    return len(left_out - touched), len(sound)


@pytest.mark.parametrize("seed", ALIKE)
def test_pages_of_an_older_life_among_records_of_one_size_are_told(seed: int) -> None:
    assert unlike(seed) == (0, 0)


@pytest.mark.parametrize(("off", "count"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_a_piece_ends_at_a_page_where_most_queues_do_not_go_on(off: int, count: int) -> None:
    """Of five queues so many have a queueOffset again in the second page."""
    made = messages(60, 5)
    first = next(n for n, place in enumerate(damaged(made, segment=LARGE).places) if place > PAGE)
    made[first:] = [
        replace(m, queue_offset=m.queue_offset - (m.queue_id < off)) for m in made[first:]
    ]
    raw = np.frombuffer(bytes(damaged(made, segment=LARGE).segments[0]), np.uint8)
    assert len(pieces_in(reader(raw), 0, LARGE, RULES)) == count


@pytest.mark.parametrize(
    "seeds", [some(HEALTHY), pytest.param(range(12, 100), marks=pytest.mark.long)]
)
def test_of_one_life_no_piece_is_older(seeds) -> None:
    """Though clocks fall and leap, topics are made again, and a queueOffset may be there twice."""
    for seed in seeds:
        assert stale(one_life(seed)) == WRONG.get(seed, []), seed


def test_segments_with_times_that_fall_and_the_next_ones_may_have_an_older_life() -> None:
    def end(first: int, last: int, fell_by: int = 0) -> End:
        return End(records=9, fell_by=fell_by, first_timestamp=first, last_timestamp=last)

    for ends, found in (([end(1, 5), end(5, 9), End(), end(9, 20)], set()),
                        ([end(1, 5), end(9, 8, 1), end(8, 20), end(20, 30)], {1, 2}),
                        ([end(1, 50), end(40, 60), end(60, 70), end(70, 90)], {1, 2})):  # fmt: skip
        assert suspect((number, vars(each)) for number, each in enumerate(ends)) == found


def test_an_older_piece_is_stale_up_to_the_next_in_the_logs_order_and_no_other() -> None:
    log = with_older(60)
    assert len(log.segments) > 1
    for number in (9, 19, 50):
        log.flip(number, 4)
    rows = judged(log)
    assert [row["live"] for row in rows].count(False) == 1
    assert judged(log, last_first=True) == rows
    log = damaged(messages(30))
    log.flip(10, 4)
    assert judged(log) == []
    log = with_older(30)
    for number in (9, 19):  # where its page begins and ends
        log.flip(number, 4)
    rows = judged(log)
    starts = [0, log.places[10], log.places[20]]
    assert [row["start"] for row in rows] == starts
    assert [row["live"] for row in rows] == [True, False, True]
    assert [row["end"] for row in rows][:2] == [log.places[9], log.places[19]]


# --- A segment of a repaired log: fillers for what is lost, right CRCs, all else as it was.
DAMAGED, CONTENT = DamageKind.DAMAGED, DamageKind.CONTENT
Row = dict[str, Any]


def wrong(start: int, end: int, kind: DamageKind = DAMAGED, fault: Fault = Fault.BAD_MAGIC
          ) -> Damage:  # fmt: skip
    return Damage(start, end, kind, fault, 0, None, "record")


def repair(
    log: Damaged, *ranges: Damage, live_end: int = SEGMENT, zeros_from: int = -1
) -> tuple[Row, bytes, bytes, list[Row]]:
    """(the row, the new segment, the bytes that were saved, where they are)"""
    storage, (segment, *_) = stored(log)
    staging = MemoryStorage({"s/r.damage": np.array(list(map(as_row, ranges)), RANGE).tobytes()})
    how = SegmentRepair(0, segment, "r", zeros_from, {}, 77, ())
    rules = RecordRules(True, True)
    task = RepairSegments(storage, Staging(staging, "s"), (how,), SEGMENT, rules, live_end, False)
    (row,) = rows_of(task, 0)
    names = [row[name] for name in ("name", "saved", "listing")]
    raw, saved, listing = (staging.files.get(f"s/{name}", b"") for name in names)
    assert row["sha256"] == hashlib.sha256(raw[: row["used"]]).hexdigest()
    assert not any(raw[row["used"] :])
    assert (len(raw), row["length"], row["saved_bytes"]) == (SEGMENT, SEGMENT, len(saved))
    return row, raw, saved, json.loads(listing or b"[]")


def head(raw: bytes, at: int) -> tuple[int, int, str]:
    """(queueId, queueOffset, topic) of a record with IPv4 hosts."""
    queue, _, offset = struct.unpack_from(">iiq", raw, at + 12)
    topic = at + 88 + struct.unpack_from(">i", raw, at + 84)[0]
    return queue, offset, raw[topic + 1 : topic + 1 + raw[topic]].decode()


def test_a_sound_segment_stays_and_what_is_missing_becomes_a_record_and_a_blank() -> None:
    log = damaged(messages(20))
    whole = bytes(log.segments[0])
    end = log.places[7]
    row, raw, saved, listing = repair(log)
    assert (raw, saved, listing, row["fillers"], row["name"] != "") == (whole, b"", [], 0, True)
    assert repair(log, live_end=end)[1] == whole[:end] + bytes(SEGMENT - end)
    _, raw, saved, (told,) = repair(log, wrong(end, SEGMENT), live_end=end)
    assert (raw, saved) == (whole[:end] + bytes(SEGMENT - end), whole[end:])
    assert told == {"offset": end, "length": SEGMENT - end, "kind": "damaged", "field": "magic",
                    "at": 0}  # fmt: skip
    row, raw, *_ = repair(log, wrong(SEGMENT - 7, SEGMENT, DamageKind.MISSING, Fault.MISSING))
    assert (raw, row["fillers"]) == (bytes(log.segments[0]), 0)
    _, raw, _, (told,) = repair(log, zeros_from=end)
    *before, last = record_places({0: raw})
    assert before[:7] == log.places[:7]
    blank = last + struct.unpack_from(">i", raw, last)[0]
    assert struct.unpack_from(">iI", raw, blank) == (SEGMENT - blank, 0xCBD43194)
    assert (told["field"], told["offset"], told["length"]) == ("totalSize", end, SEGMENT - end)


@pytest.mark.parametrize("before", [True, False])
def test_a_range_too_short_for_a_record_takes_in_the_damaged_one_beside_it(before: bool) -> None:
    log = damaged(messages(20))
    a, b, c = log.places[3], log.places[4], log.places[4] + 30
    content = wrong(a, b, CONTENT, Fault.BODY_CRC) if before else wrong(
        b, log.places[5], CONTENT, Fault.BODY_CRC
    )  # fmt: skip
    short = wrong(b, c) if before else wrong(b - 30, b)
    row, raw, _, _ = repair(log, *sorted((content, short)))
    number = 3 if before else 4
    kept = min(content.offset, short.offset)
    assert head(raw, kept) == (number % 3, number // 3, "T")
    assert (row["fillers"], row["corrected"]) == (1, 0)
    with pytest.raises(StoreError, match=f"physical offset {short.offset}: 30 bytes"):
        repair(log, short)
