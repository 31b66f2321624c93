"""The rules of one record, byte by byte: what stands at a place, and what its parts add up to."""

import random
import re
import struct
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch import scan as scan_module
from reput.store_format.dispatch.dispatch import unpacked
from reput.store_format.dispatch.scan import End, IndexPuts, Runs, Stretch, scan, scan_rules
from reput.store_format.faults import Fault
from reput.store_format.log import record
from reput.store_format.log import rules as module
from reput.store_format.log.reader import record_of
from reput.store_format.log.record import read_one
from reput.store_format.log.rules import NO_CHECKS, RecordRules
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests.logs import Message, build_log, properties
from tests.store_format.log.windows import Records

RULES = module.RecordRules(True, True)
V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
PLACE = 1 << 40


def framed(size: int, magic: int, left: int = 200, rules: module.RecordRules = RULES) -> Fault:
    """What stands at a place of which `left` bytes are left in the segment."""
    raw = bytes(3) + struct.pack(">iI", size, magic)
    return Fault(module.frame(raw, 3, len(raw), 3 + left, rules)[0])


@pytest.mark.parametrize(("size", "magic", "left", "fault"), [
    (200, V1, 200, Fault.NONE), (91, V1, 200, Fault.NONE), (90, V1, 200, Fault.BAD_SIZE),
    (-1, V2, 200, Fault.BAD_SIZE), (201, V1, 200, Fault.SIZE_PAST_END),
    (201, 5, 200, Fault.SIZE_PAST_END), (200, 5, 200, Fault.BAD_MAGIC),
    (0, 5, 200, Fault.BAD_MAGIC),
    (0, 0, 200, Fault.ZEROS), (1, 0, 200, Fault.BAD_MAGIC), (0, 0, 4, Fault.SHORT_TAIL),
    (0, 0, 5, Fault.BAD_MAGIC), (0, 0, 7, Fault.BAD_MAGIC), (0, 0, 8, Fault.ZEROS),
    (8, BLANK, 8, Fault.BLANK), (200, BLANK, 200, Fault.BLANK), (0, BLANK, 200, Fault.BLANK),
])  # fmt: skip
def test_what_stands_at_a_place(size: int, magic: int, left: int, fault: Fault) -> None:
    assert framed(size, magic, left) == fault


def head(
    size: int = 139, magic: int = 1, pos: int = PLACE, body: int = 91, record: int = 91
) -> bytes:
    """A head, and the size and magic number of its record."""
    raw = struct.pack(">iiqqqiiii", magic, size, 5, 2, pos, 0, 0, 0, body)
    return raw + struct.pack(">iI", record, V1)


@pytest.mark.parametrize(("raw", "fault"), [
    (head(), Fault.NONE), (head(magic=-1), Fault.BLANK), (head(magic=2), Fault.HEAD_MAGIC),
    (head(size=138), Fault.HEAD_SIZE), (head(size=201), Fault.SIZE_PAST_END),
    (head(pos=PLACE + 1), Fault.HEAD_PLACE), (head(body=92), Fault.HEAD_SIZE),
    (head(size=140), Fault.HEAD_SIZE), (head(record=92), Fault.HEAD_SIZE),
    (bytes(56), Fault.ZEROS), (head()[:55], Fault.NEED_MORE), (head()[:7], Fault.NEED_MORE),
])  # fmt: skip
def test_a_dledger_head_and_its_record_have_one_size(raw: bytes, fault: Fault) -> None:
    assert Fault(module.entry(raw, 0, len(raw), 200, PLACE, RULES)[0]) == fault


def test_indices_go_on_heads_are_of_whole_segments_lengths_add_up_and_types_decide() -> None:
    sequence = [-1] * 4
    steps = [(5, 2), (6, 2), (7, 4), (9, 4), (8, 3), (8, 4)]
    raws = [struct.pack(">iiqq", 1, 139, *step) for step in steps]
    found = [Fault(module.goes_on(raw, 0, sequence)) for raw in raws]
    none = Fault.NONE
    assert found == [none, none, none, Fault.HEAD_INDEX, Fault.HEAD_TERM, none]
    assert sequence == [5, 2, 8, 4]
    rules = module.RecordRules(True, True, False, 4096)
    assert [module.head_bytes(end, rules) for end in (4096, 4097, 8192)] == [0, 48, 48]
    assert module.head_bytes(1 << 61, RULES) == 0
    assert module.record_bytes(16, 5, 127, 7) == 91 + 5 + 127 + 7
    assert module.record_bytes(40, 0, 128, 0) == 91 + 24 + 1 + 128
    assert [module.prefix_bytes(flag, RULES) for flag in (0, 0x10, 0x20, 0x30)] == [
        88, 100, 100, 112,
    ]  # fmt: skip
    types = (0, 0x4, 0x8, 0xC)  # none, prepared, commit, rollback; other bits do not matter
    assert [module.reaches_queue(each | 0x11) for each in types] == [True, False, True, False]
    assert [module.reaches_index(each | 0x11) for each in types] == [True, True, True, False]


