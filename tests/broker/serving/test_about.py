"""A name server's other answers: its one cluster and broker, its topics, no settings of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Answer, Caller
from reput.broker.serving.handlers import answer
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, STEP, T0, by_queue, message, served
from tests.jobs.sockets.asked import LISTENING, Asked, said
from tests.jobs.sockets.asking import request


# --- A topic's route: one broker, its queues, and JSON as the client's release reads it.
@pytest.fixture(scope="module")
def asked_routes(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 3, "writeQueueNums": 2, "perm": 6, "topicSysFlag": 1},
        "Writes": {"perm": 2}, "Inherits": {"perm": 7}}  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), [message(0)], topics=topics)


def route(asked_routes: Asked, topic: str, version: int | None = None, **more: Any) -> Answer:
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, **more)
    if version is not None:
        command = command._replace(version=version)
    return answer(asked_routes.broker, command, Caller(1, "10.0.0.1:5000", LISTENING, 0))


def test_a_route_has_one_broker_where_it_was_reached_and_queues_to_read(asked_routes) -> None:
    assert LISTENING.encode() in route(asked_routes, "T").body
    asked_routes.broker.address = "10.1.1.1:10911"
    try:
        assert b'"10.1.1.1:10911"' in route(asked_routes, "T").body
    finally:
        asked_routes.broker.address = None
    for topic, perm in [("T", 4), ("Writes", 0), ("Inherits", 4)]:
        (queues,) = json.loads(route(asked_routes, topic, acceptStandardJsonOnly="true").body)[
            "queueDatas"]  # fmt: skip
        assert queues["perm"] == perm
        if topic == "T":
            assert (queues["readQueueNums"], queues["writeQueueNums"], queues["topicSysFlag"]) == (
                3, 2, 1)  # fmt: skip
    told = route(asked_routes, "None")
    assert told.code == ResponseCode.TOPIC_NOT_EXIST
    assert told.remark == "No topic route info in name server for the topic: None"


def test_integer_keys_are_quoted_for_those_who_read_standard_json(asked_routes: Asked) -> None:
    """From V4_9_4 on; older Go clients cannot read quoted keys (#4471)."""
    for version, more, quoted in [
        (0, {}, False), (0, {"acceptStandardJsonOnly": "true"}, True),
        (0, {"acceptStandardJsonOnly": "false"}, False), (479, {}, True)]:  # fmt: skip
        body = route(asked_routes, "T", version, **more).body
        assert (b'{"0":' in body) is quoted
        assert (b"{0:" in body) is not quoted


# --- The broker's state: real figures of the store, and the release's own names for them.
SIZE = FIXED + 1 + 9


@pytest.fixture(scope="module")
def asked_runtime(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), [message(n) for n in range(3)])


def figures(asked_runtime: Asked) -> dict[str, str]:
    found: dict[str, str] = said(asked_runtime.ask(RequestCode.GET_BROKER_RUNTIME_INFO, 1))["table"]
    return found


