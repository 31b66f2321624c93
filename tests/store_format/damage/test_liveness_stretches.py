"""Looks ahead behind damage: the stretch of sound records there, and where the next one begins."""

from dataclasses import replace

import pytest

from reput.store_format.damage.evidence import QueueSpan
from reput.store_format.damage.liveness import SoundStretch, Stretches
from tests.logs.batches import batch
from tests.logs.encoder import Message
from tests.store_format.damage.walked import SCAN_RULES, reader, walked

START = 1_700_000_000_000
SIZE = 92 + 4


def log_of(count: int = 8) -> list[Message]:
    return [
        Message(queue_id=n % 2, queue_offset=n // 2, body=b"body", store_timestamp=START + n)
        for n in range(count)
    ]


def looked(
    log: list[Message], bad: tuple[int, ...] = (), at: int = 0, newer: int | None = None
) -> SoundStretch:
    """From record `at` on; the records of numbers `bad` have no magic number."""
    raw, _ = walked(*log)
    for number in bad:
        raw[number * SIZE + 4] = 0
    return Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(at * SIZE, newer)


def test_a_stretch_goes_on_to_where_nothing_is_written() -> None:
    found = looked(log_of(), at=2)
    assert found.spans == {("T", 0): QueueSpan(1, 3), ("T", 1): QueueSpan(1, 3)}
    assert (found.time, found.end, found.largest) == (START + 7, 8 * SIZE, SIZE)
    assert (found.behind, found.firsts) == (-1, {})


def test_behind_a_break_the_next_stretch_begins() -> None:
    found = looked(log_of(), bad=(3, 4))
    assert found.spans == {("T", 0): QueueSpan(0, 1), ("T", 1): QueueSpan(0, 0)}
    assert (found.time, found.end) == (START + 2, 3 * SIZE)
    assert (found.behind, found.behind_time) == (5 * SIZE, START + 5)
    assert found.firsts == {("T", 0): 3, ("T", 1): 2}


def test_a_stretch_that_is_older_ends_before_the_first_record_that_is_not() -> None:
    found = looked(log_of(), newer=START + 3)
    assert (found.time, found.end, found.behind) == (START + 2, 3 * SIZE, 3 * SIZE)
    assert (found.behind_time, found.firsts) == (START + 3, {("T", 0): 2, ("T", 1): 1})
    assert looked(log_of(), newer=START + 8).behind == -1


def test_half_messages_and_rolled_back_ones_show_no_queue() -> None:
    log = log_of(4)
    log[1], log[2] = replace(log[1], sys_flag=4), replace(log[2], sys_flag=12)
    log[3] = replace(log[3], sys_flag=8)
    found = looked(log)
    assert found.spans == {("T", 0): QueueSpan(0, 0), ("T", 1): QueueSpan(1, 1)}
    assert found.end == 4 * SIZE


def test_an_offset_that_does_not_go_on_is_doubted() -> None:
    log = [replace(m, queue_id=0, queue_offset=n) for n, m in enumerate(log_of(4))]
    log[3] = replace(log[3], queue_offset=70)
    assert looked(log).spans == {("T", 0): QueueSpan(0, 2, 70, 1)}


@pytest.mark.parametrize(("count", "last"), [(257, 256), (513, 512), (600, 599)])
def test_of_many_records_both_ends_are_read(count: int, last: int) -> None:
    log = [replace(m, queue_id=0, queue_offset=n) for n, m in enumerate(log_of(count))]
    raw, _ = walked(*log, segment=1 << 16)
    spans = Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(0, None).spans
    assert spans == {("T", 0): QueueSpan(0, last)}


def test_a_record_that_reaches_over_its_end_gives_way_to_the_one_inside() -> None:
    """No CRC covers the second record, whose properties go on into bytes of another time."""
    raw, rows = walked(Message(body=b"body"), Message(queue_offset=1, properties=b"p" * 300))
    inside, _ = walked(Message(queue_offset=9, body=b"body"), base=SIZE + 150)
    raw[SIZE + 150 : 2 * SIZE + 150] = inside[:SIZE]
    found = Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(0, None)
    assert found.spans == {("T", 0): QueueSpan(0, 1)}
    assert (found.end, found.behind, found.firsts) == (SIZE + 150, SIZE + 150, {("T", 0): 9})
    assert int(rows["size"][1]) == 92 + 300


def test_a_batch_takes_as_many_queue_offsets_as_it_has_messages() -> None:
    log = [batch(5, 4), batch(9, 2), batch(70, 3), batch(14, 7)]
    raw, rows = walked(*log)
    raw[int(rows["at"][3]) + 4] = 0
    found = Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(0, None)
    assert found.spans == {("Batch", 0): QueueSpan(5, 10, 72, 3, True)}
    confirmed, _ = walked(*log[:3], batch(73, 1))
    found = Stretches(reader(confirmed), 0, len(confirmed), SCAN_RULES).look(0, None)
    assert found.spans == {("Batch", 0): QueueSpan(5, 73, batch=True)}
