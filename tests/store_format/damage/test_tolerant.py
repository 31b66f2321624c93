"""A segment scanned past its damage: what is dispatched, and which ranges are reported."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from reput.store_format.damage.evidence import NextOffset
from reput.store_format.damage.liveness import Before
from reput.store_format.damage.ranges import Damage, DamageKind, Ranges, damages
from reput.store_format.damage.tolerant import TolerantScan
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.dispatch.scan import End, Runs, scan_rules
from reput.store_format.faults import Fault
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs.encoder import Message, encode
from tests.store_format.damage.walked import reader, walked

START = 1_700_000_000_000
BASE, SEGMENT, COUNT, SIZE = 1 << 20, 1 << 13, 30, 96
BAD, OLD, CONTENT = DamageKind.DAMAGED, DamageKind.STALE, DamageKind.CONTENT
Change = tuple[int, int, bytes]  # (record, its byte, what is put there)
Range = tuple[float, float, DamageKind, Fault, str]  # its ends as numbers of records


def nothing_known(topic: str, queue: int) -> NextOffset | None:
    return None


def log_of() -> list[Message]:
    return [Message(queue_offset=n, store_timestamp=START + n, body=b"body") for n in range(COUNT)]


def scanned(
    *changes: Change, log: list[Message] | None = None, most_ranges: int = 9
) -> tuple[list[int], list[Range], End]:  # fmt: skip
    """(the records in queue 0 of T, the ranges, how it ended)"""
    raw, _ = walked(*(log or log_of()), segment=SEGMENT, base=BASE)
    for record, byte, content in changes:
        at = record * SIZE + byte
        raw[at : at + len(content)] = np.frombuffer(content, np.uint8)
    rules = scan_rules(profile("5.3.3"), Settings(), ())
    scan = TolerantScan(reader(raw, BASE), BASE, BASE + SEGMENT, rules, Before(None, nothing_known))
    scan.most_ranges = most_ranges
    records: list[int] = []
    found: list[Damage] = []
    for part in scan.run():
        if isinstance(part, Runs):
            entries = decode_entries(part.runs.entries[: 20 * int(part.runs.count.sum())])
            records += [(place - BASE) // SIZE for place in entries["physicalOffset"].tolist()]
        elif isinstance(part, Ranges):
            found += damages(part.rows)
        elif isinstance(part, Damage):
            found.append(part)
        elif isinstance(part, End):
            return records, [_in_records(each) for each in found], part
    raise AssertionError("no End")


def _in_records(each: Damage) -> Range:
    ends = (each.offset - BASE) / SIZE, (each.end - BASE) / SIZE
    return (*ends, each.kind, each.fault, each.follows)


def without(*numbers: int) -> list[int]:
    return [n for n in range(COUNT) if n not in numbers]


BAD_MAGIC, BAD_PLACE = (4, b"\0"), (28, struct.pack(">q", -5))
BAD_BODY = (88, b"B")
REST = (SEGMENT - COUNT * SIZE, 0xCBD43194)


@pytest.mark.parametrize(
    ("changes", "lost", "ranges"),
    [
        ([], [], []),
        ([(5, *BAD_MAGIC)], [5], [(5, 6, BAD, Fault.BAD_MAGIC, "record")]),
        ([(5, *BAD_PLACE)], [5], [(5, 6, OLD, Fault.PLACE, "record")]),
        ([(0, *BAD_MAGIC)], [0], [(0, 1, BAD, Fault.BAD_MAGIC, "record")]),
        ([(5, 0, b"\x7f")], [5], [(5, 6, BAD, Fault.SIZE_PAST_END, "record")]),
        ([(5, *BAD_MAGIC), (6, 0, b"\x7f")], [5, 6], [(5, 7, BAD, Fault.BAD_MAGIC, "record")]),
        # it stays in its queue
        ([(5, *BAD_BODY)], [], [(5, 6, CONTENT, Fault.BODY_CRC, "record")]),
        # but not where nothing shows that its size is right
        ([(5, *BAD_BODY), (6, *BAD_PLACE), (6, *BAD_MAGIC)], [5, 6],
         [(5, 7, BAD, Fault.BODY_CRC, "record")]),
        ([(5, *BAD_MAGIC), (9, *BAD_MAGIC)], [5, 9],
         [(n, n + 1, BAD, Fault.BAD_MAGIC, "record") for n in (5, 9)]),
        ([(5, 0, bytes(SIZE))], [5], [(5, 6, BAD, Fault.ZEROS, "record")]),
        # a BLANK in the middle
        ([(5, 0, struct.pack(">iI", 500, 0xCBD43194))], [5],
         [(5, 6, BAD, Fault.BLANK_SIZE, "record")]),
    ],
)  # fmt: skip
def test_sound_records_stay_and_all_else_is_reported(
    changes: list[Change], lost: list[int], ranges: list[Range]
) -> None:
    records, found, _ = scanned(*changes)
    assert (records, found) == (without(*lost), ranges)


def test_damage_at_the_logs_end_reaches_to_the_last_byte_that_is_not_zero() -> None:
    """The last record's properties have no bytes: its length, two zeros, is taken for the end."""
    records, found, _ = scanned((29, *BAD_MAGIC))
    assert records == without(29)
    assert found == [(29, 30 - 2 / SIZE, BAD, Fault.BAD_MAGIC, "zeros")]