def test_figures_are_of_the_store_and_of_what_was_given(asked_runtime: Asked) -> None:
    asked_runtime.broker.given.total = 7
    found = figures(asked_runtime)
    expected = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(3 * SIZE),
                "earliestMessageTimeStamp": str(T0), "msgGetTotalTodayNow": "7",
                "bootTimestamp": str(asked_runtime.broker.started), "brokerVersionDesc": "V5_3_3",
                "putTps": "0.0 0.0 0.0"}  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert 0 < float(found["commitLogDiskRatio"]) <= 1
    assert list(found) == sorted(found)
    for seconds, spoken in [
        (0, "[ 0 days, 0 hours, 0 minutes, 0 seconds ]"),
        (59, "[ 0 days, 0 hours, 0 minutes, 59 seconds ]"),
        (60, "[ 0 days, 0 hours, 1 minutes, 0 seconds ]"),
        (90_061, "[ 1 days, 1 hours, 1 minutes, 1 seconds ]"),
        (86_400 * 40 - 1, "[ 39 days, 23 hours, 59 minutes, 59 seconds ]")]:  # fmt: skip
        asked_runtime.now = asked_runtime.broker.started + 1000 * seconds + 999
        assert figures(asked_runtime)["runtime"] == spoken
    lines = asked_runtime.ask(RequestCode.GET_BROKER_CONFIG, 1).body.decode().splitlines()
    assert {"brokerIP1=127.0.0.1", "listenPort=9876", "mappedFileSizeCommitLog=4096",
            "brokerPermission=4"} <= {*lines}  # fmt: skip
    found = json.loads(asked_runtime.ask(RequestCode.GET_BROKER_HA_STATUS, 1).body)
    assert found["masterCommitLogMaxOffset"] == 3 * SIZE
    assert found["haConnectionInfo"] == []
    answer = asked_runtime.ask(RequestCode.VIEW_BROKER_STATS_DATA, 1, statsName="S", statsKey="k")
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR, "The stats <S> <k> not exist")  # fmt: skip


@pytest.mark.parametrize(("release", "since_5"), [("4.9.7", False), ("5.0.0", True)])
def test_names_are_those_of_the_release(asked_runtime, release, since_5, monkeypatch) -> None:
    monkeypatch.setattr(asked_runtime.broker.store.opened, "profile", profile(release))
    found = figures(asked_runtime)
    assert ("getTransferredTps" in found) is since_5
    assert ("getTransferedTps" in found) is not since_5  # spelt so
    for name in ("brokerActive", "timerReadBehind", "ackThreadPoolQueueSize"):
        assert (name in found) is since_5
    assert "pullThreadPoolQueueSize" in found


def test_an_address_for_all_is_the_one_by_which_a_slave_reached_us(store: Asked) -> None:
    """The rest that a slave is told: tests/jobs/replicating/test_served_slaves.py."""
    for host, told in [("10.9.8.7", "10.9.8.7"), ("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1")]:
        store.broker.slaves_at = host, 10912
        answer = store.ask(RequestCode.REGISTER_BROKER, 1, brokerId=1)
        assert answer.fields == {"haServerAddr": f"{told}:10912", "masterAddr": "127.0.0.1:9876"}
    store.broker.slaves_at = None
    answer = store.ask(RequestCode.UNREGISTER_BROKER, 1, brokerId=1)
    assert answer.code == ResponseCode.NO_PERMISSION


# --- Parts of a broker that do not run here are answered as by a broker that has them switched
# off.
def test_no_group_reads_cold_data_and_the_limits_are_brokerconfigs(store: Asked) -> None:
    said = store.ask(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO)
    assert said.code == ResponseCode.SUCCESS
    assert json.loads(said.body) == {"runtimeTable": {}, "configTable": {}, "globalAcc": 0,
                                     "cgColdReadThreshold": 3 * 1024 * 1024,
                                     "globalColdReadThreshold": 100 * 1024 * 1024}  # fmt: skip


def test_queues_in_rocksdb_are_asked_for_in_the_words_of_each_release(tmp_path: Path) -> None:
    for release, told in [
        ("5.3.0", "diffResult"), ("5.3.1", "checkStatus"), ("5.3.3", "checkStatus"),
        ("5.4.0", "checkStatus")]:  # fmt: skip
        broker = served(tmp_path / "s", [message(0)], release)
        said = broker.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, topic="T")
        assert said.code == ResponseCode.SUCCESS
        about = json.loads(said.body)
        assert list(about) == [told]
        if told == "checkStatus":
            assert about[told] == 2  # CheckRocksdbCqWriteResult.CHECK_IN_PROGRESS
        else:
            assert "rocksdbCQWriteEnable is false" in about[told]


