"""A segment of a repaired log: fillers for what is lost, right CRCs, all else as it was."""

import hashlib
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from reput.store_format.damage.ranges import RANGE, Damage, DamageKind, as_row
from reput.store_format.damage.repair import LostPositions
from reput.store_format.faults import Fault, StoreError
from reput.store_format.log.rules import RecordRules
from reput.udfs.damage.repair import RepairSegments, SegmentRepair
from reput.udfs.staging import Staging
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.logs.damage import record_places
from tests.memory_storage import MemoryStorage
from tests.udfs.damage.logs import rows_of, stored

DAMAGED, CONTENT = DamageKind.DAMAGED, DamageKind.CONTENT
Row = dict[str, Any]
Kept = dict[int, tuple[LostPositions, ...]]


def log_of(*flips: tuple[int, int]) -> Damaged:
    log = damaged(messages(20))
    for flip in flips:
        log.flip(*flip)
    return log


def wrong(start: int, end: int, kind: DamageKind = DAMAGED, fault: Fault = Fault.BAD_MAGIC
          ) -> Damage:  # fmt: skip
    return Damage(start, end, kind, fault, 0, None, "record")


def repair(log: Damaged, *ranges: Damage, live_end: int = SEGMENT, gone: bool = False,
           zeros_from: int = -1, lost: dict[int, LostPositions] | None = None,
           strays: tuple[Damage, ...] = ()) -> tuple[Row, bytes, bytes, list[Row]]:  # fmt: skip
    """(the row, the new segment, the bytes that were saved, where they are)"""
    storage, (segment, *_) = stored(log)
    staging = MemoryStorage({"s/r.damage": np.array(list(map(as_row, ranges)), RANGE).tobytes()})
    kept: Kept = {place: (positions,) for place, positions in (lost or {}).items()}
    how = SegmentRepair(0, None if gone else segment, "r", zeros_from, kept, 77, strays)
    rules = RecordRules(True, True)
    task = RepairSegments(storage, Staging(staging, "s"), (how,), SEGMENT, rules, live_end, False)
    (row,) = rows_of(task, 0)
    names = [row[name] for name in ("name", "saved", "listing")]
    raw, saved, listing = (staging.files.get(f"s/{name}", b"") for name in names)
    assert row["sha256"] == hashlib.sha256(raw[: row["used"]]).hexdigest()
    assert not any(raw[row["used"] :])
    assert (len(raw), row["length"], row["saved_bytes"]) == (SEGMENT, SEGMENT, len(saved))
    return row, raw, saved, json.loads(listing or b"[]")


def head(raw: bytes, at: int) -> tuple[int, int, str, int]:
    """(queueId, queueOffset, topic, storeTimestamp) of a record with IPv4 hosts."""
    queue, _, offset = struct.unpack_from(">iiq", raw, at + 12)
    topic = at + 88 + struct.unpack_from(">i", raw, at + 84)[0]
    name = raw[topic + 1 : topic + 1 + raw[topic]].decode()
    return queue, offset, name, struct.unpack_from(">q", raw, at + 56)[0]


def test_a_sound_segment_stays_its_last_bytes_too_and_behind_the_log_s_end_are_zeros() -> None:
    log = log_of()
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


