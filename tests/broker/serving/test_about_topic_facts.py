"""What is told of topics: each queue's ends and last time, and their configuration."""

from typing import Any

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import STEP, T0, by_queue, message, served
from tests.jobs.sockets.asked import Asked, said

CONFIG: dict[str, Any] = {
    "T": {"readQueueNums": 1, "writeQueueNums": 3, "perm": 6, "order": True, "topicSysFlag": 1,
          "attributes": {"queue.type": "SimpleCQ"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [message(n, "T", n % 2) for n in range(5)] + [message(5, "rmq_sys_own")]
    return served(tmp_path_factory.mktemp("store"), made, topics=CONFIG)


def test_each_queue_has_its_ends_and_the_time_of_its_last_message(asked: Asked) -> None:
    body = asked.ask(RequestCode.GET_TOPIC_STATS_INFO, 1, topic="T").body
    assert by_queue(body) == {
        ("T", 0): {"lastUpdateTimestamp": T0 + 4 * STEP, "maxOffset": 3, "minOffset": 0},
        ("T", 1): {"lastUpdateTimestamp": T0 + 3 * STEP, "maxOffset": 2, "minOffset": 0},
        ("T", 2): {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0},
    }
    none = asked.ask(RequestCode.GET_TOPIC_STATS_INFO, 1, topic="None")
    assert (none.code, none.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[None] not exist")


def test_a_configuration_is_the_stores_own(asked: Asked) -> None:
    expected = {
        "attributes": {"queue.type": "SimpleCQ"}, "order": True, "perm": 6, "readQueueNums": 1,
        "topicFilterType": "SINGLE_TAG", "topicName": "T", "topicSysFlag": 1, "writeQueueNums": 3,
    }  # fmt: skip
    assert said(asked.ask(RequestCode.GET_TOPIC_CONFIG, 1, topic="T")) == expected
    all_of_them = said(asked.ask(RequestCode.GET_ALL_TOPIC_CONFIG, 1))
    assert all_of_them["topicConfigTable"]["T"] == expected
    assert all_of_them["topicConfigTable"]["rmq_sys_own"]["readQueueNums"] == 1
    assert all_of_them["dataVersion"]["timestamp"] == asked.broker.started
    none = asked.ask(RequestCode.GET_TOPIC_CONFIG, 1, topic="None")
    assert none.code == ResponseCode.TOPIC_NOT_EXIST


def test_system_topics_are_rocketmqs_the_brokers_names_and_those_of_the_store(asked: Asked) -> None:
    found = said(asked.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, 1))["topicList"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"} <= {
        *found
    }
    assert {"reput", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_own"} <= {*found}
    assert "T" not in found
    assert len(found) == len(set(found))
