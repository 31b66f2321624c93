"""Which records of a log a conversion takes, and how long they become."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import StoreError
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.store_format.rewrite.changes import (
    Changes,
    Decision,
    Fate,
    Seen,
    is_shared,
    misfits,
    moved_order,
    retried_topics,
)
from reput.store_format.rewrite.selection import RecordSelector, Selection, Tally
from tests.logs import Message, encode, properties
from tests.store_format.damage.walked import reader

RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
V6 = bytes(16) + b"\0\0\0\1"


def walked(*messages: Message) -> tuple[Any, Any, list[int]]:
    """(window, rows, sizes) of a log of these messages."""
    raw, sizes = b"", []
    for message in messages:
        record = encode(message, len(raw))
        raw += record
        sizes.append(len(record))
    read, end = reader(np.frombuffer(raw, np.uint8)), len(raw)
    walk = Walk(read, end, RULES.records, NO_CHECKS, np.empty(end, np.uint8))
    (step,) = walk.steps(0, end)
    return step.window, step.rows, sizes


def selected(changes: Changes, *messages: Message) -> tuple[RecordSelector, Selection, list[int]]:
    selector = RecordSelector(changes, RULES)
    window, rows, sizes = walked(*messages)
    ((found, some),) = selector.select(window, rows)
    selector.count(window, found, some, np.zeros(0, np.bool_))
    return selector, found, sizes


def waiting(topic: str, **names: str) -> Message:
    return Message(topic, properties=properties(*names.items()))


def test_records_are_taken_by_their_queues_topic_and_a_queue_has_its_tally() -> None:
    changes = Changes(topics=("A",), starts=(("A", 0, 5),))
    messages = [
        Message("A", queue_offset=5), Message("B"), Message("A", queue_offset=4),
        Message("A", queue_offset=0, sys_flag=4), Message("A", 1),
    ]  # fmt: skip
    _, found, sizes = selected(changes, *messages)
    # a prepared one has no place
    assert found.sizes.tolist() == [sizes[0], 0, 0, sizes[3], sizes[4]]
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


@pytest.mark.parametrize(("message", "taken"), [
    (waiting("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="A"), True),
    (waiting("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="B"), False),
    (waiting("SCHEDULE_TOPIC_XXXX"), False),  # it names none
    (waiting("%RETRY%g", RETRY_TOPIC="A", REAL_TOPIC="B"), True),  # the last of them counts
    (waiting("%DLQ%g", DLQ_ORIGIN_TOPIC="B", REAL_TOPIC="A"), False),
    (waiting("%DLQ%g", DLQ_ORIGIN_TOPIC="B", RETRY_TOPIC="A"), True),
    (waiting("%DLQ%g", RETRY_TOPIC="B", DLQ_ORIGIN_TOPIC="A"), False),
    (waiting("A", REAL_TOPIC="B"), True),
    (waiting("RMQ_SYS_TRANS_OP_HALF_TOPIC", REAL_TOPIC="A"), False),
])  # fmt: skip
def test_a_record_that_waits_follows_the_topic_that_it_names(message: Message, taken: bool) -> None:
    _, found, sizes = selected(Changes(topics=("A",)), message)
    assert found.sizes.tolist() == [sizes[0] if taken else 0]


@pytest.mark.parametrize(("message", "changes", "grown"), [
    (Message("A"), Changes(renames=(("A", "b" * 128),)), 128),  # and a second byte of length
    (Message("A" * 128, version=2), Changes(renames=(("A" * 128, "b"),)), -128),
    (waiting("B", REAL_TOPIC="A", RETRY_TOPIC="A"), Changes(renames=(("A", "Ab"),)), 2),
    (Message("A"), Changes(store_host=V6), 12),
    (Message("A", sys_flag=0x20, store_host=V6), Changes(store_host=bytes(8)), -12),
    (Message("A", sys_flag=0x20, store_host=V6), Changes(store_host=V6), 0),
    (Message("A"), Changes(shifts=(("A", 3),)), 0),
])  # fmt: skip
def test_new_names_and_hosts_change_the_size(message, changes, grown) -> None:
    _, found, sizes = selected(changes, message)
    assert found.sizes.tolist() == [sizes[0] + grown]


def test_names_shifts_and_starts_are_of_the_old_name_and_too_long_properties_refused() -> None:
    text = properties(("REAL_TOPIC", "A"), ("x", "y" * (0x7FFF - 13 - 3)))
    assert len(text) == 0x7FFF
    messages = [Message("B"), Message("B", properties=text)]
    selected(Changes(renames=(("A", "C"),)), *messages)
    with pytest.raises(StoreError, match="physical offset 92: propertiesLength"):
        selected(Changes(renames=(("A", "CC"),)), *messages)
    assert Changes(topics=("A",)).unnamed == LEFT_OUT
    assert Changes(dropped=("A",)).unnamed == Changes(merges=True).unnamed == TAKEN
    changes = Changes(
        renames=(("A", "B"),), shifts=(("A", 8),), starts=(("A", 1, 500), ("B", 1, 7))
    )
    assert changes.of_queue("A", 1) == Decision(TAKEN, "B", 8, 500)
    assert changes.of_queue("A", 0) == Decision(TAKEN, "B", 8, 0)
    assert changes.of_queue("B", 1) == Decision(TAKEN, "", 0, 7)
    assert changes.of_name("A") == Decision(TAKEN, "B")
    assert (changes.renamed("A"), changes.renamed("C")) == ("B", "C")
    shared = [t for t in ("T", HALF, DELAYED, "rmq_sys_x", RETRY, DLQ, "%LMQ%x") if is_shared(t)]
    assert shared == [HALF, DELAYED, "rmq_sys_x", RETRY, DLQ, "%LMQ%x"]


# --- Which records a conversion takes, and under which names, by the names of topics.
HALF, OPS, TIMER = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer"
DELAYED, RETRY, DLQ = "SCHEDULE_TOPIC_XXXX", "%RETRY%group", "%DLQ%group"
LEFT_OUT, TAKEN, FOLLOWS = Fate


@pytest.mark.parametrize(("topic", "fate"), [
    (DELAYED, FOLLOWS), (RETRY, FOLLOWS), (DLQ, FOLLOWS), ("TBW102", FOLLOWS),
    (HALF, FOLLOWS), (TIMER, FOLLOWS),  # what still waits there
    (OPS, LEFT_OUT),
])  # fmt: skip
def test_a_shared_topics_records_follow_the_topic_that_they_name(topic: str, fate: Fate) -> None:
    for changes in (Changes(topics=("A",)), Changes(dropped=("A",)), Changes(merges=True)):
        assert changes.of_queue(topic).fate == fate
    assert Changes(topics=(topic,)).of_queue(topic).fate == TAKEN
    assert Changes(dropped=(topic,)).of_queue(topic).fate == LEFT_OUT
    assert Changes(renames=(("A", "B"),)).of_queue(topic).fate == TAKEN  # nothing is left out


# --- What a release does not know of the records of the release that wrote them.
V4, WIDE = bytes(8), bytes(20)
PLAIN = Seen("T", 0, False, False)


@pytest.mark.parametrize(("seen", "since", "before", "words"), [
    (PLAIN._replace(long=True), "5.1.0", "5.0.0", "over 127 bytes"),
    (PLAIN._replace(sys_flags=0x10), "4.6.0", "4.5.2", "hosts of IPv6"),
    (PLAIN._replace(sys_flags=0x20), "4.6.0", "4.5.2", "hosts of IPv6"),
    (PLAIN._replace(batch_queue=True), "5.0.0", "4.9.8", "batch queue"),
    (PLAIN._replace(sys_flags=0x80), "5.0.0", "4.9.8", "batches in one record"),
    (PLAIN._replace(topic="rmq_sys_wheel_timer"), "5.0.0", "4.9.8", "the timer"),
    (PLAIN._replace(topic="RMQ_SYS_TRANS_HALF_TOPIC"), "4.3.0", "4.2.0", "half messages"),
    (PLAIN._replace(topic="RMQ_SYS_TRANS_OP_HALF_TOPIC"), "4.3.0", "4.2.0", "half messages"),
])  # fmt: skip
def test_what_is_read_since_a_release(seen: Seen, since: str, before: str, words: str) -> None:
    assert misfits([seen], b"", profile(since)) == []
    (line,) = misfits([PLAIN, seen], b"", profile(before))
    assert line.startswith(f"topic {seen.topic!r}: ")
    assert words in line
    assert f"from {since} on" in line


def test_a_plain_record_fits_every_release_and_a_topic_has_a_line() -> None:
    flags = PLAIN._replace(sys_flags=0x1 | 0x2 | 0x8 | 0x300)
    assert misfits([PLAIN, flags], b"", profile("4.1.0")) == []
    seen = [Seen("t" * 300, 0x10, True, True), PLAIN, Seen("b", 0x80, False, True)]
    first, second = misfits(seen, b"", profile("4.1.0"))
    assert first.startswith(f"topic '{'t' * 127}': its name is over 127 bytes")
    assert second.startswith("topic 'b': has batches")


@pytest.mark.parametrize(("flags", "host", "fits"), [
    (0x20, V4, True),  # it gets another storeHost
    (0x10, V4, False), (0, WIDE, False), (0, V4, True),
])  # fmt: skip
def test_a_new_store_host_counts_and_not_the_old_one(flags: int, host: bytes, fits: bool) -> None:
    seen = [PLAIN._replace(sys_flags=flags)]
    assert (misfits(seen, host, profile("4.5.2")) == []) == fits
    assert misfits(seen, host, profile("4.6.0")) == []


# --- Pop's retry topics, and what a queue that is popped in order holds.
V1, V2 = "%RETRY%g_Orders", "%RETRY%g+Orders"


@pytest.mark.parametrize(("name", "topics", "groups", "consumed", "topic"), [
    (V1, {"Orders"}, {"g"}, [], "Orders"), (V1, {"Orders"}, set(), [], "Orders"),
    (V2, set(), set(), [], "Orders"),
    (V1, {"Orders"}, {"g_Orders"}, [], None),  # a group's own retries
    (V1, {"Orders"}, {"g", "g_Orders"}, [], None),
    (V1, {"Orders"}, {"g", "g_Orders"}, [("g", V1)], "Orders"), (V1, {"Other"}, {"g"}, [], None),
    (V1, {"Other"}, {"g"}, [("g_Orders", V1)], None),
    ("%RETRY%a_b_C", {"C", "b_C"}, {"a", "a_b"}, [], "b_C"),
    ("%RETRY%a_b_C", {"C", "b_C"}, {"a_b"}, [], "C"),
    ("%RETRY%a_b_C", {"C", "b_C"}, {"a", "a_b"}, [("a_b", "%RETRY%a_b_C")], "C"),
    ("%RETRY%g", {"g"}, {"g"}, [], None), ("%DLQ%g_Orders", {"Orders"}, {"g"}, [], None),
])  # fmt: skip
def test_the_topic_of_pop_s_retries(name, topics, groups, consumed, topic) -> None:
    assert dict(retried_topics([name, "Orders"], topics, groups, consumed)).get(name) == topic


@pytest.mark.parametrize("retry", [V1, V2])
def test_pop_s_retries_go_with_their_topic(retry: str) -> None:
    for changes, fate in (
        (Changes(topics=("Orders",)), TAKEN), (Changes(topics=("B",)), LEFT_OUT),
        (Changes(dropped=("Orders",)), LEFT_OUT), (Changes(dropped=("B",)), TAKEN),
        (Changes(merges=True), TAKEN),
    ):  # fmt: skip
        known = replace(changes, retries=((retry, "Orders"),))
        assert known.of_queue(retry) == Decision(FOLLOWS, retried=fate)
        assert known.of_name(retry) == Decision(fate)
    renamed = Changes(renames=(("Orders", "New"),), retries=((retry, "Orders"),))
    assert renamed.of_queue(retry) == Decision(TAKEN, retry.replace("Orders", "New"), retried=TAKEN)
    assert renamed.renamed(retry) == retry.replace("Orders", "New")


def test_an_order_info_keeps_what_was_acknowledged_of_each_message() -> None:
    info = {
        "popTime": 5, "i": 9, "o": [10, 1, 2, 5], "cm": 0b0110, "ot": {"12": 77, "15": 78},
        "oc": {"11": 3},
    }  # fmt: skip
    new = {10: 40, 11: None, 12: 20, 15: 21}
    assert moved_order(info, new.__getitem__) == {
        "popTime": 5, "i": 9, "o": [20, 1, 20], "cm": 0b001, "ot": {"20": 77, "21": 78}, "oc": {},
    }  # fmt: skip
    assert moved_order(info, lambda _: None) is None
    assert moved_order({"o": [7]}, lambda offset: offset + 1) == {"o": [8], "cm": 0}
