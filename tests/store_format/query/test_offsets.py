"""Which offsets groups are to have: maps, bounds, and lines that somebody has edited."""

import json
from typing import Any

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.query import offsets
from reput.store_format.query.inventory import QueueRow

# of 10 messages the 4th and 5th are not in the other log, which has 5 others before them
MAP = [offsets.MapRow("T", 0, 2, 5), offsets.MapRow("T", 0, 5, 6),
       offsets.MapRow("T", 0, 10, 11), offsets.MapRow("U", 1, 0, 0)]  # fmt: skip
OFFSETS = {("g", "T"): {0: 4, 1: 9}, ("g", "%RETRY%g"): {0: 1}, ("h", "T"): {0: 2},
           ("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC"): {0: 7}}  # fmt: skip
BOUNDS = [QueueRow("T", number, False, 3, 10, 7, 0, 0, 0) for number in (0, 1, 2)]


@pytest.mark.parametrize(
    ("old", "new"), [(0, 5), (2, 5), (3, 6), (4, 6), (5, 6), (9, 10), (10, 11), (12, 11)]
)
def test_a_position_is_where_its_message_or_the_next_one_is(old: int, new: int) -> None:
    rows = [
        offsets.OffsetRow("g", "T", 0, old),
        offsets.OffsetRow("g", "T", 1, old),
    ]  # the map lacks the second
    assert offsets.rows_mapped(rows, MAP) == [offsets.OffsetRow("g", "T", 0, new)]


def test_positions_of_a_map_ascend_a_clone_has_all_but_retries_and_a_dump_has_lines() -> None:
    for row in (offsets.MapRow("T", 0, 9, 12), offsets.MapRow("T", 0, 11, 10)):
        with pytest.raises(StoreError, match="not an offset map"):
            offsets.rows_mapped([], [*MAP, row])
    rows = offsets.rows_to_clone(OFFSETS, offsets.Chosen(["g"]), "copy")
    assert rows == [offsets.OffsetRow("copy", "T", 0, 4), offsets.OffsetRow("copy", "T", 1, 9)]
    raw = (json.dumps({**GOOD, "more": 1}) + "\n").encode()
    assert offsets.rows_in("d", raw, offsets.OffsetRow) == [offsets.OffsetRow("g", "T", 1, 7)]


def test_none_past_an_end_or_before_a_beginning() -> None:
    rows = [offsets.OffsetRow("g", "T", 0, 99), offsets.OffsetRow("g", "T", 1, 0),
            offsets.OffsetRow("n", "T", 2, 10), offsets.OffsetRow("g", "T", 3, 5)]  # fmt: skip
    moves = offsets.confined(rows, OFFSETS, BOUNDS)
    assert [move[3:] for move in moves] == [(4, 10, 99), (9, 3, 0), (-1, 10, 10), (-1, -1, 5)]
    assert [str(move) for move in moves] == [
        "g  T/0  4 -> 10, where the queue ends, not 99",
        "g  T/1  9 -> 3, where the queue begins, not 0", "n  T/2  none -> 10",
        "g  T/3  none -> none: the store has no such queue",
    ]  # fmt: skip
    made = offsets.with_moves(OFFSETS, moves)
    assert made["g", "T"] == {0: 10, 1: 3}
    assert OFFSETS["g", "T"] == {0: 4, 1: 9}
    back = offsets.moves_between(made, OFFSETS)
    assert [(move.group, move.queue, move.offset) for move in back] == [
        ("g", 0, 4), ("g", 1, 9), ("n", 2, -1),
    ]  # fmt: skip


@pytest.mark.parametrize(("chosen", "queues"), [
    (offsets.Chosen(), {"g": {0, 1, 2}, "h": {0, 1, 2}}), (offsets.Chosen(["g"]), {"g": {0, 1, 2}}),
    (offsets.Chosen(["new"], ["T"], [1]), {"new": {1}}), (offsets.Chosen(["new"]), {}),
    (offsets.Chosen((), ["U"]), {}),
])  # fmt: skip
def test_which_queues_are_set(chosen: offsets.Chosen, queues: dict[str, set[int]]) -> None:
    found: dict[str, set[int]] = {}
    for row in offsets.rows_to_set(OFFSETS, BOUNDS, chosen, lambda queue: queue.max_offset):
        found.setdefault(row.group, set()).add(row.queue)
    assert found == queues


GOOD = {"group": "g", "topic": "T", "queue": 1, "offset": 7}


@pytest.mark.parametrize("wrong", [
    {"offset": -1}, {"offset": 1 << 63}, {"offset": True}, {"offset": 1.5}, {"offset": "7"},
    {"queue": -1}, {"queue": 10**10}, {"group": ""}, {"group": "a@b"}, {"group": "a\n"},
    {"topic": "t" * 256}, {"topic": None}, {"group": ["g"]}, None, [],
])  # fmt: skip
def test_a_line_that_is_none_of_a_dump_is_named(wrong: Any) -> None:
    line = {**GOOD, **wrong} if isinstance(wrong, dict) else wrong
    raw = f"{json.dumps(GOOD)}\n{json.dumps(line)}\n".encode()
    with pytest.raises(StoreError, match=r"^d: line 2: expected .* group, topic, queue and offset"):
        offsets.rows_in("d", raw, offsets.OffsetRow)


@pytest.mark.parametrize("raw", [b"", b"\n", b"\xff", b"[" * 100_000, b'{"topic":"T"}'])
def test_what_is_no_file_of_lines(raw: bytes) -> None:
    with pytest.raises(StoreError, match="line 1: expected"):
        offsets.rows_in("m", raw, offsets.MapRow)
