"""One pass over a log: the marks that are wanted, and the half messages that op messages name."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.fate.gather import (
    HALF,
    OP,
    Gathered,
    Skipped,
    gather,
    named_by_op,
    op_offsets,
)
from reput.store_format.files.protocol import FileState
from reput.store_format.log.reader import LogReader
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Segment
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import SEGMENT, T0, SmallLog


def everything(marks: Any) -> Any:
    return np.ones(len(marks), np.bool_)


@pytest.mark.parametrize(
    ("body", "offsets", "bad"),
    [
        (b"7", [7], 0),  # up to 5.0.0
        (b"7,3,", [3, 7], 0),
        (b"7,3,7,,", [3, 7], 0),  # Java drops empty parts at the end,
        (b",7", [7], 1),  # but not before
        (b"7,,3", [3, 7], 1),
        (b"", [], 1),
        (b",", [], 1),
        (b"x,7", [7], 1),
        (b" 7", [], 1),
        (b"+7,-3", [7], 0),  # no queue has -3
        (b"%d,%d" % ((1 << 63) - 1, 1 << 63), [(1 << 63) - 1], 0),
        (b"1" * 20, [], 1),
        ("٣".encode(), [], 1),
    ],
)
def test_the_offsets_in_an_op_messages_body(body: bytes, offsets: list[int], bad: int) -> None:
    found, wrong = op_offsets(body)
    assert (found.tolist(), wrong) == (offsets, bad)


@pytest.mark.parametrize(
    ("properties", "is_one"),
    [
        (b"TAGS\1d\2", True), (b"TAGS\1d", True), (b"KEYS\1k\2TAGS\1d\2UNIQ_KEY\1u\2", True),
        (b"TAGS\1dd\2", False), (b"XTAGS\1d\2", False), (b"KEYS\1TAGS\1d\2", False), (b"", False),
    ],
)  # fmt: skip
def test_an_op_message_is_one_by_its_tag(properties: bytes, is_one: bool) -> None:
    named, wrong = named_by_op(500, 9, properties, b"7,3,")
    assert named.tolist() == ([(3, 500, 9), (7, 500, 9)] if is_one else [])
    assert wrong == ([] if is_one else [Skipped(500, "TAGS", "of an op message is not d")])


def test_a_pass_takes_what_is_wanted_and_where_the_log_ends(log: SmallLog) -> None:
    log.put("Plain")
    half = log.half("k")
    op = log.op(b"0,5,")
    log.put("Plain")
    seen: list[int] = []
    found = log.gather(everything, seen.append)
    assert found.marks[["physicalOffset", "kind"]].tolist() == [(half, HALF), (op, OP)]
    assert found.ended.tolist() == [(0, op, T0 + 2000), (5, op, T0 + 2000)]
    assert (found.last_timestamp, found.skips, found.breaks) == (T0 + 3000, 0, [])
    assert seen == [len(log.raw)]
    halves = log.gather(lambda marks: marks["kind"] == HALF)
    assert (len(halves.marks), len(halves.ended)) == (1, 0)


def test_what_cannot_be_read_is_named_without_its_value(log: SmallLog) -> None:
    ops = [log.op(b"secret,x"), log.op(b"7", tag="e")]
    timer = log.timer("k", "soon")
    found = log.gather(everything)
    assert found.skips == 3
    assert [str(each) for each in found.skipped] == [
        f"physical {ops[0]}: body of an op message: 2 of its parts are no numbers",
        f"physical {ops[1]}: TAGS of an op message is not d",
        f"physical {timer}: TIMER_OUT_MS is not a number",
    ]


def test_only_the_first_thousand_are_named(log: SmallLog) -> None:
    for _ in range(1005):
        log.op(b"x")
    storage = MemoryStorage({"store/commitlog/0": bytes(log.raw)})
    found = _gathered(storage, len(log.raw))
    assert (found.skips, len(found.skipped)) == (1005, 1000)


def _gathered(storage: MemoryStorage, *lengths: int) -> Gathered:
    segments, start = [], 0
    for number, length in enumerate(lengths):
        segments.append(Segment(f"store/commitlog/{number}", start, FileState(length, 0, 0)))
        start += length
    with LogReader(storage, segments, RecordRules(True, True)) as log:
        return gather(log, everything, False)


def test_behind_damage_the_next_segment_is_read() -> None:
    first, second = SmallLog(), SmallLog(start=SEGMENT)
    first.half("a")
    bad = first.half("b")
    first.half("c")
    last = second.half("d")
    raw = bytearray(first.raw.ljust(SEGMENT, b"\0"))
    raw[bad + 4] = 0
    storage = MemoryStorage({"store/commitlog/0": bytes(raw)})
    storage.files["store/commitlog/1"] = bytes(second.raw.ljust(SEGMENT, b"\0"))
    found = _gathered(storage, SEGMENT, SEGMENT)
    assert found.marks["physicalOffset"].tolist() == [0, last]
    assert ([each.place for each in found.breaks], found.unread_to) == ([bad], SEGMENT)
