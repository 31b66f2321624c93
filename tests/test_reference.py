"""The slow reference itself: cases worked out by hand, and every golden store.

What agrees with the reference can only be as right as the reference is: so its expectations here
are bytes and numbers computed by hand from RocketMQ's source, never by the reference.
"""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests import golden_stores
from tests.logs import Log, Message, build_log, encode, key_with_hash, logs, properties
from tests.reference import Derivation, compare, derive, records
from tests.reference.derive import DispatchError
from tests.reference.javatext import decode_utf8, hash_code, is_blank, parse_integer, split

SMALL: dict[str, Any] = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 100,
    "mapperFileSizeBatchConsumeQueue": 92,
    "maxHashSlotNum": 3,
    "maxIndexNum": 4,
}
BLANK_ENTRY = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)
QUEUE = "consumequeue/T/0/00000000000000000000"


def derived(*messages: Message, version: str = "5.3.3", **changed: Any) -> Derivation:
    attributes = {"Batch": {"queue.type": "BatchCQ"}}
    return derive(build_log(messages, 4096), SMALL | changed, version, attributes)


def at(*queue_offsets: int, **fields: Any) -> list[Message]:
    """Messages of 92 bytes each, with these queue offsets."""
    return [Message(queue_offset=offset, **fields) for offset in queue_offsets]


def entries(derivation: Derivation, *names: str) -> list[tuple[int, ...]]:
    """(physicalOffset, size, tagsCode) of each entry in these files, in order."""
    contents = [derivation.files[name][0] for name in names]
    data = b"".join(content + bytes(-len(content) % 20) for content in contents)
    return list(struct.iter_unpack(">qiq", data))


def header(derivation: Derivation, number: int) -> tuple[int, ...]:
    """Begin and end timestamp, begin and end offset, hashSlotCount, indexCount."""
    return struct.unpack(">qqqqii", derivation.files[f"index/{number}"][0].ljust(40, b"\0")[:40])


def index_entries(derivation: Derivation, number: int) -> list[tuple[int, ...]]:
    """(keyHash, physicalOffset, timeDiff, previous) of entries 1 and up, with three slots."""
    data = derivation.files[f"index/{number}"][0][40 + 3 * 4 + 20 :]
    return list(struct.iter_unpack(">iqii", data.ljust(-(-len(data) // 20) * 20, b"\0")))


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
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xed\xa0\x80\xed\xb0\x80", "\ufffd\ufffd"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xc0\x80", "\ufffd\ufffd"),
        (b"\xe2\x82", "\ufffd"),
        (b"\xf0\x9f\x98\x80", "\U0001f600"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
    ],
)
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


def test_the_log_ends_where_the_zeros_begin() -> None:
    derivation = derived(*at(0, 1))
    assert (derivation.end, derivation.stop, derivation.messages) == (184, "zeros", 2)
    empty = derive({4096: bytes(4096)}, SMALL)
    assert (empty.end, empty.files, empty.messages) == (4096, {}, 0)


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


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({"magic": 0x12345678}, "unknown magic"),
        ({"size": 93}, "the parts do not add up to the size"),
        ({"size": 5000}, "the size reaches past the segment"),
        ({"size": -1}, "the size reaches past the segment"),
        ({"body": b"x", "body_crc": 1}, "body CRC"),
        ({"topic_length": -1}, "a length reaches past the record"),
        ({"physical_offset": 93}, "physicalOffset is not the record's place"),
        (
            {"topic": "SCHEDULE_TOPIC_XXXX", "properties": properties(("DELAY", "x"))},
            "DELAY is not a number",
        ),
        (
            {"properties": properties(("INNER_BASE", "1"), ("INNER_NUM", "32768"))},
            "INNER_BASE or INNER_NUM is not a number",
        ),
    ],
)
def test_a_bad_record_ends_the_log(fields: dict[str, Any], stop: str) -> None:
    derivation = derived(Message(), Message(**fields), Message(queue_offset=1))
    assert (derivation.messages, derivation.end, derivation.stop) == (1, 92, stop)


def test_negative_lengths_count_as_none() -> None:
    assert derived(Message(body_length=-5), Message(properties_length=-1)).messages == 2


def test_the_crc_is_checked_only_where_it_is_set() -> None:
    wrong = Message(body=b"x", body_crc=1)
    assert derived(wrong).messages == 0
    assert derived(wrong, checkCRCOnRecover=False).messages == 1
    assert derived(wrong, checkCRCOnRecover="false").messages == 1


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


