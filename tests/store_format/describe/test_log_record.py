"""One record for a reader: what its bytes are shown as."""

import struct
from typing import Any

import numpy as np
import pytest

from reput.store_format.describe.log import (
    describe_body,
    describe_properties,
    describe_record,
    fields_at,
)
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.layouts import BLANK
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs import Message, encode, properties

AT = 4096  # the record's place in the log, and the start of its segment


def walked(message: Message, release: str = "5.3.3") -> tuple[Any, Any, Any]:
    """(window, row, rules) of a record at the start of its segment."""
    raw = np.frombuffer(encode(message, AT), np.uint8)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = raw[at - AT : at - AT + len(buffer)]

    rules = scan_rules(profile(release), Settings(), ())
    walk = Walk(read, AT + len(raw), rules.records, NO_CHECKS, np.empty(len(raw), np.uint8))
    (step,) = walk.steps(AT, AT + len(raw))
    return step.window, step.rows[0], rules


def described(message: Message, release: str = "5.3.3") -> dict[str, Any]:
    window, row, rules = walked(message, release)
    return describe_record(window, row, AT, rules)


def test_fields_are_those_of_a_layout_at_a_place() -> None:
    raw = np.frombuffer(b"xx" + struct.pack(">iI", -5, 0xCBD43194), np.uint8)
    assert fields_at(raw, BLANK, 2) == {"size": -5, "magic": 0xCBD43194 - (1 << 32)}


def test_every_field_is_the_records_own() -> None:
    message = Message(
        topic="T\u00e9", queue_id=-1, queue_offset=7, body=b"abc", sys_flag=8, flag=-2,
        store_timestamp=5, born_timestamp=4, reconsume_times=3, prepared_transaction_offset=99,
        properties=properties(("a", "b")),
    )  # fmt: skip
    shown = described(message)
    wanted = {
        "kind": "record", "at": 0, "physicalOffset": AT, "size": 91 + 3 + 3 + 4, "version": 1,
        "topic": "T\u00e9", "queueId": -1, "queueOffset": 7, "transaction": "commit",
        "storeTimestamp": 5, "bornTimestamp": 4, "bodyLength": 3, "bodyCRC": 0x352441C2,
        "propertiesLength": 4, "flag": -2, "sysFlag": 8, "bornHost": "127.0.0.1:10911",
        "storeHost": "127.0.0.1:10911", "reconsumeTimes": 3, "preparedTransactionOffset": 99,
    }  # fmt: skip
    assert shown == wanted


@pytest.mark.parametrize(
    ("sys_flag", "transaction"), [(0, "none"), (3, "none"), (4, "prepared"), (12, "rollback")]
)
def test_a_transactions_kind_is_two_bits(sys_flag: int, transaction: str) -> None:
    assert described(Message(sys_flag=sys_flag))["transaction"] == transaction


def test_hosts_are_as_long_as_their_flags_say_from_4_6_0_on() -> None:
    v6 = bytes(15) + b"\1" + struct.pack(">i", 80)
    born = described(Message(sys_flag=0x10, born_host=v6))
    assert (born["bornHost"], born["storeHost"]) == ("[::1]:80", "127.0.0.1:10911")
    stored = described(Message(sys_flag=0x20, store_host=v6))
    assert (stored["bornHost"], stored["storeHost"]) == ("127.0.0.1:10911", "[::1]:80")
    assert described(Message(sys_flag=0x30), "4.5.2")["storeHost"] == "127.0.0.1:10911"


def test_a_long_topic_makes_version_2() -> None:
    shown = described(Message(topic="t" * 200, version=2))
    assert (shown["version"], shown["topic"], shown["size"]) == (2, "t" * 200, 92 + 200)


@pytest.mark.parametrize(
    ("piece", "length", "shown"),
    [
        (b"", 0, {"body": ""}),
        ("h\u00e9".encode(), 3, {"body": "h\u00e9"}),
        (b"\xff\x00", 2, {"bodyHex": "ff00"}),
        (b"ab", 9, {"body": "ab", "bodyShown": 2}),
    ],
)
def test_a_body_is_text_or_else_hex(piece: bytes, length: int, shown: dict[str, Any]) -> None:
    assert describe_body(piece, length) == shown


@pytest.mark.parametrize(
    ("raw", "since_4_9_1", "before"),
    [
        (b"a\1b\2c\1d", ({"a": "b", "c": "d"}, []), ({"a": "b", "c": "d"}, [])),
        (b"a\1b\2a\1c\2", ({"a": "c"}, []), ({"a": "c"}, [])),
        (b"a\1b\1\2", ({"a": "b\1"}, []), ({"a": "b"}, [])),
        (b"a\1b\1c\2", ({"a": "b\1c"}, []), ({}, ["a\1b\1c"])),
        (b"\1b\2", ({}, ["\1b"]), ({"": "b"}, [])),
        (b"a\1\2b\2\2", ({}, ["a\1", "b"]), ({}, ["a\1", "b"])),
        (b"", ({}, []), ({}, [])),
    ],
)
def test_properties_count_as_the_release_reads_them(
    raw: bytes, since_4_9_1: Any, before: Any
) -> None:
    window, row, _ = walked(Message(properties=raw))
    for split, (good, bad) in ((False, since_4_9_1), (True, before)):
        shown = describe_properties(window, row, split)
        assert (shown["properties"], shown.get("notProperties", [])) == (good, bad)
