"""A segment scanned past its damage: what is dispatched, and which ranges are reported."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from reput.store_format.damage.evidence import NextOffset
from reput.store_format.damage.liveness import Before
from reput.store_format.damage.queue_ends import QueueEnds
from reput.store_format.damage.ranges import Damage, DamageKind, Ranges, damages
from reput.store_format.damage.tolerant import TolerantScan, dispatch_fresh, stride
from reput.store_format.derived.queue_files import decode_entries
from reput.store_format.dispatch.scan import Buffers, End, Outputs, Runs, scan_rules
from reput.store_format.faults import Fault
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs.encoder import Message, encode
from tests.store_format.damage.walked import RULES, reader, walked

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
def test_sound_records_stay_and_all_else_is_reported(changes, lost: list[int], ranges) -> None:
    records, found, _ = scanned(*changes)
    assert (records, found) == (without(*lost), ranges)


def test_how_a_segment_ends_and_which_records_behind_damage_are_stale() -> None:
    for changes, fault, next_at in [([], Fault.ZEROS, COUNT * SIZE),
        ([(COUNT, 0, struct.pack(">iI", *REST))], Fault.BLANK, SEGMENT),
        ([(COUNT, 0, struct.pack(">iI", 5, 0xCBD43194))], Fault.BLANK, SEGMENT),
        ([(29, *BAD_MAGIC), (COUNT, 0, struct.pack(">iI", *REST))], Fault.BLANK, SEGMENT),
        ([(COUNT, 0, b"\x55" * (SEGMENT - COUNT * SIZE))], Fault.NONE, SEGMENT),
        ([(COUNT, 0, b"\x55" * 50)], Fault.ZEROS, COUNT * SIZE + 50)]:  # fmt: skip
        records, _, end = scanned(*changes)
        assert (end.fault, end.next - BASE) == (fault, next_at)
        assert records == list(range(end.records))
    for end, follows in [(struct.pack(">iI", *REST), "BLANK"), (b"", "zeros")]:
        _, found, _ = scanned((29, *BAD_BODY), (COUNT, 0, end))
        assert found == [(29, 30, CONTENT, Fault.BODY_CRC, follows)]
        if follows == "BLANK":
            _, found, _ = scanned((29, *BAD_MAGIC), (COUNT, 0, end))
            assert found == [(29, 30, BAD, Fault.BAD_MAGIC, follows)]
    longer = Message(queue_offset=29, body=b"b" * (SEGMENT - 29 * SIZE - 92))
    changes = (29, 0, encode(longer, BASE + 29 * SIZE)), (29, *BAD_BODY)
    _, found, _ = scanned(*changes)
    assert [each[2:] for each in found] == [(CONTENT, Fault.BODY_CRC, "segment's end")]
    # The last record's properties have no bytes: its length, two zeros, is taken for the end.
    records, found, _ = scanned((29, *BAD_MAGIC))
    assert records == without(29)
    assert found == [(29, 30 - 2 / SIZE, BAD, Fault.BAD_MAGIC, "zeros")]
    # The log was cut and its records 20 on are those of a longer one before.
    log = [replace(m, store_timestamp=START - 1000 + n) if n >= 20 else m
           for n, m in enumerate(log_of())]  # fmt: skip
    records, found, _ = scanned((19, 0, bytes(SIZE)), log=log)
    assert records == list(range(19))
    assert [each[:4] for each in found] == [(19, 20, BAD, Fault.ZEROS), (20, 30, OLD, Fault.NONE)]
    assert [each[4] for each in found] == ["stale record", "zeros"]
    changes = [(n, 0, b"\x7f") for n in range(3, 27, 3)]
    records, found, _ = scanned(*changes, most_ranges=3)
    assert records == [0, 1, 2, 4, 5, 7, 8, 10, 11]
    assert [each[0] for each in found] == [3, 6, 9, 12]


# --- The kernels for ordinary damage: one damaged record between sound ones, again and again.
SEGMENT_STRIDES, BASE_STRIDES, COUNT_STRIDES = 1 << 14, 1 << 20, 6
START_STRIDES = 1_700_000_000_000
SIZE_STRIDES = 92
NONE, MAGIC, PLACE = Fault.NONE, Fault.BAD_MAGIC, Fault.PLACE
Change_strides = tuple[int, int, bytes]  # (record, its byte, what is put there)
BAD_MAGIC_STRIDES, BAD_PLACE_STRIDES = (4, struct.pack(">i", 7)), (28, struct.pack(">q", -5))


def log_of_strides() -> list[Message]:
    return [
        Message(queue_offset=n, store_timestamp=START_STRIDES + n) for n in range(COUNT_STRIDES)
    ]


def strode(
    *changes: Change_strides, most: int = 20, length: int = SEGMENT_STRIDES
) -> list[tuple[int, int, int]]:
    """(record, fault of the range before it, value) of each row, behind six records zeros."""
    raw, sound = walked(*log_of_strides(), segment=SEGMENT_STRIDES, base=BASE_STRIDES)
    assert set(sound["size"]) == {SIZE_STRIDES}
    for record, byte, content in changes:
        at = record * SIZE_STRIDES + byte
        raw[at : at + len(content)] = np.frombuffer(content, np.uint8)
    rows, faults = np.zeros(most, RECORD_ROW), np.zeros(most, np.uint8)
    values = np.zeros(most, np.int64)
    count = stride(raw, length, SEGMENT_STRIDES, BASE_STRIDES, RULES, rows, faults, values)
    return [(int(rows[i]["physicalOffset"] - BASE_STRIDES) // SIZE_STRIDES, int(faults[i]),
        int(faults[i] and values[i])) for i in range(count)]  # fmt: skip


def of_records(*numbers: int) -> list[tuple[int, int, int]]:
    return [(number, 0, 0) for number in numbers]


def test_one_wrong_record_is_stepped_over_and_what_may_be_stale_left_to_others() -> None:
    for changes, rows in [([], of_records(0, 1, 2, 3, 4, 5)),
        ([(2, *BAD_MAGIC_STRIDES)], [*of_records(0, 1), (3, MAGIC, 7), *of_records(4, 5)]),
        ([(2, *BAD_PLACE_STRIDES)], [*of_records(0, 1), (3, PLACE, -5), *of_records(4, 5)]),
        ([(2, *BAD_PLACE_STRIDES), (2, *BAD_MAGIC_STRIDES)],
        [*of_records(0, 1), (3, MAGIC, 7), *of_records(4, 5)]),
        ([(1, *BAD_MAGIC_STRIDES), (3, *BAD_PLACE_STRIDES)],
        [(0, 0, 0), (2, MAGIC, 7), (4, PLACE, -5), (5, 0, 0)])]:  # fmt: skip
        assert strode(*changes) == rows
    for changes, count in [
        ([(2, *BAD_MAGIC_STRIDES), (3, *BAD_PLACE_STRIDES)], 2),  # two in a row
        ([(0, *BAD_MAGIC_STRIDES)], 0),  # it has to begin with a sound one
        ([(5, *BAD_MAGIC_STRIDES)], 5),  # nothing follows
        ([(2, 0, struct.pack(">i", SIZE_STRIDES + 1))], 2),
        ([(2, 0, struct.pack(">i", 90)), (2, *BAD_MAGIC_STRIDES)], 2),  # shorter than any record
        ([(2, 0, struct.pack(">i", -SIZE_STRIDES)), (2, *BAD_MAGIC_STRIDES)], 2),
        ([(2, 4, struct.pack(">I", 0xCBD43194))], 2),  # a BLANK
        (
            [(2, *BAD_MAGIC_STRIDES), (2, SIZE_STRIDES - 1, b"\1")],
            2,
        ),  # lengths that do not add up either
    ]:
        assert [row[0] for row in strode(*changes)] == list(range(count))
    assert strode(most=3) == of_records(0, 1, 2)
    assert strode(length=3 * SIZE_STRIDES - 1) == of_records(0, 1)
    assert strode((1, *BAD_MAGIC_STRIDES), length=3 * SIZE_STRIDES - 1) == of_records(0)
    for changed, behind_a_range, done in [(THIRD, True, 6),
        (replace(THIRD, store_timestamp=START_STRIDES + 1), True, 3),  # older
        (replace(THIRD, store_timestamp=START_STRIDES + 2), True, 6),  # as old
        (replace(THIRD, store_timestamp=START_STRIDES + 1), False, 6),  # nothing was lost: a clock
        (replace(THIRD, queue_offset=2), True, 3),  # its queue has that one
        (replace(THIRD, queue_offset=2), False, 6),
        (replace(THIRD, queue_id=1), True, 3),  # nobody knows its queue
        (replace(THIRD, topic="U"), True, 3),
        (replace(THIRD, queue_id=1, sys_flag=4), True, 6),  # it goes to no queue
        (replace(THIRD, queue_id=1, sys_flag=8), True, 3)]:  # fmt: skip
        assert dispatched(changed, {3: MAGIC} if behind_a_range else {}) == done
    assert dispatched(THIRD, {}, suspect=True, last=START_STRIDES) == 6
    assert dispatched(THIRD, {}, suspect=True, last=START_STRIDES + 1) == 0
    assert dispatched(THIRD, {}, suspect=False, last=START_STRIDES + 1) == 6


def dispatched(
    changed: Message, faults: dict[int, Fault], suspect: bool = False, last: int = START_STRIDES
) -> int:
    """How many of six rows are dispatched, of which number 3 is changed; two were before."""
    log = log_of_strides()
    log[3] = changed
    first = Message(queue_offset=-2, store_timestamp=START_STRIDES)
    raw, rows = walked(first, replace(first, queue_offset=-1), *log, segment=SEGMENT_STRIDES)
    buffers = Buffers(SEGMENT_STRIDES)
    outputs = Outputs(scan_rules(profile("5.3.3"), Settings(), ()), buffers, End())
    ends = QueueEnds(buffers)
    assert list(outputs.dispatch(raw, rows[:2])) == []
    before = np.zeros(COUNT_STRIDES, np.uint8)
    for number, fault in faults.items():
        before[number] = fault
    done, why = dispatch_fresh(raw, rows[2:], before, suspect, last, ends.look(),
        outputs.dispatching)  # fmt: skip
    assert why == NONE
    assert buffers.puts.used[0] == 2 + done - (changed.sys_flag == 4 and done > 3)
    return int(done)


THIRD = log_of_strides()[3]
