"""What a broker does between requests: tells clients of changes, wakes pops, forgets the silent."""

from dataclasses import replace

import pytest

from reput.broker.serving import broker
from reput.broker.serving.broker import Broker, Caller, flag, found, number, text
from reput.broker.serving.clients import EXPIRY
from reput.broker.serving.popped import CheckPoint, InFlight
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import request

CALLER = Caller(1, "10.0.0.1:5000", "10.0.0.9:9876", 0)


@pytest.fixture
def asked(store: Asked) -> Asked:
    """A broker that has heard of nobody yet."""
    fresh = replace(store.broker, in_flight=InFlight(), closed=[], ticked=[], outbox=[],
                    woken=set())  # fmt: skip
    return Asked(fresh)


def tick(broker: Broker, now: int) -> None:
    for each in broker.ticked:
        each(now)


def test_members_of_a_group_are_told_of_a_change_with_a_request_of_ours(asked: Asked) -> None:
    asked.heartbeat(1, "g", "T")
    asked.broker.outbox.clear()
    asked.heartbeat(2, "g", "T")
    assert [connection for connection, _ in asked.broker.outbox] == [1, 2]
    _, note = asked.broker.outbox[0]
    assert note.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert note.fields == {"consumerGroup": "g"}
    assert note.version == asked.broker.version
    assert not note.is_response


def test_a_closed_connection_leaves_its_groups_and_an_address_is_the_one_given(asked) -> None:
    asked.heartbeat(1, "g", "T")
    for close in asked.broker.closed:
        close(1, asked.now)
    assert asked.broker.consumers.groups == {}
    for given, told in [(None, "10.0.0.9:9876"), ("broker:10911", "broker:10911")]:
        asked.broker.address = given
        assert asked.broker.address_for(CALLER) == told


def test_a_tick_forgets_who_is_silent_and_wakes_pops_for_what_is_due(asked: Asked) -> None:
    asked.heartbeat(1, "g", "T")
    asked.broker.in_flight.add("g", "T", CheckPoint(0, [0], 1, asked.now + 5))
    tick(asked.broker, asked.now + 4)
    assert asked.broker.woken == set()
    tick(asked.broker, asked.now + 5)
    assert asked.broker.woken == {("g", "T")}
    assert list(asked.broker.consumers.groups) == ["g"]
    tick(asked.broker, asked.now + EXPIRY + 1)
    assert asked.broker.consumers.groups == {}


# --- What a handler answers: fields are texts, and those that there are none of stay away.
def test_fields_are_written_as_texts() -> None:
    said = found(offset=0, least=-1, most=(1 << 63) - 1, group="g", none="")
    assert said.fields == {"offset": "0", "least": "-1", "most": "9223372036854775807",
                           "group": "g", "none": ""}  # fmt: skip
    # RemotingCommand.makeCustomHeaderToNet leaves null fields out.
    assert found(a=None, b=0, c=None).fields == {"b": "0"}
    found(a=1).fields["b"] = "2"
    assert found().fields == {}
    assert found(a=1).fields == {"a": "1"}


# --- A request's header fields: texts that are to be there, Java's numbers, Java's booleans.
LONG_MAX = (1 << 63) - 1


def test_a_missing_text_is_named_and_a_default_stands_for_what_is_missing_only() -> None:
    assert text(request(1, topic=""), "topic") == ""
    with pytest.raises(Refused, match="<topic> is null"):
        text(request(1, Topic="T"), "topic")
    assert number(request(1), "n", 0) == 0
    assert number(request(1, n=3), "n", 0) == 3
    with pytest.raises(Refused):
        number(request(1, n="x"), "n", 0)
    with pytest.raises(Refused, match="null"):
        number(request(1), "n")


def test_a_number_is_a_long_and_a_flag_what_parse_boolean_takes() -> None:
    for written, value in [("0", 0), ("-1", -1), ("007", 7), ("+5", 5), (str(LONG_MAX), LONG_MAX),
                           (str(~LONG_MAX), ~LONG_MAX)]:  # fmt: skip
        assert number(request(1, n=written), "n") == value
    for written in ["", "-", "+", "--1", "+-1", "1.5", " 1", "1_0", "0x1", "\u0663", "\u00b2",
                    str(LONG_MAX + 1), str(~LONG_MAX - 1), "9" * 10_000, "null"]:  # fmt: skip
        with pytest.raises(Refused, match="<n> is no"):
            number(request(1, n=written), "n")
    for written, value in [
        ("true", True), ("TRUE", True), ("True", True), ("false", False), ("1", False), ("", False),
        (" true", False)]:  # fmt: skip
        assert flag(request(1, f=written), "f") is value
        assert flag(request(1), "f") is False


# --- All that would write is refused in a broker's words, but for the topic that a Proxy needs.
def test_what_would_write_is_refused_by_its_name(store: Asked) -> None:
    for code in [
        RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_REPLY_MESSAGE_V2]:  # fmt: skip
        answer = store.ask(code, 1, b"body")
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == ("the broker[127.0.0.1:9876] sending message is forbidden: "
                                 "reput serves this store to be read only")  # fmt: skip
    for code in [RequestCode.END_TRANSACTION, RequestCode.DELETE_TOPIC_IN_BROKER,
                 RequestCode.UPDATE_BROKER_CONFIG, RequestCode.REGISTER_BROKER,
                 RequestCode.UNREGISTER_BROKER, RequestCode.DELETE_EXPIRED_COMMITLOG,
                 RequestCode.AUTH_CREATE_USER]:  # fmt: skip
        answer = store.ask(code, 1, brokerId=0)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert str(answer.remark).startswith(f"{code.name} would change the store")


def test_only_a_proxys_own_topic_is_made_in_memory_and_not_more_than_some(
    store: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, made in [
        ("DefaultHeartBeatSyncerTopic", True), ("HeartBeatSyncerTopic", True), ("T2", False),
        ("HeartBeatSyncerTopic2", False), ("a b HeartBeatSyncerTopic", False),
        ("x" * 236 + "HeartBeatSyncerTopic", False)]:  # fmt: skip
        answer = store.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, 1, topic=name)
        assert (answer.code == ResponseCode.SUCCESS) is made
        assert (name in store.broker.store.topics) is made
    code = RequestCode.UPDATE_AND_CREATE_TOPIC
    store.ask(code, 1, topic="oneHeartBeatSyncerTopic")
    there = sum(name.endswith("HeartBeatSyncerTopic") for name in store.broker.store.topics)
    monkeypatch.setattr(broker, "_MOST_MADE", there)
    assert store.ask(code, 1, topic="twoHeartBeatSyncerTopic").code == ResponseCode.NO_PERMISSION
    assert store.ask(code, 1, topic="oneHeartBeatSyncerTopic").code == ResponseCode.SUCCESS
