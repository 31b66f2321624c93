"""Messages of another log appended to this one: which, in what order, and up to its first fault."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer.copies import Copied, CopyChoice, SourceSegment, copy_messages
from reput.store_format.faults import Fault
from reput.store_format.log.record import Record
from reput.store_format.message.refusals import Refused, TopicTooLong, TopicUnsafe
from tests.broker.writer.stores import RULES, open_writer, stored_records
from tests.logs.encoder import Message, build_log, encode, properties

SEGMENT = 512
ALL = CopyChoice()
START = 1_700_000_000_000
HOST = bytes((10, 1, 2, 3, 0, 0, 0x2A, 0x9F))
MADE = [
    Message(
        "TU"[n % 2], 3, 40 + n, b"body %d" % n, properties(("KEYS", f"k{n}")), START + 1000 * n,
        flag=n, born_timestamp=START - n, born_host=HOST, store_host=HOST, reconsume_times=2,
    )
    for n in range(8)
]  # fmt: skip


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
def test_one_topics_messages_of_a_time_are_copied(
    tmp_path: Path, wanted: CopyChoice, skip: int, numbers: list[int]
) -> None:
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
def test_what_no_folder_can_be_named_by_is_not(
    tmp_path: Path, made: Message, kind: type[Refused]
) -> None:
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