# --- One record read alone, by the rules as they stand, is what the compiled walk finds there.
SEGMENT = 1 << 15
V6 = bytes(range(20))
MESSAGES = [
    Message(topic="T" * (200 if n % 5 == 4 else 3), version=2 if n % 5 == 4 else 1,
            body=b"x" * (n % 3 * 700), queue_offset=n, sys_flag=(0, 0x10, 0x20, 0x30)[n % 4],
            born_host=V6 if n % 4 in (1, 3) else V6[:8], store_host=V6 if n % 4 > 1 else V6[:8])
    for n in range(12)
] + [Message(topic="T", queue_offset=12, properties_length=-5)]  # fmt: skip


@pytest.mark.parametrize("rules", [RecordRules(True, True), RecordRules(False, False, True)])
def test_it_is_the_walks_record_or_fault(rules: RecordRules) -> None:
    draw = random.Random(7)
    (log,) = build_log(MESSAGES, SEGMENT, 0).values()
    starts = [found.start() - 4 for found in re.finditer(b"\xda\xa3\x20", log)]
    assert len(starts) == len(MESSAGES)
    sound = faulty = 0
    for _ in range(150):
        raw = np.frombuffer(log, np.uint8).copy()
        for _ in range(draw.randrange(4)):
            raw[draw.choice(starts) + draw.randrange(110)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))

        def read(at: int, buffer: Any, raw: Any = raw) -> None:
            buffer[:] = raw[at : at + len(buffer)]

        walk = Walk(read, SEGMENT, rules, NO_CHECKS, np.empty(SEGMENT, np.uint8))
        at = 0
        while True:
            fault, record = read_one(read, at, SEGMENT, rules, draw.choice((128, 4096)))
            (step, *_) = walk.steps(at, at + 1)
            if record is None:
                assert step.fault == fault
                faulty += fault != Fault.ZEROS
                break
            assert record_of(step, 0, rules) == record
            sound += 1
            at = step.next
    assert sound > 100
    assert faulty > 20


# --- Records longer than a scan's window: the same outcome as in a window that holds them.
SEGMENT_OVERSIZE = 1 << 18
SMALL_WINDOW = 1000
BODY = bytes(range(256)) * 100
BIG = Message(body=BODY, properties=properties(("KEYS", "a b"), ("TAGS", "t"), ("UNIQ_KEY", "u")))


class Segment(Records):
    size = SEGMENT_OVERSIZE


def outcome(segment: Segment, **settings: str) -> tuple[list[Any], End]:
    """All puts, as plain values, and the scan's end."""
    rules = scan_rules(profile("5.4.0"), settings_from(settings), ())
    puts: list[Any] = []
    entries: dict[Any, bytes] = {}
    stretch = Stretch(0, SEGMENT_OVERSIZE, 0, SEGMENT_OVERSIZE, 0)
    for part in scan(segment.read, stretch, rules):
        if isinstance(part, IndexPuts):
            puts += unpacked(part.hashes, part.messages).tolist()
        elif isinstance(part, Runs):
            for number, key in enumerate(part.queues):
                at, count = int(part.runs.entries_at[number]), int(part.runs.count[number])
                entry = part.runs.entries[at : at + 20 * count].tobytes()
                entries[key] = entries.get(key, b"") + entry
        else:
            return [*puts, entries], part
    raise AssertionError("no End")


@pytest.fixture
def small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_module, "WINDOW_BYTES", SMALL_WINDOW)
    monkeypatch.setattr(record, "_PIECE_BYTES", 300)


