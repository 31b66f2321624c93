"""Which queues a member reads, where the broker says so (QueryAssignmentProcessor)."""

from typing import Any

import pytest

from reput.broker.serving import clients
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import TOPIC, Asked, opened, said


@pytest.fixture
def asked() -> Asked:
    return Asked(opened())


def queues(asked: Asked, client: str, strategy: str = "AVG", **more: Any) -> Any:
    body = {
        "topic": TOPIC, "consumerGroup": "g", "clientId": client, "strategyName": strategy,
        "messageModel": "CLUSTERING", **more,
    }  # fmt: skip
    found = said(asked.ask(RequestCode.QUERY_ASSIGNMENT, body=body)).get("messageQueueAssignments")
    if found is None:
        return None
    assert {each["messageQueue"]["topic"] for each in found} <= {TOPIC}
    return [(each["mode"], each["messageQueue"]["queueId"]) for each in found]


def set_mode(asked: Asked, topic: str = TOPIC, group: str = "g", shared: Any = 0) -> int:
    body = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": shared}
    return asked.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body).code


def test_members_share_queues_by_the_strategy_that_they_name(asked: Asked) -> None:
    assert queues(asked, "c1") is None  # no heartbeat yet
    for client in (1, 2, 3):
        asked.heartbeat(client, "g", TOPIC)
    shares = [queues(asked, f"c{n}") for n in (1, 2, 3)]
    assert shares == [[("PULL", 0), ("PULL", 1)], [("PULL", 2)], [("PULL", 3)]]
    assert queues(asked, "c1", "AVG_BY_CIRCLE") == [("PULL", 0), ("PULL", 3)]
    assert queues(asked, "stranger") == []
    assert queues(asked, "c1", "CONSISTENT_HASH") is None  # a broker has not got it
    assert queues(asked, "c1", topic="NoSuchTopic") is None
    everything = [("PULL", n) for n in range(4)]
    assert queues(asked, "anybody", messageModel="BROADCASTING") == everything


def test_a_group_that_pops_reads_all_queues_or_those_of_its_neighbours(asked: Asked) -> None:
    for client in (1, 2, 3):
        asked.heartbeat(client, "g", TOPIC)
    assert set_mode(asked) == ResponseCode.SUCCESS
    assert queues(asked, "c2") == [("POP", -1)]
    assert set_mode(asked, shared=1) == ResponseCode.SUCCESS
    assert queues(asked, "c3") == [("POP", 3), ("POP", 0), ("POP", 1)]
    assert queues(asked, "stranger") == []
    for client in (4, 5):
        asked.heartbeat(client, "g", TOPIC)
    assert queues(asked, "c5") == [("POP", 0)]  # more members than queues
    table = said(asked.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE))["messageRequestModeMap"]
    assert table[TOPIC]["g"]["popShareQueueNum"] == 1


def test_a_mode_that_cannot_be_set_is_refused(asked: Asked, monkeypatch) -> None:
    assert set_mode(asked, "%RETRY%g") == ResponseCode.NO_PERMISSION
    assert set_mode(asked, "NoSuchTopic") == ResponseCode.TOPIC_NOT_EXIST
    assert set_mode(asked, group="no/group") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert set_mode(asked, shared="many") == ResponseCode.SYSTEM_ERROR
    for code in (RequestCode.SET_MESSAGE_REQUEST_MODE, RequestCode.QUERY_ASSIGNMENT):
        assert asked.ask(code, body=b"[]").code == ResponseCode.SYSTEM_ERROR
    monkeypatch.setattr(clients, "_MOST", 1)
    assert set_mode(asked) == ResponseCode.SUCCESS
    assert set_mode(asked, "Live1") == ResponseCode.SYSTEM_ERROR
    assert set_mode(asked) == ResponseCode.SUCCESS
