"""Runs and their positions: however a queue's entries are cut into runs, one queue comes out."""

import struct
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.dispatch.runs import (
    NO_POSITION,
    REPEATED,
    PositionRules,
    QueueRuns,
    Room,
    group_by_queue,
    number_run,
    start_position,
)
from reput.store_format.layouts import QUEUE_PUT

ENTRY = struct.Struct(">qiq")
BATCH_ENTRY = struct.Struct(">qiqqqhii")
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1


class Put(NamedTuple):
    place: int
    size: int
    offset: int
    queue: int = 0
    tags: int = 0
    time: int = 0
    batch: int = 1


def puts_array(puts: list[Put]) -> np.ndarray:
    rows = [(p.place, p.offset, p.tags, p.time, p.size, p.queue, p.batch, 0) for p in puts]
    return np.array(rows, QUEUE_PUT)


def grouped(puts: list[Put], queues: int = 1, batch: tuple[int, ...] = ()) -> QueueRuns:
    is_batch = np.array([queue in batch for queue in range(queues)])
    return group_by_queue(puts_array(puts), np.arange(queues, dtype=np.int64), is_batch)


def number(
    runs: QueueRuns, queue: int, position: int, rules: PositionRules, with_positions: bool = True
) -> tuple[int, list[int]]:
    count, at = int(runs.count[queue]), int(runs.entries_at[queue])
    offsets_at = int(runs.offsets_at[queue])
    offsets = runs.offsets[offsets_at : offsets_at + count] if offsets_at >= 0 else runs.offsets[:0]
    positions = np.full(count if with_positions else 0, 99, np.int64)
    entries = runs.entries[at : at + 20 * count]
    first = int(runs.first[queue])
    after = number_run(entries, offsets, first, count, position, rules, positions)
    return int(after), positions.tolist()


def wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def model(puts: list[Put], position: int, rules: PositionRules) -> list[int]:
    """ConsumeQueue.putMessagePositionInfo, a put after the other, in plain integers."""
    greatest = -1
    positions = []
    for put in puts:
        reaches = put.place + put.size if rules.skip_by_end else put.place
        taken, skipped = reaches > greatest, NO_POSITION
        if not taken:
            skipped = REPEATED
        if taken and rules.skip_lower_offsets and put.offset != 0:
            taken = wrap(put.offset * 20) >= wrap(position * 20)
        positions.append(position if taken else skipped)
        if taken:
            greatest = reaches
            position += 1
    return positions


RULES = st.builds(PositionRules, st.booleans(), st.booleans())


@st.composite
def messages(draw: st.DrawFn) -> list[list[Put]]:
    """Messages in the order of the log; each puts one entry, or the same one several times."""
    place = draw(st.integers(0, 100))
    offset = draw(st.integers(0, 5))
    found = []
    for _ in range(draw(st.integers(1, 12))):
        size = draw(st.integers(1, 200))
        puts = []
        for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
            step = draw(st.sampled_from([1, 1, 1, 1, 0, 2, -1, -3, 10]))
            jump = draw(st.sampled_from([None] * 9 + [0, -1, LONG_MAX, LONG_MIN, 1 << 59]))
            offset = offset + step if jump is None else jump
            if not LONG_MIN <= offset <= LONG_MAX:
                offset = 0
            puts.append(Put(place, size, offset))
        place += size
        found.append(puts)
    return found


@settings(deadline=None, max_examples=100)
@given(messages(), st.data(), RULES, st.integers(0, 8))
def test_runs_get_the_positions_of_a_plain_queue(log, data, rules, start) -> None:
    everything = [put for puts in log for put in puts]
    expected = model(everything, start, rules)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=4)) | {0, len(log)})
    position, found = start, []
    for low, high in pairwise(cuts):
        run = [put for puts in log[low:high] for put in puts]
        runs = grouped(run)
        assert number(runs, 0, position, rules, with_positions=False)[0] == (
            position := number(runs, 0, position, rules)[0]
        )
        before = next((p + 1 for p in reversed(found) if p >= 0), start)
        found += number(runs, 0, before, rules)[1]
    assert found == expected
    assert position == start + sum(p >= 0 for p in expected)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 12), st.integers(-9, 9)), max_size=40),
    st.sets(st.integers(0, 2)))  # fmt: skip
def test_grouping_keeps_the_order_within_a_queue(drawn, batch) -> None:
    numbers = np.array([0, 1, 2, 1, 0], np.int64)  # two spellings of queues 0 and 1
    puts = [Put(100 * n, 90 + n, offset, queue, tags, 1000 + n, n % 7)
        for n, (queue, offset, tags) in enumerate(drawn)]  # fmt: skip
    is_batch = np.array([queue in batch for queue in range(3)])
    runs = group_by_queue(puts_array(puts), numbers, is_batch)
    for queue in range(3):
        mine = [put for put in puts if numbers[put.queue] == queue]
        assert runs.count[queue] == len(mine)
        at = int(runs.entries_at[queue])
        if queue in batch:
            packed = b"".join(
                BATCH_ENTRY.pack(p.place, p.size, p.tags, p.time, p.offset, p.batch, -1, 0)
                for p in mine
            )
        else:
            packed = b"".join(ENTRY.pack(p.place, p.size, p.tags) for p in mine)
        assert runs.entries[at : at + len(packed)].tobytes() == packed
        offsets = [p.offset for p in mine]
        if mine:
            assert (runs.first[queue], runs.greatest[queue]) == (offsets[0], max(offsets))
        start = offsets[0] if mine else 0
        consecutive = offsets == list(range(start, start + len(mine)))
        assert (runs.offsets_at[queue] < 0) == (consecutive or queue in batch)
        if runs.offsets_at[queue] >= 0:
            start = int(runs.offsets_at[queue])
            assert runs.offsets[start : start + len(mine)].tolist() == offsets
    assert len(runs.entries) == sum(46 if numbers[p.queue] in batch else 20 for p in puts)


def test_where_a_queue_starts_and_one_room_serves_runs_of_any_length() -> None:
    for offset, batch, position in [(0, False, 0), (77, False, 77), (77, True, 0)]:
        assert start_position(offset, batch) == position
    last = LONG_MAX // 20
    assert start_position(last - 1, False) == last - 1
    for offset in (-1, last + 1, LONG_MAX, LONG_MIN):
        with pytest.raises(ValueError, match="out of range"):
            start_position(offset, False)
        assert start_position(offset, True) == 0
    room = Room()
    for count in (3, 1, 7, 0, 5):
        puts = [Put(100 * n, 90 + n, n, tags=count) for n in range(count)]
        runs = group_by_queue(puts_array(puts), np.zeros(1, np.int64), np.zeros(1, np.bool_), room)
        assert runs.entries.tobytes() == b"".join(ENTRY.pack(*p[:2], p.tags) for p in puts)
    for size in (0, 1, 255, 256, 32767, -1, -32768):
        runs = grouped([Put(1, 2, 3, tags=4, time=5, batch=size)], batch=(0,))
        assert BATCH_ENTRY.unpack(runs.entries.tobytes()) == (1, 2, 4, 5, 3, size, -1, 0)