# --- What is told of topics: each queue's ends and last time, and their configuration.
CONFIG: dict[str, Any] = {"T": {
    "readQueueNums": 1, "writeQueueNums": 3, "perm": 6, "order": True, "topicSysFlag": 1,
    "attributes": {"queue.type": "SimpleCQ"}}, "U": {}}  # fmt: skip


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [message(n, "T", n % 2) for n in range(5)] + [message(5, "rmq_sys_own")]
    return served(tmp_path_factory.mktemp("store"), made, topics=CONFIG)


def test_each_topic_is_told_with_its_queues_and_its_configuration(asked: Asked) -> None:
    body = asked.ask(RequestCode.GET_TOPIC_STATS_INFO, 1, topic="T").body
    assert by_queue(body) == {
        ("T", 0): {"lastUpdateTimestamp": T0 + 4 * STEP, "maxOffset": 3, "minOffset": 0},
        ("T", 1): {"lastUpdateTimestamp": T0 + 3 * STEP, "maxOffset": 2, "minOffset": 0},
        ("T", 2): {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}}  # fmt: skip
    none = asked.ask(RequestCode.GET_TOPIC_STATS_INFO, 1, topic="None")
    assert (none.code, none.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[None] not exist")
    expected = {"attributes": {"queue.type": "SimpleCQ"}, "order": True, "perm": 6,
                "readQueueNums": 1, "topicFilterType": "SINGLE_TAG", "topicName": "T",
                "topicSysFlag": 1, "writeQueueNums": 3}  # fmt: skip
    assert said(asked.ask(RequestCode.GET_TOPIC_CONFIG, 1, topic="T")) == expected
    all_of_them = said(asked.ask(RequestCode.GET_ALL_TOPIC_CONFIG, 1))
    assert all_of_them["topicConfigTable"]["T"] == expected
    assert all_of_them["topicConfigTable"]["rmq_sys_own"]["readQueueNums"] == 1
    assert all_of_them["dataVersion"]["timestamp"] == asked.broker.started
    none = asked.ask(RequestCode.GET_TOPIC_CONFIG, 1, topic="None")
    assert none.code == ResponseCode.TOPIC_NOT_EXIST
    found = said(asked.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, 1))["topicList"]
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"} <= {
        *found}  # fmt: skip
    assert {"reput", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_own"} <= {*found}
    assert "T" not in found
    assert len(found) == len(set(found))


def test_a_name_server_has_one_cluster_of_one_broker_and_no_values_by_key(asked: Asked) -> None:
    body = asked.ask(RequestCode.GET_BROKER_CLUSTER_INFO, 1).body
    assert b'"brokerAddrs":{0:"127.0.0.1:9876"}' in body  # an integer key has no quotes
    found: Any = json.loads(body.replace(b"{0:", b'{"0":'))
    assert found["clusterAddrTable"] == {"DefaultCluster": ["reput"]}
    assert list(found["brokerAddrTable"]) == ["reput"]
    for cluster, all_of_them in [("DefaultCluster", True), ("other", False)]:
        every = said(asked.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 1))["topicList"]
        assert {"T", "U", "TBW102"} <= {*every}
        found = said(asked.ask(RequestCode.GET_TOPICS_BY_CLUSTER, 1, cluster=cluster))["topicList"]
        assert found == (every if all_of_them else [])
    found = said(asked.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, 1))
    assert found == {"brokerAddr": LISTENING, "topicList": ["DefaultCluster", "reput"]}
    for code, more, told in [
        (RequestCode.GET_KV_CONFIG, {"key": "k"}, "No config item, Namespace: n Key: k"),
        (RequestCode.GET_KVLIST_BY_NAMESPACE, {}, "No config item, Namespace: n")]:  # fmt: skip
        answer = asked.ask(code, 1, namespace="n", **more)
        assert (answer.code, answer.remark) == (ResponseCode.QUERY_NOT_FOUND, told)
        assert asked.ask(code, 1, **more).code == ResponseCode.SYSTEM_ERROR
    body = asked.ask(RequestCode.GET_NAMESRV_CONFIG, 1).body
    assert body == b"bindAddress=127.0.0.1\nlistenPort=9876\n"