LOGS = {
    "alone": [BIG],
    "between small ones": [Message(), BIG, Message(queue_offset=1), BIG, Message(queue_offset=2)],
    "one after another": [BIG, BIG, BIG],
    "IPv6 and a long topic": [Message(
        body=BODY, sys_flag=0x30, born_host=bytes(20), store_host=bytes(20), version=2,
        topic="L" * 300, properties=properties(("KEYS", "k")),
    )], "long properties": [Message(body=b"b", properties=properties(("KEYS", "k " * 3000)))],
    "all of it long": [Message(
        body=BODY, topic="t" * 32767, version=2, properties=b"KEYS\x01" + b"k" * 32761 + b"\x02"
    )], "just the window": [Message(body=b"x" * (SMALL_WINDOW - 92))],
    "one more than the window": [Message(body=b"x" * (SMALL_WINDOW - 91))],
    "no body to check": [Message(body_length=-5, properties=properties(("KEYS", "k" * 2000)))],
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_an_oversize_record_gives_what_it_gives_in_one_window(name: str, monkeypatch) -> None:
    expected_puts, expected = outcome(Segment(*LOGS[name]))
    monkeypatch.setattr(scan_module, "WINDOW_BYTES", SMALL_WINDOW)
    monkeypatch.setattr(record, "_PIECE_BYTES", 300)
    segment = Segment(*LOGS[name])
    puts, end = outcome(segment)
    assert (puts, end) == (expected_puts, expected)
    assert (end.fault, end.next, end.records) == (
        Fault.ZEROS, segment.end, len(LOGS[name])
    )  # fmt: skip


def test_a_body_is_never_held_and_a_stretch_owns_a_record_that_reaches_past_its_end(
    small_window,
) -> None:
    segment = Segment(*LOGS["between small ones"])
    _, end = outcome(segment)
    assert end.records == 5
    assert segment.longest <= SMALL_WINDOW < len(BODY)
    segment = Segment(Message(), BIG, Message(queue_offset=1))
    rules = scan_rules(profile("5.4.0"), settings_from(), ())
    *_, end = scan(segment.read, Stretch(0, SEGMENT_OVERSIZE, 0, 93, 0), rules)
    assert isinstance(end, End)
    assert (end.records, end.fault) == (2, Fault.NONE)
    assert end.next == segment.end - 92


@pytest.mark.parametrize(("bad", "fault"), [
    (Message(body=BODY, body_crc=1), Fault.BODY_CRC),
    (Message(body=BODY, body_length=len(BODY) * 9), Fault.BODY_LENGTH),
    (Message(body=BODY, body_length=len(BODY) + 4), Fault.BODY_LENGTH),
    (Message(body=BODY, body_length=len(BODY) + 1), Fault.TOPIC_LENGTH),
    (Message(body=BODY, body_length=5), Fault.LENGTHS),
    (Message(body=BODY, body_length=-1), Fault.LENGTHS),
    (Message(body=b"\xff" * 5000, body_length=5), Fault.TOPIC_LENGTH),
    (Message(body=bytes(100_000), body_length=5), Fault.LENGTHS),
    (Message(body=BODY, topic_length=-1), Fault.TOPIC_LENGTH),
    (Message(body=BODY, topic_length=100), Fault.TOPIC_LENGTH),
    (Message(body=BODY, properties_length=100), Fault.LENGTHS),
    (Message(body=BODY, size=20_000), Fault.BODY_LENGTH),
    (Message(body=BODY, size=SEGMENT_OVERSIZE - 92), Fault.LENGTHS),
    (Message(body=BODY, physical_offset=5), Fault.PLACE),
    (Message(size=SEGMENT_OVERSIZE - 92), Fault.LENGTHS),
])  # fmt: skip
def test_a_bad_oversize_record_is_refused_as_in_one_window(bad, fault, monkeypatch) -> None:
    _, whole = outcome(Segment(Message(), bad, Message()))
    monkeypatch.setattr(scan_module, "WINDOW_BYTES", SMALL_WINDOW)
    _, end = outcome(Segment(Message(), bad, Message()))
    assert end == whole
    assert (end.fault, end.next, end.records) == (fault, 92, 1)


def test_a_flipped_bit_anywhere_in_the_body_is_found_and_one_that_a_whole_crc_covers(
    small_window,
) -> None:
    for at in (88, 89, 387, 388, 389, 88 + len(BODY) - 1):
        segment = Segment(BIG)
        segment.data[at] ^= 1
        _, end = outcome(segment)
        assert (end.fault, end.next) == (Fault.BODY_CRC, 0)
        assert outcome(segment, checkCRCOnRecover="false")[1].records == 1
    messages = [Message(body=BODY, body_crc=1, crc_property=True)] * 2
    assert outcome(Segment(*messages), forceVerifyPropCRC="true")[1].records == 2
    for at in (12, 500, 88 + len(BODY)):  # queueId, body, topic length's neighbour
        segment = Segment(*messages)
        segment.data[at + 1] ^= 1
        _, end = outcome(segment, forceVerifyPropCRC="true")
        assert (end.fault, end.next) == (Fault.PROPERTY_CRC, 0)
    assert outcome(Segment(BIG), forceVerifyPropCRC="true")[1].fault == Fault.PROPERTY_CRC
