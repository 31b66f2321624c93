"""Where dispatch goes on: counted by hand in a log of equal records, and told from another log."""

import struct
from typing import Any

import pytest

from reput.broker.change.position import Position, QueueEnd, find_position, look_ahead
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.dispatch.scan import Runs
from reput.store_format.faults import Fault
from reput.store_format.files.folder import Folder
from tests.broker.change.catching import rules_of
from tests.broker.change.equal_records import (
    INDEX,
    SEGMENT,
    SIZE,
    T0,
    B,
    derived,
    in_turns,
    place_of,
)
from tests.logs import Log
from tests.memory_storage import MemoryStorage

QUEUE_B = "consumequeue/TB/0/" + "0" * 20
NEW_STORE = Position({}, 0, 0, False, True, 0)


def position_of(files: dict[str, bytes], log: Log) -> Position:
    rules, storage = rules_of(log), MemoryStorage({f"s/{path}": files[path] for path in files})
    return find_position(Folder(storage, "s"), place_of(log), rules.settings, rules.scan)


@pytest.mark.parametrize(("most", "full"), [(7, False), (6, True)])
def test_an_index_file_without_room_is_full(most: int, full: bool) -> None:
    """One entry of maxIndexNum is never used: of 6, five keys leave no room."""
    log = in_turns(9, keyed=5, maxIndexNum=most)
    found = position_of(derived(in_turns(5, maxIndexNum=most)), log)
    assert found.index_full is full
    ahead = look_ahead(place_of(log), found, rules_of(log).scan, lambda _: None, 300)
    assert (ahead.index_puts, ahead.opens_index) == (0, full)


def test_the_last_entries_of_queue_and_index_are_its_records() -> None:
    for byte, raw, told in [
        (0, struct.pack(">q", 3 * SIZE + 1), "no sound record stands there"),
        (0, struct.pack(">q", 0), "that record is in other queues"),
        (8, struct.pack(">i", SIZE + 1), f"size {SIZE + 1}: .* that record has {SIZE} bytes"),
        (12, struct.pack(">q", -1), "tagsCode -1: .* that record has 0")]:  # fmt: skip
        files = derived(in_turns(4))
        queue = bytearray(files[QUEUE_B])
        queue[20 + byte : 20 + byte + len(raw)] = raw
        files[QUEUE_B] = bytes(queue)
        with pytest.raises(BadQueue, match=f"(?s){told}.*not of this log"):
            position_of(files, in_turns(4))
    for byte, raw, told in [
        (24, struct.pack(">q", 3 * SIZE + 1), None),  # the mark of a writer that was killed
        (24, struct.pack(">q", 3 * SIZE + 2), f"endPhyOffset .* the last entry has {3 * SIZE}"),
        (8, struct.pack(">q", T0), f"endTimestamp .* that record has {T0 + 3}"),
        (40 + 7 * 4 + 4 * 20, struct.pack(">i", 1), "keyHash 1: no key of the record"),
    ]:
        files = derived(in_turns(4))
        index = bytearray(files[INDEX])
        index[byte : byte + len(raw)] = raw
        files[INDEX] = bytes(index)
        if told is None:
            assert position_of(files, in_turns(4)).index_from == 3 * SIZE
        else:
            with pytest.raises(BadIndex, match=told):
                position_of(files, in_turns(4))


def test_a_queue_whose_records_have_expired_is_taken_at_its_word() -> None:
    """The log begins with its second segment: 13 records fill the first."""
    whole = in_turns(20)
    left = whole._replace(segments={SEGMENT: whole.segments[SEGMENT]})
    found = position_of(derived(in_turns(4)), left)
    assert found.ends[B] == QueueEnd(2, 4 * SIZE)
    assert (found.queues, found.index_from, found.timestamp) == (SEGMENT, SEGMENT, T0 + 3)


def looked(log: Log, position: Position, **more: int) -> tuple[Any, int]:
    runs: list[Runs] = []
    ahead = look_ahead(place_of(log, **more), position, rules_of(log).scan, runs.append, 300)
    return ahead, sum(int(run.runs.count.sum()) for run in runs)


def test_what_is_ahead_is_counted_for_queues_and_index_apart() -> None:
    log = in_turns(20)  # 13 in a segment
    queues = SEGMENT + 2 * SIZE  # have 15 messages; the index has 5
    ahead, seen = looked(log, Position({}, queues, 4 * SIZE, True, False, 0))
    assert (ahead.entries, seen, ahead.index_puts, ahead.records) == (5, 5, 15, 16)
    assert (ahead.end, ahead.fault) == (SEGMENT + 7 * SIZE, Fault.ZEROS)
    assert (ahead.last_record, ahead.last_timestamp) == (SEGMENT + 6 * SIZE, T0 + 19)
    log = in_turns(4)
    ahead, seen = looked(log, Position({}, 4 * SIZE, 3 * SIZE, True, False, 0))
    assert ahead.nothing_new
    assert seen == 0
    assert not looked(log, NEW_STORE)[0].nothing_new
    ahead, _ = looked(in_turns(4), NEW_STORE, there=4 * SIZE - 1)
    assert (ahead.end, ahead.entries, ahead.opens_index) == (3 * SIZE, 3, True)
    ahead, _ = looked(in_turns(4), NEW_STORE, there=4 * SIZE)
    assert ahead.entries == 4
