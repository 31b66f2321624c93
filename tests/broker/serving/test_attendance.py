"""Who consumes and produces, as operators and other clients ask."""

from typing import Any

import pytest

from reput.broker.serving.broker import Answer, Broker
from reput.broker.serving.clients import Consumers
from reput.broker.serving.groups import GroupOffsets
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import Asked, said
from tests.jobs.sockets.asking import VERSION


@pytest.fixture
def asked(store: Asked) -> Asked:
    """Two consumers of the group g, which subscribes to T; one producer of p."""
    store.broker.consumers = Consumers()
    store.broker.offsets = GroupOffsets({("g", "U"): {0: 1}, ("h", "T"): {0: 1}})
    for client in (1, 2):
        store.heartbeat(client, "g", "T")
    body = {"clientID": "maker", "producerDataSet": [{"groupName": "p"}]}
    store.ask(RequestCode.HEART_BEAT, 3, body)
    return store


def connection(client: int, name: str) -> dict[str, Any]:
    return {"clientAddr": f"10.0.0.{client}:5000", "clientId": name, "language": "JAVA",
            "version": VERSION}  # fmt: skip


SUBSCRIPTION = {"classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
                "subVersion": 1, "tagsSet": [], "topic": "T"}  # fmt: skip


def test_who_consumes_and_produces_is_told(asked: Asked) -> None:
    code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    assert said(asked.ask(code, 1, consumerGroup="g")) == {"consumerIdList": ["c1", "c2"]}
    none = asked.ask(code, 1, consumerGroup="h")
    assert (none.code, none.remark) == (
        ResponseCode.SYSTEM_ERROR, "no consumer for this group, h")  # fmt: skip
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    assert said(asked.ask(code, 1, consumerGroup="g")) == {
        "connectionSet": [connection(1, "c1"), connection(2, "c2")],
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING", "subscriptionTable": {"T": SUBSCRIPTION}}  # fmt: skip
    assert asked.ask(code, 1, consumerGroup="h").code == ResponseCode.CONSUMER_NOT_ONLINE
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    found = said(asked.ask(code, 1, producerGroup="p"))
    assert found == {"connectionSet": [connection(3, "maker")]}
    assert asked.ask(code, 1, producerGroup="g").code == ResponseCode.SYSTEM_ERROR
    (every,) = said(asked.ask(RequestCode.GET_ALL_PRODUCER_INFO, 1))["data"].items()
    assert every == ("p", [{
        "clientId": "maker", "lastUpdateTimestamp": asked.now, "language": "JAVA",
        "remoteIP": "/10.0.0.3:5000", "version": VERSION}])  # fmt: skip
    for topic, groups in [("T", ["g", "h"]), ("U", ["g"]), ("None", [])]:
        found = said(asked.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, 1, topic=topic))
        assert found["groupList"] == groups
    found = said(asked.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, 1, group="g"))
    assert found == {"brokerAddr": "127.0.0.1:9876", "topicList": ["U"]}
    for topic, known in [("T", True), ("U", False)]:
        code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
        found = said(asked.ask(code, 1, group="g", topic=topic))
        expected: dict[str, Any] = {"group": "g", "topic": topic}
        assert found == (expected | {"subscriptionData": SUBSCRIPTION} if known else expected)


# --- Heartbeats: the groups, producers and subscriptions that a client tells of, however wrongly.
LONG, INT = 1 << 63, 1 << 31


@pytest.fixture
def asked_heartbeats(store: Asked) -> Asked:
    store.broker.consumers = Consumers()
    return store


def beat(asked_heartbeats: Asked, **more: Any) -> Answer:
    body = {"clientID": "c", "consumerDataSet": [{"groupName": "g"}], **more}
    return asked_heartbeats.ask(RequestCode.HEART_BEAT, 1, body)


def subscribing(**more: Any) -> list[dict[str, Any]]:
    return [{"groupName": "g", "subscriptionDataSet": [{"topic": "T", "subString": "A", **more}]}]


def known(broker: Broker) -> tuple[list[str], list[str]]:
    return list(broker.consumers.groups), list(broker.consumers.producers)


