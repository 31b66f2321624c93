"""Messages of another log appended to this one: which, in what order, and up to its first fault."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer.copies import (
    Copied,
    CopyChoice,
    SourceSegment,
    copy_messages,
    properties_of,
    put_again,
    stored_at,
    text_of,
)
from reput.store_format.faults import Fault
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.message.message import Message as RecordsMessage
from reput.store_format.message.refusals import Refused, TopicTooLong, TopicUnsafe
from tests.broker.services.stores import disk, opened
from tests.broker.writer.stores import RULES, open_writer, stored_records
from tests.logs.encoder import Message, build_log, encode, properties

SEGMENT = 512
ALL = CopyChoice()
START = 1_700_000_000_000
HOST = bytes((10, 1, 2, 3, 0, 0, 0x2A, 0x9F))
MADE = [Message("TU"[n % 2], 3, 40 + n, b"body %d" % n, properties(("KEYS", f"k{n}")),
                START + 1000 * n, flag=n, born_timestamp=START - n, born_host=HOST, store_host=HOST,
                reconsume_times=2) for n in range(8)]  # fmt: skip


def source(segments: dict[int, bytes]) -> list[SourceSegment]:
    def reading(start: int, raw: bytes) -> SourceSegment:
        whole = np.frombuffer(raw, np.uint8)

        def read(at: int, buffer: np.ndarray) -> None:
            buffer[:] = whole[at - start : at - start + len(buffer)]

        return SourceSegment(start, start + len(raw), read)

    return [reading(*each) for each in segments.items()]


def copied(
    root: Path, segments: dict[int, bytes], wanted: CopyChoice = ALL, skip: int = 0,
    **named: Any,
) -> tuple[Copied, list[Record]]:  # fmt: skip
    with open_writer(root, **named) as writer:
        found = copy_messages(writer, source(segments), RULES, wanted, skip)
    return found, list(stored_records(root / "commitlog"))


def test_what_belongs_to_a_message_stays_and_its_place_is_new(tmp_path: Path) -> None:
    found, records = copied(tmp_path, build_log(MADE, SEGMENT, first_offset=SEGMENT))
    assert found[:3] == (8, 8, Fault.ZEROS)
    for n, (record, made) in enumerate(zip(records, MADE, strict=True)):
        assert record[:2] == (str(made.topic).encode(), 3)
        assert (record.queue_offset, record.store_timestamp) == (n // 2, START)  # the writer's
        assert (record.body, record.properties) == (made.body, made.properties)
        assert (record.flag, record.reconsume_times) == (n, 2)
        assert (record.born_timestamp, record.born_host, record.store_host) == (
            START - n, HOST, HOST,
        )  # fmt: skip
    assert records[1].physical_offset == records[0].size


@pytest.mark.parametrize(
    ("wanted", "skip", "numbers"),
    [
        (CopyChoice("T"), 0, [0, 2, 4, 6]), (CopyChoice("None"), 0, []), (CopyChoice("TT"), 0, []),
        (CopyChoice("", START + 2000, START + 4000), 0, [2, 3]),
        (CopyChoice("U", START + 2000, START + 6000), 0, [3, 5]),
        (CopyChoice("U"), 3, [7]), (CopyChoice("U"), 9, []),
    ],
)  # fmt: skip
def test_one_topics_messages_of_a_time_are_copied(tmp_path, wanted, skip, numbers) -> None:
    """The time is from `since` on, and before `until`; what is skipped was wanted."""
    found, records = copied(tmp_path, build_log(MADE, SEGMENT), wanted, skip)
    assert (found.seen, found.copied) == (8, len(numbers))
    assert [record.flag for record in records] == numbers


def test_a_topic_whose_name_goes_on_is_another(tmp_path: Path) -> None:
    made = [Message(topic, body=b"b", flag=n) for n, topic in enumerate(("T", "TU", "UT", "T"))]
    _, records = copied(tmp_path, build_log(made, SEGMENT), CopyChoice("T"))
    assert [record.flag for record in records] == [0, 3]


def test_the_copy_ends_at_the_sources_first_fault(tmp_path: Path) -> None:
    segments = build_log(MADE, SEGMENT)
    size = len(encode(MADE[0], 0))
    broken = bytearray(segments[0])
    broken[size + 90] ^= 1  # in the second body
    found, records = copied(tmp_path, {**segments, 0: bytes(broken)})
    assert found == Copied(1, 1, Fault.BODY_CRC, size)
    assert [record.flag for record in records] == [0]
    assert copied(tmp_path / "none", {})[0] == Copied(0, 0, Fault.NONE, 0)


def test_each_append_is_told_of(tmp_path: Path) -> None:
    told: list[int] = []
    with open_writer(tmp_path) as writer:
        copy_messages(writer, source(build_log(MADE, SEGMENT)), RULES, CopyChoice("T"), 1,
                      told.append)  # fmt: skip
    assert told == [1, 1, 1]


@pytest.mark.parametrize(
    "topic",
    [
        "%RETRY%g+T",  # KeyBuilder.buildPopRetryTopicV2
        "rmq_sys_REVIVE_LOG_Cluster.1", "%DLQ%a.b", "SCHEDULE_TOPIC_XXXX", "订单", " ",
    ],
)  # fmt: skip
def test_a_topic_that_no_producer_may_name_is_copied(tmp_path: Path, topic: str) -> None:
    """HookUtils.checkBeforePutMessage asks for no characters: brokers write such topics."""
    _, (record,) = copied(tmp_path, build_log([Message(topic, body=b"x")], SEGMENT))
    assert record.topic == topic
    assert (tmp_path / "consumequeue" / topic / "0").is_dir()


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (Message("a/b", body=b"x"), TopicUnsafe), (Message("..", body=b"x"), TopicUnsafe),
        (Message("é" * 64, body=b"x", version=2), TopicTooLong),  # 128 bytes
        (Message("T", body=b"x", properties=properties(("INNER_MULTI_DISPATCH", "%LMQ%a/b"))),
         TopicUnsafe),
    ],
)  # fmt: skip
def test_what_no_folder_can_be_named_by_is_not(tmp_path, made, kind: type[Refused]) -> None:
    with open_writer(tmp_path, release="4.9.7", enableMultiDispatch="true") as writer:
        with pytest.raises(kind):
            copy_messages(writer, source(build_log([made], SEGMENT)), RULES, ALL)
        assert writer.log.end == 0


@pytest.mark.parametrize("adds", ["true", "false"])
def test_a_crc_of_the_old_place_does_not_stay(tmp_path: Path, adds: str) -> None:
    made = Message("T", body=b"x", properties=properties(("A", "b")), crc_property=True)
    _, (record,) = copied(tmp_path, build_log([made], SEGMENT), enabledAppendPropCRC=adds)
    name = b"__CRC32#\x01"
    assert record.properties.startswith(made.properties)
    assert record.properties.count(name) == (adds == "true")


# --- A record read back with its body, or why there is none.
def test_a_log_that_is_open_for_reading_says_why_there_is_none(tmp_path: Path) -> None:
    files = disk(tmp_path / "store")
    with open_writer(tmp_path / "store") as writer:
        writer.append(RecordsMessage("T", b"one", properties=b""))
    with opened(files) as store:
        assert stored_at(store.log, 0).body == b"one"
        with pytest.raises(NoRecord):
            stored_at(store.log, 1)
        with pytest.raises(NotInLog):
            stored_at(store.log, 1 << 40)


# --- A record put once more: what belongs to the message stays, and the sysFlag's own bits are new.
V4, V6 = bytes((10, 0, 0, 1, 0, 0, 0x2A, 0x9F)), bytes(range(16)) + bytes((0, 0, 0x2A, 0x9F))
COMPRESSED, MULTI_TAGS, PREPARED, BORN_V6, STORE_V6 = 1, 2, 4, 0x10, 0x20


def record(**more: object) -> Record:
    given = {
        "topic_bytes": b"Half", "queue_id": 9, "queue_offset": 8, "physical_offset": 7, "size": 6,
        "magic": 5, "body_crc": 4, "flag": 3, "sys_flag": 0, "born_timestamp": 2, "born_host": V4,
        "store_timestamp": 1, "store_host": V4, "reconsume_times": 12, "prepared_offset": 11,
        "body_at": 0, "body_length": 4, "properties": b"A\x01b\x02", "body": b"body",
    } | more  # fmt: skip
    return Record(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sys_flag", "born", "store", "written"),
    [
        (0, V4, V4, SYS_TRANSACTION_COMMIT),
        (COMPRESSED | MULTI_TAGS | PREPARED, V4, V4, COMPRESSED | MULTI_TAGS | 8),
        (BORN_V6, V6, V4, BORN_V6 | 8), (STORE_V6 | BORN_V6, V4, V6, STORE_V6 | 8),
    ],
)  # fmt: skip
def test_flags_are_the_messages_own_and_hosts_and_type_are_as_they_are_now(
    tmp_path: Path, sys_flag: int, born: bytes, store: bytes, written: int
) -> None:
    with open_writer(tmp_path) as writer:
        given = record(sys_flag=sys_flag, born_host=born, store_host=store)
        put_again(writer, given, "Real", 2, b"C\x01d\x02", SYS_TRANSACTION_COMMIT, 77)
        now = writer.clock()
    (made,) = stored_records(tmp_path / "commitlog")
    assert (made.topic, made.queue_id, made.queue_offset, made.physical_offset) == ("Real", 2, 0, 0)
    assert (made.sys_flag, made.born_host, made.store_host) == (written, born, store)
    assert (made.body, made.properties, made.prepared_offset) == (b"body", b"C\x01d\x02", 77)
    assert (made.flag, made.born_timestamp, made.reconsume_times) == (3, 2, 12)
    assert made.store_timestamp == now


@pytest.mark.parametrize(("adds", "names"), [("true", ["A"]), ("false", ["A", "__CRC32#"])])
def test_a_crc_is_left_out_where_the_append_makes_it_anew(tmp_path, adds, names: list[str]) -> None:
    with open_writer(tmp_path, enabledAppendPropCRC=adds) as writer:
        given = record(properties=b"A\x01b\x02__CRC32#\x010123456789\x02")
        assert list(properties_of(writer, given)) == names
        assert text_of(writer, {"A": "b"}) == b"A\x01b\x02"
