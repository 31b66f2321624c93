"""Records of the CommitLog: what is accepted, as by the reference, and refused, by name."""

import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import End, Stretch, scan, scan_rules
from reput.store_format.faults import REASONS, Fault
from reput.store_format.log import records
from reput.store_format.log.properties import new_spans
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings, settings_from
from tests.logs import Message, encode, properties
from tests.logs.encoder import HOST
from tests.reference.log import BadRecordError, read_record
from tests.reference.rules import Rules, parse_version
from tests.store_format.log.windows import window_of

RELEASE = "5.3.3"
RULES = records.RecordRules(ipv6_hosts=True, long_topics=True)
SEGMENT = 4096
ALONE = np.full(4, -1, np.int64)  # no DLedger log: unused
GOOD = Message(topic="Topic", body=b"body", properties=properties(("KEYS", "a b"), ("TAGS", "t")))


def scanned(
    data: bytes, release: str = RELEASE, settings: Settings | None = None, base: int = 0
) -> End:
    """How a scan of one segment ends."""

    def read(at: int, buffer: Any) -> None:
        assert base <= at
        assert at + len(buffer) <= base + len(data)
        buffer[:] = np.frombuffer(data, np.uint8)[at - base : at - base + len(buffer)]

    rules = scan_rules(profile(release), settings or Settings(), ())
    end = base + len(data)
    *_, last = scan(read, Stretch(base, end, base, end, base), rules)
    assert isinstance(last, End)
    return last


def segment_of(*messages: Message, size: int = SEGMENT) -> bytes:
    data = b""
    for message in messages:
        data += encode(message, len(data))
    return data.ljust(size, b"\0")


def reference_accepts(data: bytes, at: int = 0, release: str = RELEASE) -> bool:
    """Whether the reference takes a record at this place; a BLANK is none."""
    try:
        return read_record(data, at, at, Rules(parse_version(release), {}, {})) is not None
    except (BadRecordError, struct.error):
        return False


# Each fault


@pytest.mark.parametrize(("bad", "fault"), [
    (b"", Fault.ZEROS), (encode(GOOD, 0)[:20], Fault.LENGTHS),
    (struct.pack(">iI", 200, 0xCBD43194), Fault.BLANK),
    (Message(magic=0xDAA320A8), Fault.BAD_MAGIC), (Message(magic=0), Fault.BAD_MAGIC),
    (struct.pack(">iI", 0, 0xDAA320A7), Fault.BAD_SIZE), (Message(size=90), Fault.BAD_SIZE),
    (Message(size=4), Fault.BAD_SIZE), (Message(size=-1), Fault.BAD_SIZE),
    (Message(size=-(1 << 31)), Fault.BAD_SIZE),
    (Message(size=SEGMENT - 92 + 1), Fault.SIZE_PAST_END),
    (Message(size=(1 << 31) - 1), Fault.SIZE_PAST_END), (Message(body_length=2), Fault.BODY_LENGTH),
    (Message(body_length=(1 << 31) - 1), Fault.BODY_LENGTH),
    (Message(topic_length=-1), Fault.TOPIC_LENGTH),
    (Message(topic_length=-128), Fault.TOPIC_LENGTH), (Message(topic_length=2), Fault.TOPIC_LENGTH),
    (Message(topic="x" * 200, version=2, topic_length=-1), Fault.TOPIC_LENGTH),
    (Message(topic_length=0), Fault.LENGTHS), (Message(properties_length=1), Fault.LENGTHS),
    (Message(size=93), Fault.LENGTHS), (Message(size=91), Fault.TOPIC_LENGTH),
    (Message(size=92, sys_flag=0x30), Fault.LENGTHS),  # no room for hosts of 20 bytes
    (Message(physical_offset=0), Fault.PLACE), (Message(physical_offset=-92), Fault.PLACE),
    (Message(body=b"x", body_crc=0), Fault.BODY_CRC),
    (Message(body=b"x" * 4000, body_crc=0), Fault.BODY_CRC),
    (Message(topic="SCHEDULE_TOPIC_XXXX", properties=properties(("DELAY", "3 "))),
     Fault.DELAY_LEVEL),
    (Message(properties=properties(("INNER_NUM", "32768"), ("INNER_BASE", "0"))),
     Fault.BATCH_NUMBERS),
    (Message(properties=properties(("INNER_NUM", "1"), ("INNER_BASE", "x"))), Fault.BATCH_NUMBERS),
])  # fmt: skip
def test_each_fault_ends_the_scan_where_it_is(bad: Message | bytes, fault: Fault) -> None:
    first = encode(Message(), 0)
    second = bad if isinstance(bad, bytes) else encode(bad, len(first))
    size = SEGMENT if len(second) < 3000 else 2 * SEGMENT
    end = scanned((first + second).ljust(size, b"\0"))
    assert end.fault == fault
    assert end.next == (size if fault == Fault.BLANK else len(first))
    assert end.records == 1
    assert reference_accepts((first + second).ljust(size, b"\0"), len(first)) is False


