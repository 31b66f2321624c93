"""Heartbeats: the groups, producers and subscriptions that a client tells of, however wrongly."""

from typing import Any

import pytest

from reput.broker.serving import clients
from reput.broker.serving.broker import Answer, Broker
from reput.broker.serving.clients import Consumers
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import Asked

LONG, INT = 1 << 63, 1 << 31


@pytest.fixture
def asked(store: Asked) -> Asked:
    store.broker.consumers = Consumers()
    return store


def beat(asked: Asked, **more: Any) -> Answer:
    body = {"clientID": "c", "consumerDataSet": [{"groupName": "g"}], **more}
    return asked.ask(RequestCode.HEART_BEAT, 1, body)


def subscribing(**more: Any) -> list[dict[str, Any]]:
    return [{"groupName": "g", "subscriptionDataSet": [{"topic": "T", "subString": "A", **more}]}]


def known(broker: Broker) -> tuple[list[str], list[str]]:
    return list(broker.consumers.groups), list(broker.consumers.producers)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b"null", b"7", b"{", b"\xff", b"[" * 100_000,
        {"clientID": "c", "consumerDataSet": 7}, {"clientID": "c", "consumerDataSet": [7]},
        {"clientID": "c", "consumerDataSet": [{}]}, {"clientID": "c", "producerDataSet": [{}]},
        {"clientID": "c", "heartbeatFingerprint": INT},
        {"clientID": "c", "heartbeatFingerprint": "1"},
    ],
)  # fmt: skip
def test_what_is_no_heartbeat_is_refused_and_nothing_is_kept(asked: Asked, body: Any) -> None:
    assert asked.ask(RequestCode.HEART_BEAT, 1, body).code == ResponseCode.SYSTEM_ERROR
    assert known(asked.broker) == ([], [])


@pytest.mark.parametrize(("size", "code"), [(256 << 10, 0), ((256 << 10) + 1, 1)])
def test_a_heartbeat_is_256_kib_at_most(asked: Asked, size: int, code: int) -> None:
    body = b'{"clientID":"c"}'.ljust(size)
    assert asked.ask(RequestCode.HEART_BEAT, 1, body).code == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"subVersion": LONG - 1, "codeSet": [INT - 1, -INT]}, ResponseCode.SUCCESS),
        ({"subVersion": LONG}, ResponseCode.SYSTEM_ERROR),
        ({"subVersion": -LONG - 1}, ResponseCode.SYSTEM_ERROR),
        ({"subVersion": 1e999}, ResponseCode.SYSTEM_ERROR),
        ({"codeSet": [INT]}, ResponseCode.SYSTEM_ERROR),
        ({"codeSet": ["x"]}, ResponseCode.SYSTEM_ERROR),
        ({"subVersion": None, "expressionType": None, "tagsSet": None}, ResponseCode.SUCCESS),
    ],
)
def test_numbers_of_a_subscription_are_javas(asked: Asked, more: Any, code: int) -> None:
    assert beat(asked, consumerDataSet=subscribing(**more)).code == code
    there = asked.broker.consumers.groups.get("g")
    assert (there is not None) is (code == ResponseCode.SUCCESS)
    if there is not None:
        subscription = there.subscriptions["T"]
        assert (subscription.text, subscription.kind) == ("A", "TAG")
        assert subscription.version == (more["subVersion"] or 0)


def test_groups_and_producers_of_illegal_names_are_passed_over(asked: Asked) -> None:
    said = beat(
        asked, clientID="c" * 999, consumerDataSet=[{"groupName": "a b"}, {"groupName": "g"}],
        producerDataSet=[{"groupName": "p"}, {"groupName": ""}],
    )  # fmt: skip
    assert said.code == ResponseCode.SUCCESS
    assert known(asked.broker) == (["g"], ["p"])
    assert asked.broker.store.topics["%RETRY%g"].read_queues == 1
    (client,) = asked.broker.consumers.groups["g"].clients.values()
    assert (len(client.id), client.heard, client.address) == (255, asked.now, "10.0.0.1:5000")


def test_subscriptions_may_be_left_out_once_they_are_known(asked: Asked) -> None:
    """heartBeatV2: the answer says whether the client has to send them again."""

    def changed(**more: Any) -> str:
        return beat(asked, **more).fields["IS_SUB_CHANGE"]

    without: dict[str, Any] = {"heartbeatFingerprint": 7, "withoutSub": True}
    assert changed(**without) == "true"  # never heard of
    assert changed(heartbeatFingerprint=7, consumerDataSet=subscribing()) == "false"
    assert changed(**without) == "false"
    assert list(asked.broker.consumers.groups["g"].subscriptions) == ["T"]
    assert changed(heartbeatFingerprint=8, withoutSub=True) == "true"
    assert changed(consumerDataSet=subscribing()) == "true"  # an old client's, without fingerprint
    assert beat(asked).fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"


def test_a_client_leaves_the_groups_that_it_names(asked: Asked) -> None:
    beat(asked, producerDataSet=[{"groupName": "p"}])
    code = RequestCode.UNREGISTER_CLIENT
    asked.ask(code, 2, clientID="c", consumerGroup="g", producerGroup="p")
    assert known(asked.broker) == (["g"], ["p"])  # another connection's
    assert asked.ask(code, 1, consumerGroup="g").code == ResponseCode.SYSTEM_ERROR
    asked.ask(code, 1, clientID="c", producerGroup="p")
    assert known(asked.broker) == (["g"], [])
    asked.ask(code, 1, clientID="c", consumerGroup="g")
    assert known(asked.broker) == ([], [])


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (None, 0), ({"topic": "T", "subString": "||", "expressionType": "TAG"}, 0),
        ({"topic": "T", "subString": "a > 5", "expressionType": "SQL92"}, 0),
        ({"topic": "T", "subString": "a >", "expressionType": "SQL92"},
         ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"subString": "*"}, ResponseCode.SYSTEM_ERROR), (7, ResponseCode.SYSTEM_ERROR),
    ],
)  # fmt: skip
def test_a_subscription_is_checked_before_a_client_starts(
    asked: Asked, wanted: Any, code: int
) -> None:
    body = {"clientId": "c", "subscriptionData": wanted}
    assert asked.ask(RequestCode.CHECK_CLIENT_CONFIG, 1, body).code == code


def test_too_many_clients_are_refused(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_MEMBERS", 1)
    assert beat(asked).code == ResponseCode.SUCCESS
    said = beat(asked, producerDataSet=[{"groupName": "p"}])
    assert said.code == ResponseCode.SYSTEM_ERROR
