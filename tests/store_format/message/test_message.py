"""Every refusal has its own error, and RocketMQ's status; and nothing is written."""

from pathlib import Path

import pytest

from reput.store_format.java import hash_map_order
from reput.store_format.kernels.java_text import hash_text
from reput.store_format.message import refusals as errors
from reput.store_format.message.message import Message, parse_properties
from tests.broker.writer.stores import open_writer, stored_records

REFUSALS = [
    (Message("", b""), errors.TopicBlank),
    (Message("  ", b""), errors.TopicBlank),
    (Message("a/b", b""), errors.TopicCharacters),
    (Message("héllo", b""), errors.TopicCharacters),
    (Message("a b", b""), errors.TopicCharacters),
    (Message("T" * 128, b""), errors.TopicTooLong),
    (Message("%RETRY%" + "g" * 249, b""), errors.TopicTooLong),
    (Message("SCHEDULE_TOPIC_XXXX", b""), errors.TopicForbidden),
    (Message("RMQ_SYS_TRANS_HALF_TOPIC", b""), errors.TopicForbidden),
    (Message("T", None), errors.BodyMissing),  # type: ignore[arg-type]
    (Message("T", bytes(1001)), errors.BodyTooLarge),
    (Message("T", b"", tags="a\x01b"), errors.SeparatorInProperty),
    (Message("T", b"", keys="a\x02"), errors.SeparatorInProperty),
    (Message("T", b"", properties={"n": "a\0"}), errors.SeparatorInProperty),
    (Message("T", b"", properties={"n\x01": "a"}), errors.SeparatorInProperty),
    (Message("T", b"", properties=b"n\x01a\0\x02"), errors.SeparatorInProperty),
    (Message("T", b"", properties={"n": " "}), errors.PropertyBlank),
    (Message("T", b"", properties={"": "v"}), errors.PropertyBlank),
    (Message("T", b"", properties={"n": "v" * 32768}), errors.PropertiesTooLarge),
    (Message("T", bytes(900), properties={"n": "v" * 3200}), errors.MessageTooLarge),
    (Message("T", b"", born_host="localhost:1"), errors.HostInvalid),
    (Message("T", b"", store_host="127.0.0.1"), errors.HostInvalid),
    (Message("T", b"", store_host="127.0.0.1:65536"), errors.HostInvalid),
    (Message("T", b"", queue_id=1 << 31), errors.FieldRange),
    (Message("T", b"", flag=-(1 << 31) - 1), errors.FieldRange),
    (Message("T", b"", queue_id=-1), errors.FieldRange),
    (Message("T", b"", properties={"DELAY": "soon"}), errors.DelayInvalid),
]
# A field, and a value of a type that it cannot have.
WRONG_TYPES = [
    ("topic", 5), ("topic", b"T"), ("topic", None), ("topic", ["T"]), ("body", "text"),
    ("body", 5), ("queue_id", "1"), ("queue_id", 1.0), ("queue_id", None), ("tags", 5),
    ("tags", b"t"), ("tags", ["t"]), ("keys", 5), ("keys", [1]), ("keys", b"k"),
    ("keys", {"a": 1}), ("properties", {"a": 1}), ("properties", {"a": None}),
    ("properties", {1: "a"}), ("properties", ["a"]), ("flag", "1"), ("flag", 1.5),
    ("delay_level", "3"), ("transaction", "4"), ("sys_flag", None), ("born_timestamp", "now"),
    ("born_timestamp", 1.5), ("born_host", 5), ("store_host", b"127.0.0.1:1"),
    ("reconsume_times", "0"), ("prepared_offset", []), ("unique_key", 5),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG_TYPES)
def test_a_wrong_type_is_named_by_its_field(tmp_path: Path, name: str, value: object) -> None:
    message = Message(**{"topic": "T", "body": b"", name: value})  # type: ignore[arg-type]
    with open_writer(tmp_path) as writer:
        for put in (writer.append, lambda one: writer.append_batch([one, one])):
            with pytest.raises(errors.FieldType, match=rf"^{name}: expected .*, not \w+$"):
                put(message)
        assert writer.log.end == 0


