"""The slow reference itself: every golden store, and cases that none of them has.

What agrees with the reference can only be as right as the reference is: so its expectations here
are bytes and numbers computed by hand from RocketMQ's source, never by the reference. Those of
each kind of log are in test_kinds_of_log."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests import golden_stores
from tests.logs import Log, Message, build_log, encode, key_with_hash, logs, properties
from tests.reference import Derivation, compare, derive, records
from tests.reference.javatext import decode_utf8, hash_code, is_blank, parse_integer, split

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


def test_a_segment_ends_in_a_blank_and_the_log_in_zeros() -> None:
    segments = build_log(at(0, 1, 2), 150, filler=b"\xff")
    assert list(segments) == [0, 150, 300]
    assert segments[0][92:100] == struct.pack(">iI", 58, 0xCBD43194)
    assert segments[0][100:] == b"\xff" * 50
    assert segments[300][92:] == bytes(58)


@pytest.mark.parametrize("target", [-(1 << 31), (1 << 31) - 1, 0, -1])
def test_a_key_for_any_hash(target: int) -> None:
    assert hash_code("topic\U0001f600#" + key_with_hash("topic\U0001f600#", target)) == target


# Java's text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xed\xa0\x80", "\ufffd"), (b"\xed\xa0", "\ufffd"), (b"\xed\xa0A", "\ufffdA"),
        (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"), (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xc0\x80", "\ufffd\ufffd"), (b"\xe2\x82", "\ufffd"), (b"\xf0\x9f\x98\x80", "\U0001f600"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
    ],
)  # fmt: skip
def test_utf8_as_java_decodes_it(data: bytes, text: str) -> None:
    assert decode_utf8(b"x" + data + b"y") == "x" + text + "y" or data[-1] > 0x7F
    assert decode_utf8(data) == text


def test_java_numbers_and_splits() -> None:
    assert hash_code("a||b") == (((97 * 31 + 124) * 31) + 124) * 31 + 98
    assert hash_code("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert [parse_integer(text, 32) for text in ("+5", "-0", "\u0663")] == [5, 0, 3]
    for text in ("", "+", "1_0", " 1", "2147483648", "\U0001d7d9"):
        with pytest.raises(ValueError):
            parse_integer(text, 32)
    assert split("a,,b,,", ",") == ["a", "", "b"]
    assert split(",", ",") == []
    assert split("", ",") == [""]
    assert is_blank(" \t\u2003")
    assert not is_blank("\u00a0")


# The log


def test_a_blank_leads_to_the_next_segment() -> None:
    segments = build_log(at(0, 1, 2), 150, first_offset=300, extra_segments=1)
    assert [message.physical_offset for message in records(segments)] == [300, 450, 600]
    derivation = derive(segments, SMALL)
    assert derivation.end == 600 + 92
    del segments[750], segments[600]
    derivation = derive(segments, SMALL)
    assert (derivation.end, derivation.stop) == (450 + 92, "end of segments")


def test_a_chain_that_ends_with_its_segment_ends_the_log() -> None:
    whole = encode(Message(), 0) + encode(Message(), 92)
    derivation = derive({0: whole, 184: encode(Message(), 184)}, SMALL)
    assert (derivation.messages, derivation.end) == (2, 184)


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


# The queue


def test_a_file_size_is_rounded_up_to_whole_entries() -> None:
    assert derived(Message(), mappedFileSizeConsumeQueue=45).files[QUEUE][1] == 60


def multi(queues: str, offsets: str, topic: str = "T") -> Message:
    pairs = [("INNER_MULTI_DISPATCH", queues), ("INNER_MULTI_QUEUE_OFFSET", offsets)]
    return Message(topic=topic, queue_id=3, properties=properties(*pairs))


def queues_of(derivation: Derivation) -> set[str]:
    return {name.rpartition("/")[0].partition("/")[2] for name in derivation.files} - {""}


ON = {"enableMultiDispatch": True, "enableLmq": True, "messageIndexEnable": False}


@pytest.mark.parametrize(
    ("topic", "last"),
    [
        ("%RETRY%g", "5.1.0"), ("SCHEDULE_TOPIC_XXXX", "5.1.1"), ("rmq_sys_wheel_timer", "5.1.1"),
        ("rmq_sys_other", "5.1.4"),
    ],
)  # fmt: skip
def test_topics_left_out_of_multi_dispatch(topic: str, last: str) -> None:
    message = multi("%LMQ%a", "0", topic)
    assert "%LMQ%a/0" in queues_of(derived(message, **ON, version=last))
    following = {"5.1.0": "5.1.1", "5.1.1": "5.1.2", "5.1.4": "5.2.0"}[last]
    assert "%LMQ%a/0" not in queues_of(derived(message, **ON, version=following))


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


# The generator


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs())
def test_any_log_is_derived(log: Log) -> None:
    derivation = derive(*log)
    rounded = -(-log.settings["mappedFileSizeConsumeQueue"] // 20) * 20
    for name, (content, length) in derivation.files.items():
        assert len(content) <= length
        if name.startswith("consumequeue/"):
            assert length == rounded
            assert int(name.rpartition("/")[2]) % length == 0
    last = max(log.segments)
    assert min(log.segments) <= derivation.end <= last + len(log.segments[last])
    assert derivation.messages == len(records(*log[:3]))
