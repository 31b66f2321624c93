"""The slow reference itself: every golden store, and cases that none of them has.

What agrees with the reference can only be as right as the reference is: so its expectations here
are bytes and numbers computed by hand from RocketMQ's source, never by the reference. Those of
each kind of log are in test_kinds_of_log."""

import struct
from pathlib import Path
from typing import Any

import pytest

from tests import golden_stores
from tests.logs import Message, build_log, encode, properties
from tests.reference import Derivation, compare, derive

SMALL: dict[str, Any] = {"mappedFileSizeCommitLog": 4096, "mappedFileSizeConsumeQueue": 100,
                         "mapperFileSizeBatchConsumeQueue": 92, "maxHashSlotNum": 3,
                         "maxIndexNum": 4}  # fmt: skip
QUEUE = "consumequeue/T/0/00000000000000000000"


def derived(*messages: Message, version: str = "5.3.3", **changed: Any) -> Derivation:
    attributes = {"Batch": {"queue.type": "BatchCQ"}}
    return derive(build_log(messages, 4096), SMALL | changed, version, attributes)


def at(*queue_offsets: int, **fields: Any) -> list[Message]:
    """Messages of 92 bytes each, with these queue offsets."""
    return [Message(queue_offset=offset, **fields) for offset in queue_offsets]


# of many or large segments, which the reference goes through a record at a time
SLOW = ("broker_crash_5.3.3", "default_sizes_5.3.3")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name in SLOW))
        for name in golden_stores.names()
    ],
)
def test_agrees_with_what_rocketmq_wrote(name: str) -> None:
    store = golden_stores.unpack(name)
    with store.segments() as segments:
        derivation = derive(segments, store.settings, store.version, store.topic_attributes)
    assert compare(derivation, store.expect) is None
    assert derivation.messages > 0


# The encoder


def test_a_record_is_91_bytes_and_its_parts() -> None:
    record = encode(Message(topic="T", body=b"abc", properties=properties(("a", "b"))), 7)
    assert len(record) == 91 + 1 + 3 + 4
    assert record[:8] == struct.pack(">iI", 99, 0xDAA320A7)
    assert record[8:12] == bytes.fromhex("352441c2")  # CRC32 of `abc`, its highest bit clear
    assert record[28:36] == struct.pack(">q", 7)
    assert record[84:91] == struct.pack(">i", 3) + b"abc"
    assert record[91:] == b"\x01T" + b"\x00\x04" + b"a\x01b\x02"


# The log


def test_the_crc_of_the_whole_record() -> None:
    good = Message(body=b"x", body_crc=1, crc_property=True)
    assert derived(good, forceVerifyPropCRC=True).messages == 1
    assert derived(good, forceVerifyPropCRC=True, version="5.1.4").messages == 0
    segments = build_log([good], 4096)
    segments[0] = segments[0].replace(b"x", b"y", 1)
    assert derive(segments, SMALL | {"forceVerifyPropCRC": True}).stop == "record CRC"
    assert derived(Message(), forceVerifyPropCRC=True).stop == "no CRC property"


def test_a_blank_of_any_size_up_to_5_3_1() -> None:
    segment = struct.pack(">iI", 5000, 0xCBD43194).ljust(4096, b"\0")
    log = {0: segment, 4096: encode(Message(), 4096).ljust(4096, b"\0")}
    assert derive(log, SMALL, "5.3.1").messages == 1
    assert derive(log, SMALL, "5.3.2").messages == 0


# The comparison


def write(derivation: Derivation, folder: Path) -> None:
    """The derivation's files, index files named as the clock would."""
    for name, (content, length) in derivation.files.items():
        path = folder / name.replace("index/", "index/2026010100000000")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.ljust(length, b"\0"))


def test_compare_names_the_first_difference(tmp_path: Path) -> None:
    derivation = derived(*at(0, 1))
    write(derivation, tmp_path)
    assert compare(derivation, tmp_path) is None
    path = tmp_path / QUEUE
    data = bytearray(path.read_bytes())
    data[35] ^= 1
    path.write_bytes(data)
    assert f"{QUEUE}: differs at byte 35" in (compare(derivation, tmp_path) or "")
    path.write_bytes(data[:80])
    assert f"{QUEUE}: 80 bytes, should be 100" == compare(derivation, tmp_path)
    path.unlink()
    assert f"{QUEUE} is missing, and 0 more" == compare(derivation, tmp_path)
    write(derivation, tmp_path)
    (tmp_path / "consumequeue" / "x").write_bytes(b"")
    assert compare(derivation, tmp_path) == "consumequeue/x should not be there, and 0 more"