def test_delay_in_the_properties_is_the_same_as_delay_level(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        for fields in ({"delay_level": 3}, {"properties": {"DELAY": "3"}}):
            writer.append(Message("T", b"", 2, unique_key="U", born_timestamp=1, **fields))
    one, other = stored_records(tmp_path / "commitlog")
    assert one.topic == "SCHEDULE_TOPIC_XXXX"
    assert (one.queue_id, one.queue_offset, other.queue_offset) == (2, 0, 1)
    assert sorted(one.properties.split(b"\2")) == sorted(other.properties.split(b"\2"))


def test_before_the_timer_wheel_its_properties_mean_nothing(tmp_path: Path) -> None:
    with open_writer(tmp_path, release="4.9.7") as writer:
        writer.append(Message("T", b"", properties={"TIMER_DELAY_SEC": "5"}))
    (record,) = stored_records(tmp_path / "commitlog")
    assert record.topic == "T"
    assert b"TIMER_DELAY_SEC\x015" in record.properties


@pytest.mark.parametrize(("message", "error"), REFUSALS, ids=lambda v: getattr(v, "__name__", ""))
def test_what_rocketmq_refuses_is_refused(
    tmp_path: Path, message: Message, error: type[errors.Refused]
) -> None:
    with open_writer(tmp_path, maxMessageSize=1000) as writer:
        with pytest.raises(error) as raised:
            writer.append(message)
        assert type(raised.value) is error
        assert writer.log.end == 0
    status = "PROPERTIES_SIZE_EXCEEDED" if error is errors.PropertiesTooLarge else "MESSAGE_ILLEGAL"
    assert raised.value.status == status


def test_what_is_just_allowed_is_taken(tmp_path: Path) -> None:
    with open_writer(tmp_path, mappedFileSizeCommitLog=1 << 17, maxMessageSize=1000) as writer:
        for message in (
            Message("T" * 127, b""),
            Message("%RETRY%" + "g" * 248, b""),
            Message("T|%_-9", bytes(1000)),
            Message("T", b"", properties=b"n\x01" + b"v" * (32767 - 3) + b"\x02"),
            Message("T", b"", queue_id=(1 << 31) - 1, flag=-(1 << 31)),
            Message("T", b"", born_host="[::1]:0", store_host="1.2.3.4:65535"),
            Message("T", b"", tags="\ud800"),  # Java writes a lone surrogate as `?`
        ):
            assert writer.append(message).status == "PUT_OK"


def test_ipv6_and_long_topics_need_their_release(tmp_path: Path) -> None:
    with open_writer(tmp_path, release="4.5.2") as writer, pytest.raises(errors.HostFamily):
        writer.append(Message("T", b"", born_host="[::1]:1"))
    with open_writer(tmp_path / "b", release="5.0.0") as writer:  # noqa: SIM117
        with pytest.raises(errors.TopicTooLong):
            writer.append(Message("%RETRY%" + "g" * 200, b""))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [Message("A", b""), Message("B", b"")],
        [Message("A", b"", 0), Message("A", b"", 1)],
        [Message("A", b"", delay_level=1)],
        [Message("A", b"", properties={"DELAY": "1"})],
        [Message("A", b"", transaction=4)],
        [Message("A", b"", wait=False), Message("A", b"")],
    ],
)
def test_a_batch_is_of_one_topic_and_queue(tmp_path: Path, messages: list[Message]) -> None:
    with open_writer(tmp_path) as writer:
        with pytest.raises(errors.BatchIllegal):
            writer.append_batch(messages)
        assert writer.log.end == 0


def test_a_batch_topic_is_not_written_to(tmp_path: Path) -> None:
    with open_writer(tmp_path, batch_topics=["B"]) as writer:  # noqa: SIM117
        with pytest.raises(errors.BatchQueueTopic):
            writer.append(Message("B", b""))


LMQ = {"enableMultiDispatch": "true", "enableLmq": "true"}


def numbers(store: Path) -> list[str | None]:
    """INNER_MULTI_QUEUE_OFFSET of each record."""
    found = (parse_properties(r.properties) for r in stored_records(store / "commitlog"))
    return [properties.get("INNER_MULTI_QUEUE_OFFSET") for properties in found]


