"""What a message keeps when it is sent again, and what is asked of a broker."""

import struct
from typing import Any

import pytest

from reput.broker.wire import producing
from reput.broker.wire.remoting import BadFrame
from reput.store_format.log.rules import record_rules
from reput.store_format.message.bodies import inner_messages
from reput.store_format.release.profiles import profile
from tests.logs.encoder import Message, encode, properties

RULES = record_rules(profile("5.5.0"))
STAYS = {"UNIQ_KEY": "u", "KEYS": "k", "TAGS": "t", "price": "7", "__SHARDINGKEY": "s",
         "INSTANCE_ID": "i", "CORRELATION_ID": "c"}  # fmt: skip
# A dead letter of a 5.3.3 broker (live_orders_dlq_trace_5.3.3), a retry by pop, a half message.
LIVES: list[dict[str, str]] = [
    {"ORIGIN_MESSAGE_ID": "7F", "RETRY_TOPIC": "Orders", "MSG_REGION": "DefaultRegion",
     "CLUSTER": "C", "DELAY": "0", "WAIT": "false", "TRACE_ON": "true",
     "REAL_TOPIC": "%RETRY%billing", "REAL_QID": "0"},
    {"ORIGIN_GROUP": "g", "TIMER_ROLL_LABEL": "1", "TRANS_OFFSET": "7"},
    {"1ST_POP_TIME": "5", "POP_CK": "0 1 2", "RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16"},
    {"TRAN_MSG": "true", "PGROUP": "p", "__transactionId__": "u", "TRANSACTION_CHECK_TIMES": "1"},
    {"TIMER_DELIVER_MS": "9", "TIMER_OUT_MS": "8", "TIMER_ROLL_TIMES": "1", "__CRC32#": "1"},
    {"__RMQ.TRANSIENT.TOPIC_SYS_FLAG": "0", "MIN_OFFSET": "0", "INNER_NUM": "2"},
]  # fmt: skip


@pytest.mark.parametrize("life", LIVES)
def test_what_a_message_has_of_its_former_life_goes(life: dict[str, str]) -> None:
    assert producing.kept_properties({**life, **STAYS}, "Orders", "new") == STAYS
    assert producing.kept_properties(life, "Orders", "new") == {"UNIQ_KEY": "new"}


@pytest.mark.parametrize(("life", "origin"), [
    ({"DLQ_ORIGIN_TOPIC": "A", "RETRY_TOPIC": "B"}, "A"), ({"RETRY_TOPIC": "B"}, "B"),
    ({"REAL_TOPIC": "C"}, None), ({}, None)])  # fmt: skip
def test_a_dead_letter_s_origin(life: dict[str, str], origin: str | None) -> None:
    assert producing.origin_of(life) == origin
    to_group = producing.kept_properties(life, "%RETRY%g", "u").get("RETRY_TOPIC")
    assert to_group == origin  # what the group's listener is shown
    assert "RETRY_TOPIC" not in producing.kept_properties(life, "%DLQ%g", "u")


def test_a_broker_s_own_flags_go_and_compression_stays() -> None:
    # a transaction's commit, IPv6 hosts, an inner batch, several tags; zlib, LZ4, zstd
    assert [producing.kept_flags(each) for each in (0x8, 0x30, 0xC0, 0x2, 0x200)] == [0] * 5
    assert [producing.kept_flags(each | 0xFE) for each in (1, 0x101, 0x201)] == [1, 0x101, 0x201]


def message(**more: Any) -> producing.Outgoing:
    given: dict[str, Any] = {"place": (0, 0), "topic": "T", "queue_id": 1, "properties":
                             {"UNIQ_KEY": "u"}, "body": b"b", "flag": 5, "sys_flag": 0}  # fmt: skip
    return producing.Outgoing(**given | more)


def test_a_message_travels_in_the_header_and_a_batch_in_the_body() -> None:
    asked = producing.send_request([message(sys_flag=0x201)], 3, 77)
    assert (asked.code, asked.body) == (310, b"b")
    assert asked.fields == {
        "a": "reput", "b": "T", "c": "TBW102", "d": "4", "e": "3", "f": "513", "g": "77", "h": "5",
        "i": "UNIQ_KEY\x01u", "j": "0", "k": "false", "m": "false"}  # fmt: skip
    asked = producing.send_request([message(), message(body=b"c", flag=6)], 3, 77)
    assert (asked.code, asked.fields["m"], asked.fields["i"]) == (320, "true", "")
    assert list(inner_messages(asked.body or b"")) == [
        (5, b"b", b"UNIQ_KEY\x01u"), (6, b"c", b"UNIQ_KEY\x01u")]  # fmt: skip


@pytest.mark.parametrize(("more", "fits"), [
    ({}, True), ({"sys_flag": 1}, False), ({"topic": "%RETRY%g"}, False),
    ({"topic": "T" * 127}, True), ({"topic": "T" * 128}, False), ({"refused": "why"}, False),
    ({"properties": {"INNER_MULTI_DISPATCH": "%LMQ%x"}}, False)])  # fmt: skip
def test_what_brokers_take_in_a_batch(more: dict[str, Any], fits: bool) -> None:
    assert message(**more).fits_batch is fits


def test_pulled_messages_are_records_as_they_stand() -> None:
    raw = b"".join(encode(Message(queue_offset=n, properties=properties(("UNIQ_KEY", f"u{n}"))),
                          at) for n, at in enumerate((1 << 40, 7)))  # fmt: skip
    assert [(each.queue_offset, each.physical_offset) for each in producing.pulled(raw, RULES)] == [
        (0, 1 << 40), (1, 7)]  # fmt: skip
    assert list(producing.pulled(b"", RULES)) == []


@pytest.mark.parametrize("change", ["short", "head", "size", "negative", "huge", "magic"])
def test_what_is_no_pulled_message_is_an_error(change: str) -> None:
    raw = encode(Message(body=b"body"), 0)
    made = {"short": raw[:-1], "head": raw[:7], "size": struct.pack(">i", 20) + raw[4:],
            "negative": struct.pack(">i", -1) + raw[4:], "magic": raw[:4] + bytes(4) + raw[8:],
            "huge": struct.pack(">i", (1 << 31) - 1) + raw[4:]}  # fmt: skip
    with pytest.raises(BadFrame, match="pulled message"):
        list(producing.pulled(made[change], RULES))
