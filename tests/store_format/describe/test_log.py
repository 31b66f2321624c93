"""A segment of the CommitLog item by item: its records, its end, and where their chain breaks."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from reput.store_format.describe.log import (
    ShownContent,
    describe_body,
    describe_properties,
    describe_record,
    describe_segment,
    fields_at,
)
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.layouts import BLANK
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.damaged import START, damaged, messages
from tests.logs import Message, build_log, encode, properties
from tests.reference.javatext import hash_code
from tests.store_format.damage.walked import reader

SEGMENT = 1024  # nine records of `messages` and a BLANK
NOTHING = ShownContent()
RULES = scan_rules(profile("5.3.3"), Settings(), ())


def items(
    log: dict[int, Any], start: int = 0, first: int = 0, shown: ShownContent = NOTHING
) -> list[dict[str, Any]]:
    raw = np.frombuffer(bytes(log[start]), np.uint8)
    return list(describe_segment(reader(raw, start), start, start + len(raw), first, RULES, shown))


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [item["kind"] for item in found]


def broken(change: Callable[[list[Message]], list[Message]] = list) -> list[dict[str, Any]]:
    """The records after a break at record 3 of 7."""
    log = damaged(change(messages(7, queues=1)), SEGMENT)
    log.put(log.places[3] + 4, b"\0\0\0\1")
    return items(log.segments)


def test_a_segment_is_described_from_a_place_to_its_blank_or_zeros() -> None:
    log = damaged(messages(12), SEGMENT)
    first, second = (kinds(items(log.segments, start, start)) for start in (0, SEGMENT))
    count = sum(place < SEGMENT for place in log.places)
    assert first == ["record"] * count + ["blank"]
    assert second == ["record"] * (12 - count) + ["zeros"]
    blank = items(log.segments)[-1]
    assert blank["at"] + blank["size"] == SEGMENT
    assert blank["restIsZero"]
    log = damaged(messages(12), SEGMENT)
    at = items(log.segments)[-1]["at"]
    log.put(at, struct.pack(">i", SEGMENT - at - 1))
    log.put(SEGMENT - 1, b"x")
    *_, blank, damage = items(log.segments)
    assert (blank["kind"], blank["restIsZero"]) == ("blank", False)
    assert (damage["at"], damage["field"], damage["value"]) == (at, "size", SEGMENT - at - 1)
    log = damaged(messages(5), SEGMENT)
    for first, number in ((log.places[2], 2), (log.places[2] + 1, 3), (log.places[4], 4)):
        *records, zeros = items(log.segments, 0, first)
        assert [item["physicalOffset"] for item in records] == log.places[number:]
        assert zeros["kind"] == "zeros"
    raw = bytearray(SEGMENT)
    record = encode(Message(), 300)
    raw[300 : 300 + len(record)] = record
    damage, skipped, found, _ = items({0: bytes(raw)})
    assert (damage["fault"], skipped["bytes"], found["at"]) == ("ZEROS", 300, 300)


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


def test_it_goes_on_behind_a_break_and_marks_what_it_finds() -> None:
    found = broken()
    assert kinds(found) == ["record"] * 3 + ["damage", "skipped"] + ["record"] * 3 + ["zeros"]
    damage, skipped = found[3:5]
    assert (damage["fault"], damage["field"], damage["value"]) == ("BAD_MAGIC", "magic", 1)
    assert damage["at"] + skipped["bytes"] == found[5]["at"]
    assert [item.get("afterBreak") for item in found if item["kind"] == "record"] == [
        None, None, None, True, True, True]  # fmt: skip
    assert all(item["doubts"] == [] for item in found[5:8])

    def stale(made: list[Message]) -> list[Message]:
        live, after = START + 2, START + 5  # record 2, before the break, is the last live one
        return [*made[:4], Message(queue_offset=2, store_timestamp=after),
            Message(queue_offset=4, store_timestamp=START + 1),
            Message(queue_offset=3, store_timestamp=live),
            Message(queue_offset=0, store_timestamp=after, sys_flag=0xC),
            Message(queue_offset=99, store_timestamp=after, sys_flag=0xC),
            Message(queue_offset=4, store_timestamp=after)]  # fmt: skip

    records = [item for item in broken(stale) if item["kind"] == "record"]
    doubts = [[text.split()[0] for text in item["doubts"]] for item in records[3:]]
    assert doubts == [["queueOffset"], ["storeTimestamp"], [], [], [], []]


# --- One record for a reader: what its bytes are shown as.
AT = 4096  # the record's place in the log, and the start of its segment


def walked(message: Message, release: str = "5.3.3") -> tuple[Any, Any, Any]:
    """(window, row, rules) of a record at the start of its segment."""
    raw = np.frombuffer(encode(message, AT), np.uint8)
    rules = scan_rules(profile(release), Settings(), ())
    walk = Walk(
        reader(raw, AT), AT + len(raw), rules.records, NO_CHECKS, np.empty(len(raw), np.uint8)
    )
    (step,) = walk.steps(AT, AT + len(raw))
    return step.window, step.rows[0], rules


def described(message: Message, release: str = "5.3.3") -> dict[str, Any]:
    window, row, rules = walked(message, release)
    return describe_record(window, row, AT, rules)


def test_hosts_transactions_and_long_topics_are_as_the_record_has_them() -> None:
    raw = np.frombuffer(b"xx" + struct.pack(">iI", -5, 0xCBD43194), np.uint8)
    assert fields_at(raw, BLANK, 2) == {"size": -5, "magic": 0xCBD43194 - (1 << 32)}
    for sys_flag, transaction in [(0, "none"), (3, "none"), (4, "prepared"), (12, "rollback")]:
        assert described(Message(sys_flag=sys_flag))["transaction"] == transaction
    v6 = bytes(15) + b"\1" + struct.pack(">i", 80)
    born = described(Message(sys_flag=0x10, born_host=v6))
    assert (born["bornHost"], born["storeHost"]) == ("[::1]:80", "127.0.0.1:10911")
    stored = described(Message(sys_flag=0x20, store_host=v6))
    assert (stored["bornHost"], stored["storeHost"]) == ("127.0.0.1:10911", "[::1]:80")
    assert described(Message(sys_flag=0x30), "4.5.2")["storeHost"] == "127.0.0.1:10911"
    shown = described(Message(topic="t" * 200, version=2))
    assert (shown["version"], shown["topic"], shown["size"]) == (2, "t" * 200, 92 + 200)


def test_a_body_is_text_or_hex_and_properties_as_the_release_reads_them() -> None:
    for piece, length, shown in [(b"", 0, {"body": ""}),
        ("h\u00e9".encode(), 3, {"body": "h\u00e9"}), (b"\xff\x00", 2, {"bodyHex": "ff00"}),
        (b"ab", 9, {"body": "ab", "bodyShown": 2})]:  # fmt: skip
        assert describe_body(piece, length) == shown
    for raw, since_4_9_1, before in [
        (b"a\1b\2c\1d", ({"a": "b", "c": "d"}, []), ({"a": "b", "c": "d"}, [])),
        (b"a\1b\2a\1c\2", ({"a": "c"}, []), ({"a": "c"}, [])),
        (b"a\1b\1\2", ({"a": "b\1"}, []), ({"a": "b"}, [])),
        (b"a\1b\1c\2", ({"a": "b\1c"}, []), ({}, ["a\1b\1c"])),
        (b"\1b\2", ({}, ["\1b"]), ({"": "b"}, [])),
        (b"a\1\2b\2\2", ({}, ["a\1", "b"]), ({}, ["a\1", "b"])),
        (b"", ({}, []), ({}, [])),
    ]:
        window, row, _ = walked(Message(properties=raw))
        for split, (good, bad) in ((False, since_4_9_1), (True, before)):
            shown = describe_properties(window, row, split)
            assert (shown["properties"], shown.get("notProperties", [])) == (good, bad)
