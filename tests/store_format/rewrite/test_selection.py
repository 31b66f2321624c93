"""Which records of a log a conversion takes, and how long they become."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import StoreError
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import RecordSelector, Selection, Tally
from tests.logs import Message, encode, properties

RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
V6 = bytes(16) + b"\0\0\0\1"


def walked(*messages: Message) -> tuple[Any, Any, list[int]]:
    """(window, rows, sizes) of a log of these messages."""
    raw, sizes = b"", []
    for message in messages:
        record = encode(message, len(raw))
        raw += record
        sizes.append(len(record))
    log = np.frombuffer(raw, np.uint8)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = log[at : at + len(buffer)]

    (step,) = Walk(read, len(log), RULES.records, NO_CHECKS, np.empty(len(log), np.uint8)).steps(
        0, len(log)
    )
    return step.window, step.rows, sizes


def selected(changes: Changes, *messages: Message) -> tuple[RecordSelector, Selection, list[int]]:
    selector = RecordSelector(changes, RULES)
    window, rows, sizes = walked(*messages)
    ((found, some),) = selector.select(window, rows)
    selector.count(window, found, some, np.zeros(0, np.bool_))
    return selector, found, sizes


def waiting(topic: str, **names: str) -> Message:
    return Message(topic, properties=properties(*names.items()))


def test_records_are_taken_by_their_queues_topic() -> None:
    changes = Changes(topics=("A",), starts=(("A", 0, 5),))
    messages = [
        Message("A", queue_offset=5), Message("B"), Message("A", queue_offset=4),
        Message("A", queue_offset=0, sys_flag=4), Message("A", 1),
    ]  # fmt: skip
    _, found, sizes = selected(changes, *messages)
    assert found.sizes.tolist() == [
        sizes[0],
        0,
        0,
        sizes[3],
        sizes[4],
    ]  # a prepared one has no place


@pytest.mark.parametrize(
    ("message", "taken"),
    [
        (waiting("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="A"), True),
        (waiting("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="B"), False),
        (waiting("SCHEDULE_TOPIC_XXXX"), False),  # it names none
        (waiting("%RETRY%g", RETRY_TOPIC="A", REAL_TOPIC="B"), True),  # the last of them counts
        (waiting("%DLQ%g", DLQ_ORIGIN_TOPIC="B", REAL_TOPIC="A"), False),
        (waiting("%DLQ%g", DLQ_ORIGIN_TOPIC="B", RETRY_TOPIC="A"), True),
        (waiting("%DLQ%g", RETRY_TOPIC="B", DLQ_ORIGIN_TOPIC="A"), False),
        (waiting("A", REAL_TOPIC="B"), True),
        (waiting("RMQ_SYS_TRANS_OP_HALF_TOPIC", REAL_TOPIC="A"), False),
    ],
)
def test_a_record_that_waits_follows_the_topic_that_it_names(message: Message, taken: bool) -> None:
    _, found, sizes = selected(Changes(topics=("A",)), message)
    assert found.sizes.tolist() == [sizes[0] if taken else 0]


@pytest.mark.parametrize(
    ("message", "changes", "grown"),
    [
        (Message("A"), Changes(renames=(("A", "Abc"),)), 2),
        (Message("A"), Changes(renames=(("A", "b" * 127),)), 126),
        (Message("A"), Changes(renames=(("A", "b" * 128),)), 128),  # and a second byte of length
        (Message("A" * 128, version=2), Changes(renames=(("A" * 128, "b"),)), -128),
        (waiting("B", REAL_TOPIC="A", RETRY_TOPIC="A"), Changes(renames=(("A", "Ab"),)), 2),
        (Message("A"), Changes(store_host=V6), 12),
        (Message("A", sys_flag=0x20, store_host=V6), Changes(store_host=bytes(8)), -12),
        (Message("A", sys_flag=0x20, store_host=V6), Changes(store_host=V6), 0),
        (Message("A"), Changes(shifts=(("A", 3),)), 0),
    ],
)
def test_new_names_and_hosts_change_the_size(
    message: Message, changes: Changes, grown: int
) -> None:
    _, found, sizes = selected(changes, message)
    assert found.sizes.tolist() == [sizes[0] + grown]


def test_properties_that_get_too_long_are_refused_with_their_place() -> None:
    text = properties(("REAL_TOPIC", "A"), ("x", "y" * (0x7FFF - 13 - 3)))
    assert len(text) == 0x7FFF
    messages = [Message("B"), Message("B", properties=text)]
    selected(Changes(renames=(("A", "C"),)), *messages)
    with pytest.raises(StoreError, match="physical offset 92: propertiesLength"):
        selected(Changes(renames=(("A", "CC"),)), *messages)


def test_a_queues_tally() -> None:
    messages = [
        Message("A", queue_offset=7), Message("A", queue_offset=9, sys_flag=1), Message("B"),
        Message("A", queue_offset=1, sys_flag=4),
    ]  # fmt: skip
    selector, _, sizes = selected(Changes(dropped=("B",)), *messages)
    tallies = selector.tallies()
    taken = sizes[0] + sizes[1] + sizes[3]
    counted = Tally(3, 3, taken, 2, 2, 7, 9, 5, first=0)
    assert tallies["A", 0] == counted
    zero = sizes[0] + sizes[1]
    assert not tallies["B", 0].begins_again
    assert tallies["B", 0] == Tally(
        1, 0, 0, 1, 0, 0, 0, first=zero, zeros=1, first_zero=zero, last_zero=zero
    )
    later = Tally(1, 0, 0, 1, 0, 0, 0, first=500, zeros=1, first_zero=500, last_zero=500)
    both = Tally(4, 3, taken, 3, 2, 0, 9, 5, first=0, zeros=1, first_zero=500, last_zero=500)
    assert tallies["A", 0].plus(later) == both
    assert both.begins_again