def test_ipv6_hosts_and_long_topics() -> None:
    host = bytes(20)
    both = Message(sys_flag=0x30, born_host=host, store_host=host)
    assert derived(both, version="4.6.0").messages == 1
    assert derived(both, version="4.5.2").messages == 0
    assert derived(Message(sys_flag=0x30), version="4.5.2").messages == 1
    long = Message(topic="L" * 200, version=2)
    assert next(iter(derived(long, version="5.1.0").files)).startswith("consumequeue/LLL")
    assert derived(long, version="5.0.0").stop == "unknown magic"


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (b"TAGS\x01a\x02", "a", "a"),
        (b"TAGS\x01a", "a", "a"),
        (b"TAGS\x01a\x01\x02", "a", "a\x01"),
        (b"TAGS\x01a\x01b\x02", None, "a\x01b"),
        (b"TAGS\x01\x02", None, None),
        (b"TAGS\x02", None, None),
        (b"\x02\x02TAGS\x01a\x02TAGS\x01b\x02", "b", "b"),
        (b"x\x01\x01y\x02TAGS\x01\x01a\x02", None, "\x01a"),
    ],
)
def test_properties(text: bytes, old: str | None, new: str | None) -> None:
    segments = build_log([Message(properties=text)], 4096)
    assert records(segments, version="4.9.0")[0].property("TAGS") == old
    assert records(segments, version="4.9.1")[0].property("TAGS") == new


def test_a_property_without_a_name_counts_up_to_4_9_0() -> None:
    segments = build_log([Message(properties=b"\x01b\x02")], 4096)
    assert records(segments, version="4.9.0")[0].properties == {"": "b"}
    assert records(segments, version="4.9.1")[0].properties == {}


# The queue


def test_queue_entries_and_lengths() -> None:
    tagged = Message(properties=properties(("TAGS", "a||b")))
    derivation = derived(tagged, *at(1, 2, 3, 4, 5))
    code = (((97 * 31 + 124) * 31) + 124) * 31 + 98
    size = 92 + 10
    second = QUEUE.replace("0" * 20, "00000000000000000100")
    assert {name for name in derivation.files if "queue" in name} == {QUEUE, second}
    assert derivation.files[QUEUE][1] == derivation.files[second][1] == 100
    assert entries(derivation, QUEUE)[:2] == [(0, size, code), (size, 92, 0)]
    assert entries(derivation, second) == [(size + 4 * 92, 92, 0)]


def test_a_file_size_is_rounded_up_to_whole_entries() -> None:
    assert derived(Message(), mappedFileSizeConsumeQueue=45).files[QUEUE][1] == 60


