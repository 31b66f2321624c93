"""The rules of one record, byte by byte: what stands at a place, and what its parts add up to."""

import struct

import pytest

from reput.store_format.faults import Fault
from reput.store_format.log import rules as module

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