def test_damaged_bytes_become_a_record_of_no_queue_or_of_the_lost_positions_and_are_saved() -> None:
    log = log_of((3, 4), (9, 4))
    old, (a, b, c, d) = bytes(log.segments[0]), (log.places[n] for n in (3, 4, 9, 10))
    row, raw, saved, listing = repair(log, wrong(a, b), wrong(c, d))
    assert (row["fillers"], row["corrected"]) == (2, 0)
    assert record_places({0: raw}) == log.places
    assert [head(raw, at) for at in (a, c)] == [
        (0, 0, "REPUT_LOST", START + n) for n in (4, 10)
    ]  # the time of the record behind
    assert struct.unpack_from(">i", raw, a + 36)[0] == 0xC
    assert raw[:a] + raw[b:c] + raw[d:] == old[:a] + old[b:c] + old[d:]
    assert saved == old[a:b] + old[c:d]
    assert [(each["offset"], each["at"]) for each in listing] == [(a, 0), (c, b - a)]
    log = log_of()
    a, b, c = log.places[3], log.places[4] - 20, log.places[5]
    lost = {a: LostPositions("T", 0, 1, 1), b: LostPositions("T", 1, 1, 1)}
    row, raw, _, listing = repair(log, wrong(a, b), wrong(b, c), lost=lost)
    first, second = [at for at in record_places({0: raw}) if a <= at < c]
    assert [head(raw, at)[:3] for at in (first, second)] == [(0, 1, "T"), (1, 1, "T")]
    assert (row["fillers"], len(listing)) == (2, 2)


def test_a_body_s_crc_becomes_that_of_its_bytes_and_a_stray_record_is_replaced() -> None:
    log = log_of((3, 88))
    at = log.places[3]
    old = bytearray(log.segments[0])
    row, raw, saved, _ = repair(log, wrong(at, log.places[4], CONTENT, Fault.BODY_CRC))
    body = bytes(old[at + 88 : at + 88 + 8])
    old[at + 8 : at + 12] = (zlib.crc32(body) & 0x7FFFFFFF).to_bytes(4, "big")
    assert (raw, row["corrected"], row["fillers"]) == (bytes(old), 1, 0)
    assert len(saved) == log.size(3)
    log = log_of()
    a, b = log.places[3:5]
    stray = wrong(a, b, fault=Fault.STRAY)
    row, raw, _, (told,) = repair(log, wrong(a, b, CONTENT, Fault.BODY_CRC), strays=(stray,))
    assert (head(raw, a)[2], row["fillers"], row["corrected"]) == ("REPUT_LOST", 1, 0)
    assert told["kind"] == "damaged"


def test_a_missing_segment_and_zeros_before_live_records_become_a_record_and_a_blank() -> None:
    row, raw, saved, listing = repair(log_of(), gone=True)
    (at,) = record_places({0: raw})
    size = struct.unpack_from(">i", raw, at)[0]
    assert struct.unpack_from(">iI", raw, size) == (SEGMENT - size, 0xCBD43194)
    assert (at, row["fillers"], saved, row["saved"]) == (0, 1, b"", "")
    assert [(each["kind"], each["at"]) for each in listing] == [("missing", -1)]
    log = log_of()
    end = log.places[7]
    _, raw, _, (told,) = repair(log, zeros_from=end)
    *before, last = record_places({0: raw})
    assert before[:7] == log.places[:7]
    blank = last + struct.unpack_from(">i", raw, last)[0]
    assert struct.unpack_from(">iI", raw, blank) == (SEGMENT - blank, 0xCBD43194)
    assert (told["field"], told["offset"], told["length"]) == ("totalSize", end, SEGMENT - end)


@pytest.mark.parametrize("before", [True, False])
def test_a_range_too_short_for_a_record_takes_in_the_damaged_one_beside_it(before: bool) -> None:
    log = log_of()
    a, b, c = log.places[3], log.places[4], log.places[4] + 30
    content = wrong(a, b, CONTENT, Fault.BODY_CRC) if before else wrong(
        b, log.places[5], CONTENT, Fault.BODY_CRC
    )  # fmt: skip
    short = wrong(b, c) if before else wrong(b - 30, b)
    row, raw, _, _ = repair(log, *sorted((content, short)))
    number = 3 if before else 4
    kept = min(content.offset, short.offset)
    assert head(raw, kept)[:3] == (number % 3, number // 3, "T")
    assert (row["fillers"], row["corrected"]) == (1, 0)
    with pytest.raises(StoreError, match=f"physical offset {short.offset}: 30 bytes"):
        repair(log, short)