def test_prepared_and_rolled_back_messages_are_not_queued() -> None:
    messages = [Message(sys_flag=flag) for flag in (0, 4, 8, 12)]
    assert [place // 92 for place, *_ in entries(derived(*messages), QUEUE)] == [0, 2]


def test_blanks_stand_before_a_first_entry_in_the_middle_of_a_file() -> None:
    derivation = derived(*at(7))
    name = "consumequeue/T/0/00000000000000000100"
    assert derivation.files[name] == (BLANK_ENTRY * 2 + struct.pack(">qiq", 0, 92, 0)[:12], 100)
    assert QUEUE not in derivation.files
    on_the_edge = derived(*at(5))
    assert entries(on_the_edge, name) == [(0, 92, 0)]


@pytest.mark.parametrize(
    ("version", "kept"),
    [("4.1.0-incubating", [0, 1, 2, 3, 4]), ("4.2.0", [0, 2, 4]), ("5.5.0", [0, 2, 4])],
)
def test_gaps_are_closed_and_repeats_skipped(version: str, kept: list[int]) -> None:
    # The second and the fourth are below the next position; 0 is always appended.
    messages = [*at(3), *at(1), *at(9), *at(4), *at(0)]
    derivation = derived(*messages, version=version)
    names = sorted(name for name in derivation.files if "queue" in name)
    found = [place // 92 for place, size, _ in entries(derivation, *names) if size == 92]
    assert found == kept


def test_a_skipped_repeat_may_leave_an_empty_file() -> None:
    derivation = derived(*at(0, 1, 2, 3, 4), *at(2))
    assert derivation.files["consumequeue/T/0/00000000000000000100"] == (b"", 100)
    assert derived(*at(-1)).files[QUEUE] == (b"", 100)


def test_delay_levels_become_delivery_times() -> None:
    def code(level: str, topic: str = "SCHEDULE_TOPIC_XXXX", **changed: Any) -> int:
        text = properties(("DELAY", level), ("TAGS", "a"))
        message = Message(topic=topic, properties=text, store_timestamp=1000)
        return entries(derived(message, **changed), f"consumequeue/{topic}/0/{'0' * 20}")[0][2]

    assert code("1") == 1000 + 1000
    assert code("18") == code("99") == 1000 + 2 * 3600 * 1000
    assert code("0") == code("-7") == code("x", "T") == 97
    assert code("2", messageDelayLevel="1s 3d") == 1000 + 3 * 24 * 3600 * 1000


# Several queues for one message


def multi(queues: str, offsets: str, topic: str = "T") -> Message:
    pairs = [("INNER_MULTI_DISPATCH", queues), ("INNER_MULTI_QUEUE_OFFSET", offsets)]
    return Message(topic=topic, queue_id=3, properties=properties(*pairs))


def queues_of(derivation: Derivation) -> set[str]:
    return {name.rpartition("/")[0].partition("/")[2] for name in derivation.files} - {""}


ON = {"enableMultiDispatch": True, "enableLmq": True, "messageIndexEnable": False}


def test_multi_dispatch() -> None:
    both = multi("%LMQ%a,other,", "0,2")
    assert queues_of(derived(both, **ON)) == {"T/3", "%LMQ%a/0", "other/3"}
    assert queues_of(derived(both, **ON, version="4.9.2")) == {"T/3"}
    assert queues_of(derived(both, **(ON | {"enableLmq": False}))) == {"T/3", "%LMQ%a/3", "other/3"}
    assert queues_of(derived(both, **(ON | {"enableMultiDispatch": False}))) == {"T/3"}
    assert queues_of(derived(multi("%LMQ%a", "0,2"), **ON)) == {"T/3"}
    assert queues_of(derived(multi("a/b,%LMQ%a", "0,0"), **ON)) == {"T/3", "%LMQ%a/0"}
    with pytest.raises(DispatchError):
        derived(multi("%LMQ%a", "x"), **ON)


@pytest.mark.parametrize(
    ("topic", "last"),
    [
        ("%RETRY%g", "5.1.0"),
        ("SCHEDULE_TOPIC_XXXX", "5.1.1"),
        ("rmq_sys_wheel_timer", "5.1.1"),
        ("rmq_sys_other", "5.1.4"),
    ],
)
def test_topics_left_out_of_multi_dispatch(topic: str, last: str) -> None:
    message = multi("%LMQ%a", "0", topic)
    assert "%LMQ%a/0" in queues_of(derived(message, **ON, version=last))
    following = {"5.1.0": "5.1.1", "5.1.1": "5.1.2", "5.1.4": "5.2.0"}[last]
    assert "%LMQ%a/0" not in queues_of(derived(message, **ON, version=following))


def test_batch_queues() -> None:
    text = properties(("INNER_BASE", "40"), ("INNER_NUM", "3"))
    messages = [
        Message(topic="Batch", queue_offset=7, store_timestamp=5, properties=text),
        Message(topic="Batch", queue_offset=43, store_timestamp=6),
        Message(topic="Batch", queue_offset=-1),
        Message(topic="Batch", queue_offset=2, store_timestamp=7),
    ]
    derivation = derived(*messages)
    size = 96 + len(text)
    first, second = (f"batchconsumequeue/Batch/0/{offset:020d}" for offset in (0, 92))
    assert queues_of(derivation) == {"Batch/0"}
    assert derivation.files[first][1] == derivation.files[second][1] == 92
    expected = struct.pack(">qiqqqhii", 0, size, 0, 5, 40, 3, -1, 0)
    expected += struct.pack(">qiqqqhii", size, 96, 0, 6, 43, 1, -1, 0)
    assert derivation.files[first][0] == expected.rstrip(b"\0")
    older = derived(*messages, version="4.9.7")
    assert not [name for name in older.files if name.startswith("batch")]


# The index


def test_keys_of_one_message_in_their_order() -> None:
    text = properties(("KEYS", " k  k l "), ("TAGS", "g"), ("UNIQ_KEY", "k"))
    message = Message(properties=text, store_timestamp=1_000_000)
    hashes = [hash_code(f"T#{key}") for key in ("k", "k", "k", "l", "T#g")]
    for version, count in (("5.3.3", 4), ("5.4.0", 5)):
        derivation = derived(message, version=version, maxIndexNum=10)
        assert [entry[0] for entry in index_entries(derivation, 0)] == hashes[:count]


def test_chains_and_header() -> None:
    def keyed(keys: str, time: int) -> Message:
        return Message(properties=properties(("KEYS", keys)), store_timestamp=time)

    # One slot for all: hash 0 modulo 3, once as Integer.MIN_VALUE.
    zero, lowest = key_with_hash("T#", 0), key_with_hash("T#", -(1 << 31))
    messages = [keyed(zero, 50_000), keyed(f"{lowest} {zero}", 53_999)]
    derivation = derived(*messages)
    size = 92 + 6 + len(zero)
    assert index_entries(derivation, 0) == [(0, 0, 0, 0), (0, size, 3, 1), (0, size, 3, 2)]
    assert derivation.files["index/0"][0][40:52] == struct.pack(">iii", 3, 0, 0)
    assert derivation.files["index/0"][1] == 40 + 3 * 4 + 4 * 20
    assert header(derivation, 0) == (50_000, 53_999, 0, size, 1, 4)
    assert header(derived(*messages, version="4.7.0"), 0)[4] == 3


def test_a_file_rolls_over_inside_one_message() -> None:
    text = properties(("KEYS", "a b c d e"))
    early = Message(properties=properties(("KEYS", "x")), store_timestamp=90_000)
    derivation = derived(early, Message(properties=text, store_timestamp=94_000))
    assert len([name for name in derivation.files if name.startswith("index")]) == 2
    size = 92 + 7
    assert header(derivation, 0) == (90_000, 94_000, 0, size, 3, 4)
    # The second file is measured against the first one's end, then begins at its own first entry.
    assert header(derivation, 1) == (94_000, 94_000, size, size, 3, 4)
    assert [entry[2] for entry in index_entries(derivation, 1)] == [0, 0, 0]


def test_the_first_entry_of_a_file_is_measured_against_the_file_before() -> None:
    full = Message(properties=properties(("KEYS", "a b c")), store_timestamp=90_000)
    later = Message(properties=properties(("KEYS", "d e")), store_timestamp=97_000)
    assert [entry[2] for entry in index_entries(derived(full, later), 1)] == [7, 0]


def test_a_message_without_keys_opens_the_next_file() -> None:
    full = Message(properties=properties(("KEYS", "a b c")), store_timestamp=90_000)
    size = 92 + 11
    for after in (Message(), Message(sys_flag=12)):
        assert header(derived(full, after), 1) == (90_000, 90_000, 0, 0, 0, 1)
        assert header(derived(full, after, version="4.9.7"), 1) == (90_000, 90_000, 0, 0, 0, 0)
    assert "index/1" not in derived(full).files
    assert derived(full).files["index/0"][0][52 + 20 + 4 :][:8] == bytes(8)
    assert derived(Message(sys_flag=12)).files["index/0"] == (bytes(39) + b"\x01", 132)
    assert derived(Message(), version="4.1.0").files["index/0"] == (b"", 132)
    assert derived(full, full).files["index/1"][0][16:24] == struct.pack(">q", size)


def test_prepared_messages_are_indexed_and_rolled_back_ones_are_not() -> None:
    keys = properties(("UNIQ_KEY", "k"))
    messages = [Message(sys_flag=flag, properties=keys) for flag in (4, 12)]
    assert header(derived(*messages), 0)[5] == 2


@pytest.mark.parametrize(
    ("begin", "then", "seconds"),
    [(0, 9000, 0), (-5, 9000, 0), (1, 3001, 3), (9000, 1, 0), (1, 1 << 50, (1 << 31) - 1)],
)
def test_time_differences_stay_in_their_bounds(begin: int, then: int, seconds: int) -> None:
    keys = properties(("UNIQ_KEY", "k"))
    messages = [Message(properties=keys, store_timestamp=time) for time in (begin, then)]
    assert index_entries(derived(*messages), 0)[1][2] == seconds


def test_the_index_can_be_off() -> None:
    assert list(derived(Message(), messageIndexEnable=False).files) == [QUEUE]


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


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
