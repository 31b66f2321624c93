"""Every refusal has its own error, and RocketMQ's status; and nothing is written."""

from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.message import refusals as errors
from reput.store_format.message.message import (
    Message,
    check_keys,
    check_types,
    encode_properties,
    parse_properties,
    wrong_type,
)
from reput.store_format.message.refusals import FieldRange, FieldType, SeparatorInProperty
from tests.broker.writer.stores import open_writer, stored_records

REFUSALS = [
    (Message("", b""), errors.TopicBlank), (Message("  ", b""), errors.TopicBlank),
    (Message("a/b", b""), errors.TopicCharacters), (Message("héllo", b""), errors.TopicCharacters),
    (Message("a b", b""), errors.TopicCharacters), (Message("T" * 128, b""), errors.TopicTooLong),
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
]  # fmt: skip
# A field, and a value of a type that it cannot have.
WRONG_TYPES = [
    ("topic", 5), ("topic", b"T"), ("topic", None), ("body", "text"), ("body", 5),
    ("queue_id", 1.0), ("queue_id", None), ("tags", b"t"), ("tags", ["t"]), ("keys", 5),
    ("keys", [1]), ("keys", {"a": 1}), ("properties", {"a": None}), ("properties", {1: "a"}),
    ("properties", ["a"]), ("flag", 1.5), ("delay_level", "3"), ("transaction", "4"),
    ("sys_flag", None), ("born_timestamp", 1.5), ("born_host", 5), ("store_host", b"127.0.0.1:1"),
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


def test_delay_in_the_properties_is_delay_level_and_a_batch_stands_in_one_segment(tmp_path) -> None:
    with open_writer(tmp_path) as writer:
        for fields in ({"delay_level": 3}, {"properties": {"DELAY": "3"}}):
            writer.append(Message("T", b"", 2, unique_key="U", born_timestamp=1, **fields))
        with pytest.raises(errors.BatchIllegal):
            writer.append_batch([Message("A", b"", properties={"DELAY": "1"})])
    one, other = stored_records(tmp_path / "commitlog")
    assert one.topic == "SCHEDULE_TOPIC_XXXX"
    assert (one.queue_id, one.queue_offset, other.queue_offset) == (2, 0, 1)
    assert sorted(one.properties.split(b"\2")) == sorted(other.properties.split(b"\2"))
    # What does not fit goes whole into the next one; more than a segment is refused.
    with open_writer(tmp_path / "other") as writer:
        writer.append(Message("T", bytes(3000)))
        result = writer.append_batch([Message("T", bytes(400)) for _ in range(3)])
        assert result.physical_offset == 4096
        assert result.message_id.count(",") == 2
        with pytest.raises(errors.MessageTooLarge):
            writer.append_batch([Message("T", bytes(1000)) for _ in range(4)])
    bodies = [len(record.body) for record in stored_records(tmp_path / "other" / "commitlog")]
    assert bodies == [3000, 400, 400, 400]


@pytest.mark.parametrize(("message", "error"), REFUSALS, ids=lambda v: getattr(v, "__name__", ""))
def test_what_rocketmq_refuses_is_refused(tmp_path, message, error) -> None:
    with open_writer(tmp_path, maxMessageSize=1000) as writer:
        with pytest.raises(error) as raised:
            writer.append(message)
        assert type(raised.value) is error
        assert writer.log.end == 0
    status = "PROPERTIES_SIZE_EXCEEDED" if error is errors.PropertiesTooLarge else "MESSAGE_ILLEGAL"
    assert raised.value.status == status


def test_what_is_just_allowed_is_taken_and_a_batch_topic_is_not_written_to(tmp_path: Path) -> None:
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
    with open_writer(tmp_path / "other", batch_topics=["B"]) as writer:  # noqa: SIM117
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
    # a list without a number each is not dispatched
    assert numbers(tmp_path / "on") == ["0,0", "1", "1,", "1,2", "3", "2,"]
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


# --- Wrong values of a message's fields, by the field and by the least and greatest that fits.
def message(**named: Any) -> Message:
    return Message(**{"topic": "T", "body": b"", **named})


@pytest.mark.parametrize(("name", "fits", "over"), [
    ("queue_id", 2**31 - 1, 2**31), ("flag", -(2**31), -(2**31) - 1),
    ("prepared_offset", 2**63 - 1, 2**63), ("born_timestamp", -(2**63), -(2**63) - 1),
])  # fmt: skip
def test_offsets_and_times_are_longs_and_the_rest_ints(name: str, fits: int, over: int) -> None:
    check_types(message(**{name: fits}))
    with pytest.raises(FieldRange, match=f"^{name}="):
        check_types(message(**{name: over}))


@pytest.mark.parametrize("named", [
    {"body": None}, {"body": bytearray(1)}, {"body": memoryview(b"x")},
    {"flag": np.int32(7), "queue_id": True}, {"unique_key": None}, {"born_timestamp": None},
    {"properties": None}, {"properties": b"\xff"}, {"properties": UserDict(a="x")},
])  # fmt: skip
def test_what_the_encoder_can_write_passes(named: dict[str, Any]) -> None:
    check_types(message(**named))


def test_keys_are_texts_and_a_wrong_field_is_named_without_its_value() -> None:
    keys: Any
    for keys in ("", "a b", [], ["a"], ("a", "b")):
        check_keys(keys)
    for keys, kind in ((b"a", "bytes"), ({"a"}, "set"), (["a", None], "NoneType"),
                       ([b"a"], "bytes")):  # fmt: skip
        with pytest.raises(FieldType, match=f"expected text or several texts, not {kind}$"):
            check_keys(keys)
    assert str(wrong_type("properties", "text", b"secret")) == (
        "properties: expected text, not bytes"
    )
    with pytest.raises(FieldType) as raised:
        check_types(Message("T", b"", properties={"a": b"secret"}))  # type: ignore[dict-item]
    assert "secret" not in str(raised.value)
    with pytest.raises(FieldType, match=r"^topic:"):
        check_types(Message(5, "text", flag="1"))  # type: ignore[arg-type]
    assert encode_properties({}, 16, ended=True) == encode_properties({}, 16, ended=False) == b""
    assert encode_properties({"100%": "%s", "%d": "é"}, 16, ended=False) in (
        b"100%\x01%s\x02%d\x01\xc3\xa9", b"%d\x01\xc3\xa9\x02100%\x01%s",
    )  # fmt: skip
    assert encode_properties({"a": "\ud800x"}, 16, ended=True) == b"a\x01?x\x02"  # as Java does
    assert encode_properties({"a": " "}, 16, ended=True) == b"a\x01 \x02"
    with pytest.raises(SeparatorInProperty):
        encode_properties({"a": " ", "b": "\x01"}, 16, ended=True)
    assert encode_properties({"a\2": "\1"}, 16, ended=True, checked=False) == b"a\2\1\1\2"


# --- Properties as text: which pairs count in which release, and in what order they are written.
@pytest.mark.parametrize(("raw", "old", "new"), [
    (b"", {}, {}), (b"a\x01x\x02b\x01y\x02", {"a": "x", "b": "y"}, {"a": "x", "b": "y"}),
    (b"a\x01x\x02b\x01y", {"a": "x", "b": "y"}, {"a": "x", "b": "y"}),
    (b"a\x01x\x02a\x01y\x02", {"a": "y"}, {"a": "y"}),
    (b"TAGS\x01a\x01\x02", {"TAGS": "a"}, {"TAGS": "a\x01"}),
    (b"TAGS\x01a\x01b\x02", {}, {"TAGS": "a\x01b"}), (b"TAGS\x01\x02", {}, {}),
    (b"\x01a\x02", {"": "a"}, {}), (b"TAGS\x02\x02\x01\x02", {}, {}),
    (b"a\x01\x01x\x02", {}, {"a": "\x01x"}),
    (b"a\x01\xed\xa0\x80\x02", {"a": "\ufffd"}, {"a": "\ufffd"}),
])  # fmt: skip
def test_releases_split_a_pair_in_two_ways(raw, old, new) -> None:
    assert parse_properties(raw, split=True) == old
    assert parse_properties(raw) == new


@pytest.mark.parametrize(
    ("capacity", "order"),
    [(16, b"p\x011\x02a\x012\x02b\x013\x02"), (128, b"a\x012\x02b\x013\x02p\x011\x02")],
)
def test_the_order_is_that_of_the_hash_map(capacity: int, order: bytes) -> None:
    """`p`, `a`, `b` are 112, 97, 98: buckets 0, 1, 2 of 16, and themselves of 128."""
    for given in ({"p": "1", "a": "2", "b": "3"}, {"b": "3", "a": "2", "p": "1"}):
        assert encode_properties(given, capacity, ended=True) == order
        assert encode_properties(given, capacity, ended=False) == order[:-1]
