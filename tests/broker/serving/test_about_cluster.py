"""A name server's other answers: its one cluster and broker, its topics, no settings of its own."""

import json
from typing import Any

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import LISTENING, Asked, said


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(0)], topics={"U": {}})


def test_there_is_one_cluster_of_one_broker(asked: Asked) -> None:
    body = asked.ask(RequestCode.GET_BROKER_CLUSTER_INFO, 1).body
    assert b'"brokerAddrs":{0:"127.0.0.1:9876"}' in body  # an integer key has no quotes
    found: Any = json.loads(body.replace(b"{0:", b'{"0":'))
    assert found["clusterAddrTable"] == {"DefaultCluster": ["reput"]}
    assert list(found["brokerAddrTable"]) == ["reput"]


@pytest.mark.parametrize(("cluster", "all_of_them"), [("DefaultCluster", True), ("other", False)])
def test_topics_are_those_of_the_one_cluster(asked: Asked, cluster: str, all_of_them: bool) -> None:
    every = said(asked.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 1))["topicList"]
    assert {"T", "U", "TBW102"} <= {*every}
    found = said(asked.ask(RequestCode.GET_TOPICS_BY_CLUSTER, 1, cluster=cluster))["topicList"]
    assert found == (every if all_of_them else [])


def test_system_topics_are_named_like_cluster_and_broker(asked: Asked) -> None:
    found = said(asked.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, 1))
    assert found == {"brokerAddr": LISTENING, "topicList": ["DefaultCluster", "reput"]}


@pytest.mark.parametrize(
    ("code", "more", "told"),
    [
        (RequestCode.GET_KV_CONFIG, {"key": "k"}, "No config item, Namespace: n Key: k"),
        (RequestCode.GET_KVLIST_BY_NAMESPACE, {}, "No config item, Namespace: n"),
    ],
)
def test_there_are_no_values_by_key(
    asked: Asked, code: int, more: dict[str, str], told: str
) -> None:
    answer = asked.ask(code, 1, namespace="n", **more)
    assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, told)
    assert asked.ask(code, 1, **more).code == ResponseCode.SYSTEM_ERROR


def test_the_one_setting_is_where_it_listens(asked: Asked) -> None:
    body = asked.ask(RequestCode.GET_NAMESRV_CONFIG, 1).body
    assert body == b"bindAddress=127.0.0.1\nlistenPort=9876\n"