def test_what_is_no_heartbeat_is_refused_and_nothing_is_kept(asked_heartbeats: Asked) -> None:
    for body in [
        b"", b"{}", b"[]", b"null", b"7", b"{", b"\xff", b"[" * 100_000,
        {"clientID": "c", "consumerDataSet": 7}, {"clientID": "c", "consumerDataSet": [7]},
        {"clientID": "c", "consumerDataSet": [{}]}, {"clientID": "c", "producerDataSet": [{}]},
        {"clientID": "c", "heartbeatFingerprint": INT},
        {"clientID": "c", "heartbeatFingerprint": "1"}]:  # fmt: skip
        assert (asked_heartbeats.ask(RequestCode.HEART_BEAT, 1,
                                     body).code == ResponseCode.SYSTEM_ERROR)  # fmt: skip
        assert known(asked_heartbeats.broker) == ([], [])
    for size, code in [(256 << 10, 0), ((256 << 10) + 1, 1)]:
        body = b'{"clientID":"c"}'.ljust(size)
        assert asked_heartbeats.ask(RequestCode.HEART_BEAT, 1, body).code == code


def test_numbers_of_a_subscription_are_javas(asked_heartbeats: Asked) -> None:
    for more, code in [
        ({"subVersion": LONG - 1, "codeSet": [INT - 1, -INT]}, ResponseCode.SUCCESS),
        ({"subVersion": LONG}, ResponseCode.SYSTEM_ERROR),
        ({"subVersion": -LONG - 1}, ResponseCode.SYSTEM_ERROR),
        ({"subVersion": 1e999}, ResponseCode.SYSTEM_ERROR),
        ({"codeSet": [INT]}, ResponseCode.SYSTEM_ERROR),
        ({"codeSet": ["x"]}, ResponseCode.SYSTEM_ERROR),
        ({"subVersion": None, "expressionType": None, "tagsSet": None}, ResponseCode.SUCCESS),
    ]:
        asked_heartbeats.broker.consumers = Consumers()
        assert beat(asked_heartbeats, consumerDataSet=subscribing(**more)).code == code
        there = asked_heartbeats.broker.consumers.groups.get("g")
        assert (there is not None) is (code == ResponseCode.SUCCESS)
        if there is not None:
            subscription = there.subscriptions["T"]
            assert (subscription.text, subscription.kind) == ("A", "TAG")
            assert subscription.version == (more["subVersion"] or 0)


def test_groups_and_producers_of_illegal_names_are_passed_over(asked_heartbeats: Asked) -> None:
    said = beat(asked_heartbeats, clientID="c" * 999, consumerDataSet=[{"groupName": "a b"},
                                                                       {"groupName": "g"}],
                producerDataSet=[{"groupName": "p"}, {"groupName": ""}])  # fmt: skip
    assert said.code == ResponseCode.SUCCESS
    assert known(asked_heartbeats.broker) == (["g"], ["p"])
    assert asked_heartbeats.broker.store.topics["%RETRY%g"].read_queues == 1
    (client,) = asked_heartbeats.broker.consumers.groups["g"].clients.values()
    assert (len(client.id), client.heard, client.address) == (
        255, asked_heartbeats.now, "10.0.0.1:5000")  # fmt: skip


def test_a_client_leaves_the_groups_that_it_names(asked_heartbeats: Asked) -> None:
    beat(asked_heartbeats, producerDataSet=[{"groupName": "p"}])
    code = RequestCode.UNREGISTER_CLIENT
    asked_heartbeats.ask(code, 2, clientID="c", consumerGroup="g", producerGroup="p")
    assert known(asked_heartbeats.broker) == (["g"], ["p"])  # another connection's
    assert asked_heartbeats.ask(code, 1, consumerGroup="g").code == ResponseCode.SYSTEM_ERROR
    asked_heartbeats.ask(code, 1, clientID="c", producerGroup="p")
    assert known(asked_heartbeats.broker) == (["g"], [])
    asked_heartbeats.ask(code, 1, clientID="c", consumerGroup="g")
    assert known(asked_heartbeats.broker) == ([], [])


def test_a_subscription_is_checked_before_a_client_starts(asked_heartbeats) -> None:
    for wanted, code in [
        (None, 0),
        ({"topic": "T", "subString": "||", "expressionType": "TAG"}, 0),
        ({"topic": "T", "subString": "a > 5", "expressionType": "SQL92"}, 0),
        (
            {"topic": "T", "subString": "a >", "expressionType": "SQL92"},
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ),
        ({"subString": "*"}, ResponseCode.SYSTEM_ERROR),
        (7, ResponseCode.SYSTEM_ERROR),
    ]:
        body = {"clientId": "c", "subscriptionData": wanted}
        assert asked_heartbeats.ask(RequestCode.CHECK_CLIENT_CONFIG, 1, body).code == code
