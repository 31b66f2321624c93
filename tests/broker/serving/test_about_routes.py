"""A topic's route: one broker, its queues, and JSON as the client's release reads it."""

import json
from typing import Any

import pytest

from reput.broker.serving.broker import Answer, Caller
from reput.broker.serving.handlers import answer
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import LISTENING, Asked
from tests.jobs.sockets.asking import request


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicSysFlag": 1},
        "Writes": {"perm": 2}, "Inherits": {"perm": 7},
    }  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), [message(0)], topics=topics)


def route(asked: Asked, topic: str, version: int | None = None, **more: Any) -> Answer:
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, **more)
    if version is not None:
        command = command._replace(version=version)
    return answer(asked.broker, command, Caller(1, "10.0.0.1:5000", LISTENING, 0))


def test_a_route_has_one_broker_at_the_address_by_which_it_was_reached(asked: Asked) -> None:
    told = json.loads(route(asked, "T", acceptStandardJsonOnly="true").body)
    (broker,) = told["brokerDatas"]
    assert broker["brokerAddrs"] == {"0": LISTENING}
    assert (broker["brokerName"], broker["cluster"]) == ("reput", "DefaultCluster")
    asked.broker.address = "10.1.1.1:10911"
    try:
        assert b'"10.1.1.1:10911"' in route(asked, "T").body
    finally:
        asked.broker.address = None


@pytest.mark.parametrize(("topic", "perm"), [("T", 4), ("Writes", 0), ("Inherits", 4)])
def test_queues_may_only_be_read(asked: Asked, topic: str, perm: int) -> None:
    (queues,) = json.loads(route(asked, topic, acceptStandardJsonOnly="true").body)["queueDatas"]
    assert queues["perm"] == perm
    if topic == "T":
        assert (queues["readQueueNums"], queues["writeQueueNums"], queues["topicSysFlag"]) == (
            3, 2, 1,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "more", "quoted"),
    [
        (0, {}, False), (0, {"acceptStandardJsonOnly": "true"}, True),
        (0, {"acceptStandardJsonOnly": "false"}, False), (479, {}, True),
    ],
)  # fmt: skip
def test_integer_keys_are_quoted_for_those_who_read_standard_json(
    asked: Asked, version: int, more: dict[str, str], quoted: bool
) -> None:
    """From V4_9_4 on; older Go clients cannot read quoted keys (#4471)."""
    body = route(asked, "T", version, **more).body
    assert (b'{"0":' in body) is quoted
    assert (b"{0:" in body) is not quoted


def test_a_topic_that_there_is_not_has_no_route(asked: Asked) -> None:
    told = route(asked, "None")
    assert told.code == ResponseCode.TOPIC_NOT_EXIST
    assert told.remark == "No topic route info in name server for the topic: None"
