"""The rules of one record, byte by byte: what stands at a place, and what its parts add up to."""

import struct
from typing import Any

import pytest

from reput.store_format.faults import Fault
from reput.store_format.log import rules as module
from tests.logs import Message, encode

RULES = module.RecordRules(True, True)
V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
PLACE = 1 << 40
V6 = bytes(range(20))


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


def read(
    message: Message, rules: module.RecordRules = RULES, place: int = PLACE
) -> tuple[Fault, Any]:
    raw, row = encode(message, PLACE), module.Row()
    return Fault(module.read_record(raw, 0, len(raw), place, 0, rules, row)), row


@pytest.mark.parametrize(("fields", "fault"), [
    ({}, Fault.NONE), ({"body_length": 3}, Fault.TOPIC_LENGTH),
    ({"body_length": 1 << 20}, Fault.BODY_LENGTH), ({"body": b"", "body_length": -1}, Fault.NONE),
    ({"topic_length": -1}, Fault.TOPIC_LENGTH), ({"topic_length": 127}, Fault.TOPIC_LENGTH),
    ({"properties_length": 6}, Fault.LENGTHS), ({"properties_length": 4}, Fault.LENGTHS),
    ({"properties": b"", "properties_length": -5}, Fault.NONE),
    ({"physical_offset": PLACE + 1}, Fault.PLACE),
    ({"topic": b"L" * 300, "version": 2}, Fault.NONE),
    ({"sys_flag": 0x30, "born_host": V6, "store_host": V6}, Fault.NONE),
])  # fmt: skip
def test_the_parts_of_a_record_have_to_add_up(fields: dict[str, Any], fault: Fault) -> None:
    whole = {"topic": "TT", "body": b"\x7fody", "properties": b"a\x01b\x02c"}
    assert read(Message(**{**whole, **fields}))[0] == fault


def test_transactions_are_in_queue_and_index_by_their_type() -> None:
    types = (0, 0x4, 0x8, 0xC)  # none, prepared, commit, rollback; other bits do not matter
    assert [module.reaches_queue(each | 0x11) for each in types] == [True, False, True, False]
    assert [module.reaches_index(each | 0x11) for each in types] == [True, True, True, False]


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


def test_indices_go_on_by_one_and_terms_never_fall() -> None:
    sequence = [-1] * 4
    steps = [(5, 2), (6, 2), (7, 4), (9, 4), (8, 3), (8, 4)]
    raws = [struct.pack(">iiqq", 1, 139, *step) for step in steps]
    found = [Fault(module.goes_on(raw, 0, sequence)) for raw in raws]
    none = Fault.NONE
    assert found == [none, none, none, Fault.HEAD_INDEX, Fault.HEAD_TERM, none]
    assert sequence == [5, 2, 8, 4]


def test_a_segment_has_heads_as_a_whole() -> None:
    rules = module.RecordRules(True, True, False, 4096)
    assert [module.head_bytes(end, rules) for end in (4096, 4097, 8192)] == [0, 48, 48]
    assert module.head_bytes(1 << 61, RULES) == 0


def test_lengths_add_up_to_the_record() -> None:
    assert module.record_bytes(16, 5, 127, 7) == 91 + 5 + 127 + 7
    assert module.record_bytes(40, 0, 128, 0) == 91 + 24 + 1 + 128
    assert [module.prefix_bytes(flag, RULES) for flag in (0, 0x10, 0x20, 0x30)] == [
        88, 100, 100, 112,
    ]  # fmt: skip