def test_a_property_crc_or_a_body_s_is_checked_and_negative_lengths_count_as_none() -> None:
    check = settings_from({"forceVerifyPropCRC": "true"})
    good = encode(Message(body=b"abc", crc_property=True), 0)
    assert scanned(good.ljust(SEGMENT, b"\0"), settings=check).fault == Fault.ZEROS
    # it is checked in place of the body's, and only from 5.2.0 on
    other_crc = encode(Message(body=b"abc", body_crc=1, crc_property=True), 0)
    assert scanned(other_crc.ljust(SEGMENT, b"\0"), settings=check).fault == Fault.ZEROS
    old = scanned(other_crc.ljust(SEGMENT, b"\0"), "5.1.4", settings=check)
    assert old.fault == Fault.BODY_CRC
    for bad in (good.replace(b"abc", b"abd"), encode(Message(), 0), good[:-3] + b"\x3a\x30\x02"):
        end = scanned(bad.ljust(SEGMENT, b"\0"), settings=check)
        assert (end.fault, end.next) == (Fault.PROPERTY_CRC, 0)
    messages = [
        Message(body_length=-1),
        Message(body_length=-(1 << 31), body_crc=5),  # and no CRC is checked
        Message(properties_length=-1),
        Message(properties_length=-(1 << 15)),
    ]
    end = scanned(segment_of(*messages))
    assert (end.records, end.fault) == (4, Fault.ZEROS)
    assert scanned(segment_of(Message(body=b"", body_crc=77))).records == 1
    assert scanned(segment_of(Message(body=b"x", body_crc=-1))).fault == Fault.BODY_CRC
    wrong = segment_of(Message(body=b"x", body_crc=1))
    assert scanned(wrong, settings=settings_from({"checkCRCOnRecover": "false"})).records == 1


def test_every_fault_has_a_reason_and_a_frame_asks_for_what_is_not_at_hand() -> None:
    not_faults = {Fault.NONE, Fault.NEED_MORE, Fault.BLANK}
    assert set(REASONS) == set(Fault) - not_faults
    assert len(set(REASONS.values())) == len(REASONS)
    buf = np.frombuffer(encode(GOOD, 0), np.uint8)
    for length in range(8):
        assert records.frame(buf, 0, length, SEGMENT, RULES)[0] == Fault.NEED_MORE
    assert records.frame(buf, 0, 8, SEGMENT, RULES) == (Fault.NONE, len(buf))


@pytest.mark.parametrize(
    "size", [0, 7, 8, 4096, 4097, -1, (1 << 31) - 1, -(1 << 31), -(1 << 31) + 4]
)
def test_a_blank_of_any_size_up_to_5_3_1(size: int) -> None:
    data = struct.pack(">iI", size, 0xCBD43194).ljust(SEGMENT, b"\0")
    assert scanned(data, "5.3.1").fault == Fault.BLANK
    fits = -(1 << 31) + 4 <= size <= SEGMENT
    assert scanned(data, "5.3.2").fault == (Fault.BLANK if fits else Fault.SIZE_PAST_END)
    for release in ("5.3.1", "5.3.2"):
        try:
            ends = read_record(data, 0, 0, Rules(parse_version(release), {}, {})) is None
        except BadRecordError:
            ends = False
        assert (scanned(data, release).fault == Fault.BLANK) == ends


# What negative lengths and empty bodies do


@pytest.mark.parametrize(("message", "accepted", "refused"), [
    (Message(sys_flag=0x10, born_host=bytes(20)), "4.6.0", "4.5.2"),
    (Message(sys_flag=0x20, store_host=bytes(20)), "4.6.0", "4.5.2"),
    (Message(sys_flag=0x30, born_host=bytes(20), store_host=bytes(20)), "4.6.0", "4.5.2"),
    (Message(sys_flag=0x30), "4.5.2", "4.6.0"),
    (Message(topic="L" * 300, version=2), "5.1.0", "5.0.0"),
])  # fmt: skip
def test_what_a_release_reads(message: Message, accepted: str, refused: str) -> None:
    data = segment_of(message)
    assert scanned(data, accepted).records == 1
    assert scanned(data, refused).records == 0
    assert reference_accepts(data, release=accepted)
    assert not reference_accepts(data, release=refused)


# Torn records and flipped bits


