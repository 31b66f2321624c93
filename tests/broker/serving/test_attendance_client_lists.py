"""Who consumes and produces, as operators and other clients ask."""

from typing import Any

import pytest

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
    return {
        "clientAddr": f"10.0.0.{client}:5000", "clientId": name, "language": "JAVA",
        "version": VERSION,
    }  # fmt: skip


SUBSCRIPTION = {
    "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*",
    "subVersion": 1, "tagsSet": [], "topic": "T",
}  # fmt: skip


def test_members_are_told_to_each_other(asked: Asked) -> None:
    code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    assert said(asked.ask(code, 1, consumerGroup="g")) == {"consumerIdList": ["c1", "c2"]}
    none = asked.ask(code, 1, consumerGroup="h")
    assert (none.code, none.remark) == (
        ResponseCode.SYSTEM_ERROR, "no consumer for this group, h",
    )  # fmt: skip


def test_a_groups_clients_and_subscriptions(asked: Asked) -> None:
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    assert said(asked.ask(code, 1, consumerGroup="g")) == {
        "connectionSet": [connection(1, "c1"), connection(2, "c2")],
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING", "subscriptionTable": {"T": SUBSCRIPTION},
    }  # fmt: skip
    assert asked.ask(code, 1, consumerGroup="h").code == ResponseCode.CONSUMER_NOT_ONLINE


def test_producers_by_group_and_all_of_them(asked: Asked) -> None:
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    found = said(asked.ask(code, 1, producerGroup="p"))
    assert found == {"connectionSet": [connection(3, "maker")]}
    assert asked.ask(code, 1, producerGroup="g").code == ResponseCode.SYSTEM_ERROR
    (every,) = said(asked.ask(RequestCode.GET_ALL_PRODUCER_INFO, 1))["data"].items()
    assert every == (
        "p",
        [{"clientId": "maker", "lastUpdateTimestamp": asked.now, "language": "JAVA",
          "remoteIP": "/10.0.0.3:5000", "version": VERSION}],
    )  # fmt: skip


@pytest.mark.parametrize(("topic", "groups"), [("T", ["g", "h"]), ("U", ["g"]), ("None", [])])
def test_groups_of_a_topic_subscribe_to_it_or_have_an_offset(
    asked: Asked, topic: str, groups: list[str]
) -> None:
    found = said(asked.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, 1, topic=topic))
    assert found["groupList"] == groups


def test_topics_of_a_group_are_those_it_has_offsets_of(asked: Asked) -> None:
    found = said(asked.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, 1, group="g"))
    assert found == {"brokerAddr": "127.0.0.1:9876", "topicList": ["U"]}


@pytest.mark.parametrize(("topic", "known"), [("T", True), ("U", False)])
def test_a_subscription_is_told_where_there_is_one(asked: Asked, topic: str, known: bool) -> None:
    code = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    found = said(asked.ask(code, 1, group="g", topic=topic))
    expected: dict[str, Any] = {"group": "g", "topic": topic}
    assert found == (expected | {"subscriptionData": SUBSCRIPTION} if known else expected)