def test_a_messages_further_queues_are_numbered_and_go_on_after_an_open(tmp_path: Path) -> None:
    def message(names: str) -> Message:
        return Message("T", b"", properties={"INNER_MULTI_DISPATCH": names, "WAIT": "false"})

    for _ in range(2):
        with open_writer(tmp_path / "on", **LMQ) as writer:
            for names in ("%LMQ%a,%LMQ%b", "%LMQ%b", "%LMQ%a,T"):
                writer.append(message(names))
    assert numbers(tmp_path / "on") == [
        "0,0",
        "1",
        "1,",
        "1,2",
        "3",
        "2,",
    ]  # a list without a number each is not dispatched
    queues = sorted(p.parent.parent.name for p in (tmp_path / "on").rglob("consumequeue/*/0/*"))
    assert queues == ["%LMQ%a", "%LMQ%b", "T"]
    with open_writer(tmp_path / "off") as writer:
        writer.append(message("%LMQ%a"))
    assert numbers(tmp_path / "off") == [None]


def test_a_message_that_is_too_large_with_its_numbers_takes_none(tmp_path: Path) -> None:
    names = ",".join(f"%LMQ%{n}" for n in range(9))
    with open_writer(tmp_path / "on", maxMessageSize="1000", **LMQ) as writer:
        for size in (700, 900):  # of 5.2.0 on maxMessageSize is of the whole record
            message = Message("T", b"x" * size, properties={"INNER_MULTI_DISPATCH": names})
            if size == 900:
                with pytest.raises(errors.MessageTooLarge, match="with further queues"):
                    writer.append(message)
            else:
                writer.append(message)
        writer.append(Message("T", b"", properties={"INNER_MULTI_DISPATCH": "%LMQ%0"}))
    assert numbers(tmp_path / "on") == [",".join("0" * 9), "1"]


@pytest.mark.parametrize(("left", "at"), [(7, 4096), (8, 2048), (0, 4096)])
def test_a_record_goes_where_a_blank_still_fits_after_it(tmp_path, left: int, at: int) -> None:
    """A segment always has eight bytes for its BLANK: else nothing would say where it ends."""
    with open_writer(tmp_path) as writer:
        first = writer.append(Message("T", b"", unique_key="U"))
        writer.append(Message("T", bytes(2048 - 2 * first.size), unique_key="U"))
        body = bytes(2048 - first.size - left)
        assert writer.append(Message("T", body, unique_key="U")).physical_offset == at
    assert len(list(stored_records(tmp_path / "commitlog"))) == 3


def test_a_batch_stands_in_one_segment(tmp_path: Path) -> None:
    """What does not fit goes whole into the next one; more than a segment is refused."""
    with open_writer(tmp_path) as writer:
        writer.append(Message("T", bytes(3000)))
        result = writer.append_batch([Message("T", bytes(400)) for _ in range(3)])
        assert result.physical_offset == 4096
        assert result.message_id.count(",") == 2
        with pytest.raises(errors.MessageTooLarge):
            writer.append_batch([Message("T", bytes(1000)) for _ in range(4)])
    bodies = [len(record.body) for record in stored_records(tmp_path / "commitlog")]
    assert bodies == [3000, 400, 400, 400]


def test_a_crowded_bucket_makes_a_hash_map_larger() -> None:
    """What a JDK 17 HashMap of 16 buckets yields after nine names of one hash code, and two more.

    `b` and `s` are in buckets 2 and 3 of 16, and 98 & 31 = 2, 115 & 31 = 19 of 32.
    """
    alike = [f"{a}{b}{c}{d}" for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB")
             for d in ("Aa", "BB")]  # fmt: skip
    few = hash_map_order(("s", "b", *alike[:8]), 16)
    many = hash_map_order(("s", "b", *alike[:9]), 16)
    place = hash_text(alike[0]) ^ (hash_text(alike[0]) & 0xFFFFFFFF) >> 16
    assert few == tuple(sorted(range(10), key=lambda i: (3, 2, *[place & 15] * 8)[i]))
    assert many == tuple(sorted(range(11), key=lambda i: (19, 2, *[place & 31] * 9)[i]))