CASES = {
    "plain": GOOD,
    "no body": Message(),
    "long topic": Message(topic="L" * 200, version=2, body=b"b"),
    "IPv6": Message(sys_flag=0x30, born_host=bytes(range(16)) + HOST[4:], store_host=bytes(20)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("behind", [b"\0", b"\xff", b"\x01"])
def test_a_record_torn_at_any_byte(name: str, behind: bytes) -> None:
    first = encode(Message(), 0)
    record = encode(CASES[name], len(first))
    for cut in range(len(record)):
        data = (first + record[:cut]).ljust(SEGMENT, behind)
        end = scanned(data)
        assert end.next >= len(first)
        assert end.records == 1 + reference_accepts(data, len(first)), cut
        if end.records == 1:
            assert end.fault in REASONS
            assert end.next == len(first)
        if cut == 0 and behind == b"\0":
            assert end.fault == Fault.ZEROS


@pytest.mark.parametrize("name", CASES)
def test_a_segment_that_ends_in_the_middle_of_a_record(name: str) -> None:
    first = encode(Message(), 0)
    record = encode(CASES[name], len(first))
    for cut in range(1, len(record)):
        end = scanned(first + record[:cut])
        wanted = (
            Fault.SHORT_TAIL if cut <= 4 else Fault.BAD_MAGIC if cut < 8 else Fault.SIZE_PAST_END
        )
        assert (end.fault, end.next, end.records) == (wanted, len(first), 1), cut


# field -> where it stands in a record with IPv4 hosts, and what one flipped bit of it leads to
FIELDS: list[tuple[str, int, int, set[Fault]]] = [
    ("totalSize", 0, 4, {Fault.LENGTHS, Fault.TOPIC_LENGTH, Fault.BODY_LENGTH}
        | {Fault.SIZE_PAST_END, Fault.BAD_SIZE}), ("magic", 4, 8, {Fault.BAD_MAGIC}),
    ("bodyCRC", 8, 12, {Fault.BODY_CRC}), ("queueId", 12, 16, {Fault.NONE}),
    ("flag", 16, 20, {Fault.NONE}), ("queueOffset", 20, 28, {Fault.NONE}),
    ("physicalOffset", 28, 36, {Fault.PLACE}), ("bornTimestamp", 40, 48, {Fault.NONE}),
    ("bornHost", 48, 56, {Fault.NONE}), ("storeTimestamp", 56, 64, {Fault.NONE}),
    ("storeHost", 64, 72, {Fault.NONE}), ("reconsumeTimes", 72, 76, {Fault.NONE}),
    ("preparedTransactionOffset", 76, 84, {Fault.NONE}),
    ("bodyLength", 84, 88, {Fault.BODY_LENGTH, Fault.TOPIC_LENGTH, Fault.LENGTHS}),
    ("body", 88, 92, {Fault.BODY_CRC}),
    ("topicLength", 92, 93, {Fault.TOPIC_LENGTH, Fault.LENGTHS}), ("topic", 93, 98, {Fault.NONE}),
    ("propertiesLength", 98, 100, {Fault.LENGTHS}), ("properties", 100, 116, {Fault.NONE}),
]  # fmt: skip


def flipped(start: int, end: int) -> list[tuple[int, Fault]]:
    """(bit, fault) of every single flipped bit of the good record's bytes start to end."""
    record = encode(GOOD, 0)
    assert len(record) == FIELDS[-1][2]
    outcomes = []
    for bit in range(start * 8, end * 8):
        data = bytearray(record.ljust(SEGMENT, b"\0"))
        data[bit // 8] ^= 0x80 >> bit % 8
        end_of_scan = scanned(bytes(data))
        accepted = end_of_scan.records == 1
        assert accepted == reference_accepts(bytes(data)), bit
        outcomes.append((bit, Fault.NONE if accepted else end_of_scan.fault))
    return outcomes


@pytest.mark.parametrize(("name", "start", "end", "faults"), FIELDS, ids=lambda value: str(value))
def test_every_flipped_bit(name: str, start: int, end: int, faults: set[Fault]) -> None:
    seen = {fault for _, fault in flipped(start, end)}
    assert seen <= faults, name
    assert name in ("totalSize", "bodyLength", "topicLength") or seen == faults


def test_every_flipped_bit_of_the_flags() -> None:
    # only the two bits that say how long the hosts are move what stands behind them
    for bit, fault in flipped(36, 40):
        moves = bit in (36 * 8 + 26, 36 * 8 + 27)
        assert (fault == Fault.NONE) != moves


# Bodies


@pytest.fixture(params=[2048, 1 << 31], ids=["by zlib", "in the kernel"])
def large_bodies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which way large bodies go depends on the processor otherwise."""
    monkeypatch.setattr(records, "_zlib_from", lambda: request.param)


@pytest.mark.usefixtures("large_bodies")
@pytest.mark.parametrize("sizes", [[10, 0, 20], [3000, 10, 5000], [2047, 2048, 2049]])
def test_a_bad_body(sizes: list[int]) -> None:
    for bad in ({0}, {1}, {2}, {0, 2}, {0, 1, 2}):
        messages = [Message(body=b"x" * size, body_crc=1 if n in bad else None)
                    for n, size in enumerate(sizes)]  # fmt: skip
        data = segment_of(*messages, size=1 << 16)
        rows = np.zeros(9, records.RECORD_ROW)
        buf = np.frombuffer(data, np.uint8)
        count, _, _ = records.walk(buf, 0, len(buf), len(buf), len(buf), 0, RULES, rows, ALONE)
        assert count == len(sizes)
        expected = [n in bad and size > 0 for n, size in enumerate(sizes)]
        assert records.bad_bodies(buf, rows[:count]).tolist() == expected


# Finding a record


@pytest.mark.parametrize("release", ["5.0.0", "5.1.0"])
def test_the_first_record_in_its_own_place(release: str) -> None:
    rules = records.RecordRules(True, profile(release).long_topics)
    base = 1 << 33
    for at in (0, 1, 7, 100):
        for message, known in ((Message(), True), (Message(version=2), rules.long_topics)):
            elsewhere = encode(Message(), 5)  # a copy in a body: its offset is not its place
            data = (b"\xda" * at + encode(message, base + at) + elsewhere).ljust(SEGMENT, b"\xda")
            found = records.find_record(np.frombuffer(data, np.uint8), 0, len(data), base, rules)
            assert found == (at if known else -1)


# --- `__CRC32#`, the CRC of a whole record: where it is right, wrong, missing, or 0.
PLAIN = Message(body=b"body", properties=properties(("KEYS", "k")))
SEALED = replace(PLAIN, crc_property=True)
ZERO = Message(body=b"\xd5\xab\xac\xc6", body_crc=0, crc_property=True)  # at the log's start
NAME = b"__CRC32#\x01"


def bad(messages: list[Message], flip: int | None = None) -> list[bool]:
    """Whether each record's property is wrong, after a bit was flipped at a place."""
    window, rows = window_of(messages)
    window = window.copy()
    if flip is not None:
        window[flip] ^= 1
    found: list[bool] = records.bad_property_crcs(window, rows, False, new_spans()).tolist()
    return found


def first_bad(messages: list[Message], zero_counts: bool = True) -> int:
    window, rows = window_of(messages)
    return records.first_bad_property_crc(window, rows, False, zero_counts)


def test_each_digit_of_the_last_property_counts_and_a_row_may_have_the_crc() -> None:
    size = len(encode(SEALED, 0))
    for at in range(size - 11, size - 1):
        assert bad([SEALED], flip=at) == [True]
    assert bad([PLAIN, SEALED, Message()]) == [False, False, False]
    assert first_bad([PLAIN, SEALED]) == 0
    assert first_bad([SEALED, PLAIN]) == 1
    assert first_bad([SEALED, SEALED]) == 2
    wrong = NAME + b"1111111111\x02"
    assert bad([replace(SEALED, properties=wrong)]) == [False]
    window, rows = window_of([replace(SEALED, properties=wrong)])
    assert records.first_bad_property_crc(window, rows, False, True) == 1
    window, rows = window_of([SEALED])
    crc = zlib.crc32(encode(SEALED, 0)[:-20]) & 0x7FFFFFFF
    rows = rows.copy()
    rows["bodyElided"] = 1
    for given, wrong in ((crc, False), (crc ^ 1, True)):
        rows["bodyCRC"] = np.int32(given)
        assert records.bad_property_crcs(window, rows, False, new_spans()).tolist() == [wrong]


@pytest.mark.parametrize("value", [b"0000000000", b"0", b"-1", b"\x01", b"123456789\xff"])
def test_any_other_value_is_wrong(value: bytes) -> None:
    text = properties(("a", "x" * 20)) + NAME + value + b"\x02"
    assert bad([replace(PLAIN, properties=text)]) == [True]


@pytest.mark.parametrize(("zero_counts", "found"), [(True, 1), (False, 0)])
def test_a_crc_of_0_counts_from_5_3_2_on(zero_counts: bool, found: int) -> None:
    record = encode(ZERO, 0)
    assert zlib.crc32(record[:-20]) & 0x7FFFFFFF == 0
    assert record.endswith(NAME + b"0" * 10 + b"\x02")
    assert first_bad([ZERO], zero_counts) == found