@pytest.mark.parametrize(
    ("changes", "fault", "next_at"),
    [
        ([], Fault.ZEROS, COUNT * SIZE),
        ([(COUNT, 0, struct.pack(">iI", *REST))], Fault.BLANK, SEGMENT),
        ([(COUNT, 0, struct.pack(">iI", 5, 0xCBD43194))], Fault.BLANK, SEGMENT),
        ([(29, *BAD_MAGIC), (COUNT, 0, struct.pack(">iI", *REST))], Fault.BLANK, SEGMENT),
        ([(COUNT, 0, b"\x55" * (SEGMENT - COUNT * SIZE))], Fault.NONE, SEGMENT),
        ([(COUNT, 0, b"\x55" * 50)], Fault.ZEROS, COUNT * SIZE + 50),
    ],
)
def test_how_a_segment_ends(changes: list[Change], fault: Fault, next_at: int) -> None:
    records, _, end = scanned(*changes)
    assert (end.fault, end.next - BASE) == (fault, next_at)
    assert records == list(range(end.records))


def test_behind_damage_records_of_an_earlier_time_are_stale() -> None:
    """The log was cut and its records 20 on are those of a longer one before."""
    log = [replace(m, store_timestamp=START - 1000 + n) if n >= 20 else m
           for n, m in enumerate(log_of())]  # fmt: skip
    records, found, _ = scanned((19, 0, bytes(SIZE)), log=log)
    assert records == list(range(19))
    assert [each[:4] for each in found] == [(19, 20, BAD, Fault.ZEROS), (20, 30, OLD, Fault.NONE)]
    assert [each[4] for each in found] == ["stale record", "zeros"]


def test_after_many_ranges_the_rest_is_one() -> None:
    changes = [(n, 0, b"\x7f") for n in range(3, 27, 3)]
    records, found, _ = scanned(*changes, most_ranges=3)
    assert records == [0, 1, 2, 4, 5, 7, 8, 10, 11]
    assert [each[0] for each in found] == [3, 6, 9, 12]


@pytest.mark.parametrize(("end", "follows"), [(struct.pack(">iI", *REST), "BLANK"), (b"", "zeros")])
def test_the_report_says_what_follows_the_last_record(end: bytes, follows: str) -> None:
    _, found, _ = scanned((29, *BAD_BODY), (COUNT, 0, end))
    assert found == [(29, 30, CONTENT, Fault.BODY_CRC, follows)]
    if follows == "BLANK":
        _, found, _ = scanned((29, *BAD_MAGIC), (COUNT, 0, end))
        assert found == [(29, 30, BAD, Fault.BAD_MAGIC, follows)]


def test_a_record_may_end_where_its_segment_does() -> None:
    longer = Message(queue_offset=29, body=b"b" * (SEGMENT - 29 * SIZE - 92))
    changes = (29, 0, encode(longer, BASE + 29 * SIZE)), (29, *BAD_BODY)
    _, found, _ = scanned(*changes)
    assert [each[2:] for each in found] == [(CONTENT, Fault.BODY_CRC, "segment's end")]
