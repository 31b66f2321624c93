"""What the log has that the derived files lack, and what of it cannot be gone on with."""

from typing import Any

import pytest

from reput.broker.change.new_messages import New, find_new
from reput.broker.change.position import Position, QueueEnd
from reput.broker.writer.recovery import LogRecovery
from reput.store_format.faults import Fault, StoreError
from tests.broker.change.catching import put_log, rules_of
from tests.broker.change.equal_records import SEGMENT, SIZE, T0, A, B, in_turns, log_with, place_of
from tests.faults.memory_files import MemoryFiles
from tests.logs import Log

NEW_STORE = Position({}, 0, 0, False, True, 0)
LAST_OFFSET = (1 << 63) // 20 - 1  # its entry ends before byte 2^63 of the queue
DELETED = " (unless the topic was deleted: config/topics.json, which would show it, is missing)"


def after(count: int, **ends: QueueEnd) -> Position:
    """Files that hold the first `count` records, with these ends of TA and TB."""
    known = {{"a": A, "b": B}[name]: end for name, end in ends.items()}
    return Position(known, count * SIZE, (count - 1) * SIZE, True, False, T0 + count - 1)


def found(log: Log, position: Position = NEW_STORE, **more: Any) -> New:
    files, rules = MemoryFiles(), rules_of(log)
    put_log(files, log)
    recovery = LogRecovery(files, SEGMENT, rules.scan, None)
    return find_new(place_of(log), recovery, position, rules, **more)


def lacking(place: int, count: int, more: str = "") -> list[str]:
    return [
        f"consumequeue/TB/0: {count} messages, the first at physical offset {place}, are in the "
        f"log and not in the queue; `reput rebuild` has all{more}"]  # fmt: skip


def test_queues_that_get_entries_are_named_and_others_left_out_or_refused() -> None:
    new = found(in_turns(5), after(4, a=QueueEnd(2, 3 * SIZE), b=QueueEnd(2, 4 * SIZE)))
    assert (new.queues, new.ahead.entries, new.lacking) == ({A}, 1, [])
    assert found(in_turns(5)).queues == {A, B}
    new = found(log_with([("a/", 0), ("..", -5), ("a/", 1), ("TA", 0)]))
    assert new.queues == {A}
    said = ["topic '..' is not a folder's name", "topic 'a/' holds a path separator"]
    assert sorted(new.left_out) == said
    assert {key.topic for key in new.unsafe} == {"a/", ".."}
    many = found(log_with([(f"/{n:c}", 0) for n in range(65, 90)]))
    assert (len(many.left_out), len(many.unsafe)) == (20, 25)
    for offset in [-1, LAST_OFFSET + 1]:
        with pytest.raises(
            StoreError,
            match=f"'TB', queue 0: .* offset {SIZE}: queueOffset {offset}"):  # fmt: skip
            found(log_with([("TA", 0), ("TB", offset)]))
        assert found(log_with([("TB", LAST_OFFSET)])).queues == {B}


def test_a_queue_that_is_missing_is_told_unless_its_topic_was_deleted() -> None:
    for topics, told in [(None, lacking(SIZE, 2, DELETED)), (["TA", "TB"], lacking(SIZE, 2)),
                         (["TA"], [])]:  # fmt: skip
        position = after(4, a=QueueEnd(2, 3 * SIZE))
        assert found(in_turns(5), position, topics=topics).lacking == told
        assert found(in_turns(5), position, topics=topics, growing=True).lacking == []
    records = [("TB", 0), ("TB", 1), ("TB", 0), ("TA", 0), ("TB", 1)]
    new = found(log_with(records), after(4, a=QueueEnd(1, 4 * SIZE)))
    assert new.lacking == lacking(2 * SIZE, 1, DELETED)
    log = log_with([("TB", 50), ("TA", 0), ("TB", 3)])
    new = found(log, after(2, a=QueueEnd(1, 2 * SIZE)))
    assert (new.queues, new.lacking) == ({B}, [])


def test_a_log_that_is_being_written_may_end_in_part_or_in_a_fault() -> None:
    for settled, records in [(True, 3), (False, 2)]:
        new = found(in_turns(3), settled=settled)
        assert (new.ahead.records, new.ahead.end) == (records, records * SIZE)
    log = in_turns(5)
    raw = bytearray(log.segments[0])
    raw[3 * SIZE + 90] ^= 1  # in the body of the fourth record
    broken = log._replace(segments={0: bytes(raw)})
    with pytest.raises(StoreError, match="live records follow"):
        found(broken)
    ahead = found(broken, growing=True).ahead
    assert (ahead.end, ahead.fault) == (3 * SIZE, Fault.BODY_CRC)
