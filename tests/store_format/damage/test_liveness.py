"""Which records behind damage are live: by time, by their queues, and by what the log had begun."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reput.store_format.damage.evidence import NextOffset, QueueSpan
from reput.store_format.damage.liveness import Before, Live, SoundStretch, Stretches
from reput.store_format.damage.queue_ends import QueueEnds
from reput.store_format.damage.resync import Prover
from reput.store_format.dispatch.scan import Buffers, End, Outputs
from tests.logs.batches import batch
from tests.logs.encoder import Message
from tests.store_format.damage.walked import RULES, SCAN_RULES, reader, walked

START = 1_700_000_000_000
DAY = 86_400_000
SIZE = 92
Change = Callable[[int, Message], Message]


def nothing_known(topic: str, queue: int) -> NextOffset | None:
    return None


def known(last: int, lost: int = 0) -> Any:
    return lambda topic, queue: NextOffset(last, lost) if queue == 0 else None


def stale(
    change: Change, before: Before, live: int = 3, begins: int = 4, bad: tuple[int, ...] = ()
) -> int:
    """Of 8 records, `live` are live; how many of those from number `begins` on are stale.

    All between are zeros; those of numbers `bad` have no magic number.
    """
    log = [change(n, Message(queue_offset=n, store_timestamp=START + n)) for n in range(8)]
    raw, rows = walked(*log)
    raw[live * SIZE : begins * SIZE] = 0
    for number in bad:
        raw[number * SIZE + 4] = 0
    prover = Prover(reader(raw), 0, len(raw), RULES)
    stretches = Stretches(reader(raw), 0, len(raw), SCAN_RULES)
    found = Live(0, before, QueueEnds(Buffers(len(raw))), prover, stretches)
    if live:
        found.took(rows[:live])
    assert found.end == live * SIZE
    return found.stale(raw, rows[begins:])


def older(ms: int, start: int = 4, stop: int = 8) -> Change:
    return lambda n, m: (
        replace(m, store_timestamp=m.store_timestamp - ms) if start <= n < stop else m
    )


def as_it_is(n: int, message: Message) -> Message:
    return message


def test_records_are_stale_by_their_queue_their_time_or_what_the_log_had_begun() -> None:
    for of_queue, count in [(nothing_known, 0),
        (known(2), 0),  # one message is missing, and there is room for it
        (known(4), 4),  # its queue has queueOffset 4
        (known(9), 4)]:  # fmt: skip
        assert stale(as_it_is, Before(None, of_queue)) == count
    # Up to the first one that is as young: record 2 was stored at START + 2.
    for ms, count in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (6, 4), (DAY, 4)]:
        assert stale(older(ms), Before(None, nothing_known)) == count
    for lost, count in [(3 * 91, 0), (3 * 91 - 1, 8)]:
        change: Change = lambda n, m: replace(m, queue_offset=n + 4)  # noqa: E731
        assert stale(change, Before(None, known(0, lost)), live=0, begins=0) == count
    for is_last, count in ((True, 4), (False, 0)):
        before = Before(None, nothing_known, is_last)
        assert stale(older(DAY), before) == count
    # Three records are lost, more than the rest of one that the live log had begun.
    change = older(DAY, start=3)
    assert stale(change, Before(None, known(2)), begins=6) == 0
    assert stale(change, Before(None, known(2)), begins=4) == 4  # perhaps just the log's end
    assert stale(change, Before(None, known(6)), begins=6) == 2  # they repeat it
    # No record can be lost right before a segment's first one, and none is stale there.
    assert stale(as_it_is, Before(START, known(-1)), live=0, begins=0) == 0
    assert stale(older(DAY, 0), Before(START, known(-1)), live=0, begins=0) == 0
    assert stale(older(DAY, 0), Before(START, known(5)), live=0, begins=0) == 8
    # Its own queue goes on with 6, as if records 4 and 5 had never been.
    change: Change = lambda n, m: replace(  # noqa: E731
        older(DAY, 4, 6)(n, m), queue_offset=n if n < 4 else {4: 0, 5: 1}.get(n, n - 2)
    )
    assert stale(change, Before(None, known(2)), begins=4, bad=()) == 2
    # Record 2's storeTimestamp is wrong: its bornTimestamp, record 1 and record 4 agree.

    def change(born: int) -> Change:
        return lambda n, m: (
            replace(m, store_timestamp=START + DAY, born_timestamp=born) if n == 2 else m
        )

    assert stale(change(START), Before(None, nothing_known)) == 0
    assert stale(change(START + DAY), Before(None, nothing_known)) == 4


@pytest.mark.parametrize(("said", "is_stale"), [(6, True), (7, False)])
def test_a_batch_repeats_up_to_the_last_of_its_queues_messages(said: int, is_stale: bool) -> None:
    """Record 2 of 8 batches is the last live one; record 4 says its queueOffset goes on from it."""
    change: Change = lambda n, m: batch(  # noqa: E731
        n if n < 3 else n + said - 4, 5 if n == 2 else 1, store_timestamp=m.store_timestamp
    )
    sizes = {len(change(n, Message()).body) for n in (0, 2)}
    assert sizes == {22, 5 * 22}
    log = [change(n, Message(store_timestamp=START + n)) for n in range(8)]
    raw, rows = walked(*log)
    prover = Prover(reader(raw), 0, len(raw), RULES)
    buffers = Buffers(len(raw))
    outputs = Outputs(SCAN_RULES, buffers, End())
    stretches = Stretches(reader(raw), 0, len(raw), SCAN_RULES)
    found = Live(0, Before(None, nothing_known), QueueEnds(buffers), prover, stretches)
    assert list(outputs.dispatch(raw, rows[:3])) == []
    found.took(rows[:3])
    raw[int(rows["at"][3]) : int(rows["at"][4])] = 0
    assert found.stale(raw, rows[4:]) == 4 * is_stale


# --- Looks ahead behind damage: the stretch of sound records there, and where the next one begins.
STRETCHES_SIZE = 92 + 4


def log_of(count: int = 8) -> list[Message]:
    return [Message(queue_id=n % 2, queue_offset=n // 2, body=b"body", store_timestamp=START + n)
        for n in range(count)]  # fmt: skip


def looked(
    log: list[Message], bad: tuple[int, ...] = (), at: int = 0, newer: int | None = None
) -> SoundStretch:
    """From record `at` on; the records of numbers `bad` have no magic number."""
    raw, _ = walked(*log)
    for number in bad:
        raw[number * STRETCHES_SIZE + 4] = 0
    return Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(at * STRETCHES_SIZE, newer)


def test_a_stretch_goes_on_to_a_break_and_shows_its_queues() -> None:
    found = looked(log_of(), at=2)
    assert found.spans == {("T", 0): QueueSpan(1, 3), ("T", 1): QueueSpan(1, 3)}
    assert (found.time, found.end, found.largest) == (START + 7, 8 * STRETCHES_SIZE, STRETCHES_SIZE)
    assert (found.behind, found.firsts) == (-1, {})
    found = looked(log_of(), bad=(3, 4))
    assert found.spans == {("T", 0): QueueSpan(0, 1), ("T", 1): QueueSpan(0, 0)}
    assert (found.time, found.end) == (START + 2, 3 * STRETCHES_SIZE)
    assert (found.behind, found.behind_time) == (5 * STRETCHES_SIZE, START + 5)
    assert found.firsts == {("T", 0): 3, ("T", 1): 2}
    found = looked(log_of(), newer=START + 3)
    assert (found.time, found.end, found.behind) == (START + 2, 3 * STRETCHES_SIZE,
        3 * STRETCHES_SIZE)  # fmt: skip
    assert (found.behind_time, found.firsts) == (START + 3, {("T", 0): 2, ("T", 1): 1})
    assert looked(log_of(), newer=START + 8).behind == -1
    log = log_of(4)
    log[1], log[2] = replace(log[1], sys_flag=4), replace(log[2], sys_flag=12)
    log[3] = replace(log[3], sys_flag=8)
    found = looked(log)
    assert found.spans == {("T", 0): QueueSpan(0, 0), ("T", 1): QueueSpan(1, 1)}
    assert found.end == 4 * STRETCHES_SIZE
    log = [replace(m, queue_id=0, queue_offset=n) for n, m in enumerate(log_of(4))]
    log[3] = replace(log[3], queue_offset=70)
    assert looked(log).spans == {("T", 0): QueueSpan(0, 2, 70, 1)}
    for count, last in [(257, 256), (513, 512), (600, 599)]:
        log = [replace(m, queue_id=0, queue_offset=n) for n, m in enumerate(log_of(count))]
        raw, _ = walked(*log, segment=1 << 16)
        spans = Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(0, None).spans
        assert spans == {("T", 0): QueueSpan(0, last)}
    # No CRC covers the second record, whose properties go on into bytes of another time.
    raw, rows = walked(Message(body=b"body"), Message(queue_offset=1, properties=b"p" * 300))
    inside, _ = walked(Message(queue_offset=9, body=b"body"), base=STRETCHES_SIZE + 150)
    raw[STRETCHES_SIZE + 150 : 2 * STRETCHES_SIZE + 150] = inside[:STRETCHES_SIZE]
    found = Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(0, None)
    assert found.spans == {("T", 0): QueueSpan(0, 1)}
    assert (found.end, found.behind, found.firsts) == (STRETCHES_SIZE + 150, STRETCHES_SIZE + 150,
        {("T", 0): 9})  # fmt: skip
    assert int(rows["size"][1]) == 92 + 300
    log = [batch(5, 4), batch(9, 2), batch(70, 3), batch(14, 7)]
    raw, rows = walked(*log)
    raw[int(rows["at"][3]) + 4] = 0
    found = Stretches(reader(raw), 0, len(raw), SCAN_RULES).look(0, None)
    assert found.spans == {("Batch", 0): QueueSpan(5, 10, 72, 3, True)}
    confirmed, _ = walked(*log[:3], batch(73, 1))
    found = Stretches(reader(confirmed), 0, len(confirmed), SCAN_RULES).look(0, None)
    assert found.spans == {("Batch", 0): QueueSpan(5, 73, batch=True)}
