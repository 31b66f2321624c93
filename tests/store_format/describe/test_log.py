"""A segment of the CommitLog item by item: its records, its end, and where their chain breaks."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from reput.store_format.describe.log import ShownContent, describe_segment
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.damaged import START, damaged, messages
from tests.logs import Message, build_log, encode, properties
from tests.reference.javatext import hash_code

SEGMENT = 1024  # nine records of `messages` and a BLANK
NOTHING = ShownContent()
RULES = scan_rules(profile("5.3.3"), Settings(), ())


def items(
    log: dict[int, Any], start: int = 0, first: int = 0, shown: ShownContent = NOTHING
) -> list[dict[str, Any]]:
    raw = np.frombuffer(bytes(log[start]), np.uint8)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = raw[at - start : at - start + len(buffer)]

    return list(describe_segment(read, start, start + len(raw), first, RULES, shown))


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [item["kind"] for item in found]


def broken(change: Callable[[list[Message]], list[Message]] = list) -> list[dict[str, Any]]:
    """The records after a break at record 3 of 7."""
    log = damaged(change(messages(7, queues=1)), SEGMENT)
    log.put(log.places[3] + 4, b"\0\0\0\1")
    return items(log.segments)


def test_a_segment_ends_with_a_blank_and_the_log_with_zeros() -> None:
    log = damaged(messages(12), SEGMENT)
    first, second = (kinds(items(log.segments, start, start)) for start in (0, SEGMENT))
    count = sum(place < SEGMENT for place in log.places)
    assert first == ["record"] * count + ["blank"]
    assert second == ["record"] * (12 - count) + ["zeros"]
    blank = items(log.segments)[-1]
    assert blank["at"] + blank["size"] == SEGMENT
    assert blank["restIsZero"]


def test_a_blank_of_another_size_is_damage_and_stale_bytes_behind_it_are_told() -> None:
    log = damaged(messages(12), SEGMENT)
    at = items(log.segments)[-1]["at"]
    log.put(at, struct.pack(">i", SEGMENT - at - 1))
    log.put(SEGMENT - 1, b"x")
    *_, blank, damage = items(log.segments)
    assert (blank["kind"], blank["restIsZero"]) == ("blank", False)
    assert (damage["at"], damage["field"], damage["value"]) == (at, "size", SEGMENT - at - 1)


def test_a_record_has_what_is_derived_from_it() -> None:
    text = properties(("KEYS", "a b"), ("TAGS", "x"))
    sent = Message(body=b"hello", properties=text, queue_offset=4)
    prepared = Message(sys_flag=4, properties=text)
    shown, half, _ = items(build_log([sent, prepared], SEGMENT), shown=ShownContent(True, True))
    assert (shown["tagsCode"], shown["queueOffset"]) == (hash_code("x"), 4)
    assert shown["keyHashes"] == [abs(hash_code("T#a")), abs(hash_code("T#b"))]
    assert (shown["body"], shown["properties"]) == ("hello", {"KEYS": "a b", "TAGS": "x"})
    assert (half["tagsCode"], half["keyHashes"]) == (None, shown["keyHashes"])
    assert "body" not in items(build_log([sent], SEGMENT))[0]


def test_the_description_begins_at_the_first_record_from_a_place_on() -> None:
    log = damaged(messages(5), SEGMENT)
    for first, number in ((log.places[2], 2), (log.places[2] + 1, 3), (log.places[4], 4)):
        *records, zeros = items(log.segments, 0, first)
        assert [item["physicalOffset"] for item in records] == log.places[number:]
        assert zeros["kind"] == "zeros"


def test_it_goes_on_behind_a_break_and_marks_what_it_finds() -> None:
    found = broken()
    assert kinds(found) == ["record"] * 3 + ["damage", "skipped"] + ["record"] * 3 + ["zeros"]
    damage, skipped = found[3:5]
    assert (damage["fault"], damage["field"], damage["value"]) == ("BAD_MAGIC", "magic", 1)
    assert damage["at"] + skipped["bytes"] == found[5]["at"]
    assert [item.get("afterBreak") for item in found if item["kind"] == "record"] == [
        None, None, None, True, True, True,
    ]  # fmt: skip
    assert all(item["doubts"] == [] for item in found[5:8])


def test_an_earlier_time_or_a_lower_queue_offset_behind_a_break_is_doubted() -> None:
    def stale(made: list[Message]) -> list[Message]:
        live, after = START + 2, START + 5  # record 2, before the break, is the last live one
        return [
            *made[:4],
            Message(queue_offset=2, store_timestamp=after),
            Message(queue_offset=4, store_timestamp=START + 1),
            Message(queue_offset=3, store_timestamp=live),
            Message(queue_offset=0, store_timestamp=after, sys_flag=0xC),
            Message(queue_offset=99, store_timestamp=after, sys_flag=0xC),
            Message(queue_offset=4, store_timestamp=after),
        ]

    records = [item for item in broken(stale) if item["kind"] == "record"]
    doubts = [[text.split()[0] for text in item["doubts"]] for item in records[3:]]
    assert doubts == [["queueOffset"], ["storeTimestamp"], [], [], [], []]


def test_a_record_may_begin_with_the_last_zeros_of_a_gap() -> None:
    raw = bytearray(SEGMENT)
    record = encode(Message(), 300)
    raw[300 : 300 + len(record)] = record
    damage, skipped, found, _ = items({0: bytes(raw)})
    assert (damage["fault"], skipped["bytes"], found["at"]) == ("ZEROS", 300, 300)
