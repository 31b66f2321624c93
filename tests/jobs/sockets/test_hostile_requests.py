"""Requests that no client would make: each has an answer with a code, and touches no file."""

import json
import random
import tracemalloc
from typing import Any

import pytest

from reput.broker.serving.handlers import HANDLERS
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import TOPIC, Asked, opened
from tests.jobs.sockets.asking import pull
from tests.seeds import seeds

_NAMES = (
    "topic", "group", "consumerGroup", "producerGroup", "queueId", "queueOffset", "commitOffset",
    "offset", "timestamp", "index", "count", "maxMsgNums", "sysFlag", "subVersion", "key", "maxNum",
    "beginTimestamp", "endTimestamp", "cluster", "namespace", "statsName", "statsKey", "topicList",
    "isOrder", "clientID", "subscription", "expressionType", "suspendTimeoutMillis")  # fmt: skip
_VALUES = (
    "", " ", "0", "-1", "1", "4", str(1 << 31), str(1 << 62), str(-(1 << 63)), str(1 << 63), "1e9",
    "0x10", "NaN", "٣", "\0", "\ud800", "../../etc/passwd", "/etc/passwd", "a/b", "%RETRY%g", TOPIC,
    "Live0/0", "x" * 7_000, "SQL92", "a > 5 AND (", "*", "A || B", "true", "g")  # fmt: skip
_BODIES: tuple[Any, ...] = (
    b"", b"{", b"[]", b"null", b"1", b"\xff\xfe", b"[" * 5_000, b'{"a":' * 5_000,
    {"clientID": None, "consumerDataSet": 5}, {"clientID": "c", "consumerDataSet": [{}]},
    {"clientID": "c", "consumerDataSet": [{"groupName": "a/b", "subscriptionDataSet": [{}]}]},
    {"clientID": ["x"], "consumerDataSet": [{"groupName": {"a": 1}, "subscriptionDataSet": [
    {"topic": 5, "codeSet": ["x"], "subVersion": "later"}]}]},
    {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [
    {"topic": "t", "codeSet": [1 << 80], "subVersion": 1}]}]},
    {"clientID": "c", "heartbeatFingerprint": "no int", "producerDataSet": [{"groupName": "p/q"}]},
    {"consumerGroup": "g", "clientId": "c", "mqSet": [{"topic": "t"}]},
    {"consumerGroup": "g", "clientId": "c", "mqSet": [
    {"topic": TOPIC, "queueId": "first", "brokerName": 1}]},
    {"consumerGroup": "g", "clientId": "c", "mqSet": [
    {"topic": TOPIC, "queueId": 1e400, "brokerName": "b"}]},
    {"subscriptionData": {"topic": "t", "subString": "a b c (", "expressionType": "SQL92"}},
    {"subscriptionData": 7})  # fmt: skip


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked(opened())


def _some(random: random.Random, code: int) -> tuple[dict[str, str], Any]:
    names = random.sample(_NAMES, random.randrange(len(_NAMES) + 1))
    fields = {name: random.choice(_VALUES) for name in names}
    if random.random() < 0.5:  # so far right that it gets further
        fields |= {"topic": TOPIC, "consumerGroup": "g", "group": "g"}
    return fields, random.choice(_BODIES)


@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds(range(2)))
def test_every_request_has_an_answer_with_a_code(asked: Asked, seed: int) -> None:
    drawn = random.Random(seed)
    for code in HANDLERS:
        for _ in range(8):
            fields, body = _some(drawn, code)
            found = asked.ask(code, drawn.randrange(5), body, **fields)
            assert isinstance(found.code, int)
            assert "Traceback" not in (found.remark or "")
            assert str(asked.broker.store.opened.path) not in (found.remark or "")


def test_nothing_is_kept_of_names_that_clients_make_up(asked: Asked) -> None:
    def ask_names(first: int) -> None:
        for n in range(first, first + 500):
            for code in (RequestCode.GET_MAX_OFFSET, RequestCode.QUERY_CONSUMER_OFFSET, 202, 208):
                name = f"no-such-{n}-{'x' * 230}"
                asked.ask(code, topic=name, consumerGroup=name, queueId=n)

    ask_names(0)
    tracemalloc.start()
    ask_names(500)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 60_000  # 500 names of 240 bytes would be 120 kB


def test_numbers_beyond_all_bounds_are_refused_and_answers_are_json(asked: Asked) -> None:
    wanted = b'{"topic":"t","subVersion":1,"codeSet":[1e999]}'
    reported = b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[%b]}]}'
    assert asked.ask(RequestCode.HEART_BEAT, 1, reported % wanted).code == 1
    queue = b'{"brokerName":"b","queueId":1e999,"topic":"t"}'
    body = b'{"consumerGroup":"g","clientId":"c","mqSet":[%b]}' % queue
    assert asked.ask(RequestCode.LOCK_BATCH_MQ, 1, body).code == 1
    for code in (106, 206, 28, 201, 21, 907, 305, 328):
        json.loads(asked.ask(code).body.replace(b"{0:", b'{"0":'))


@pytest.mark.parametrize("queue", [-1, 4, 1 << 31, -(1 << 63)])
def test_queues_that_are_none_are_refused_as_a_broker_does(asked: Asked, queue: int) -> None:
    found = asked.ask(RequestCode.PULL_MESSAGE, **pull(TOPIC, queue, 0).fields)
    assert found.code == ResponseCode.INVALID_PARAMETER
    assert f"queueId[{queue}] is illegal" in (found.remark or "")
    stats = asked.ask(RequestCode.QUERY_CONSUME_QUEUE, topic=TOPIC, queueId=queue, index=0, count=1)
    assert (stats.code, stats.remark) == (1, f"{queue}@{TOPIC} is not exist!")


@pytest.mark.parametrize("group", ["", "a/b", "a b", "x" * 256, "../..", "\0", "%s\n"])
def test_a_group_that_is_none_gets_nothing(asked: Asked, group: str) -> None:
    fields = pull(TOPIC, 0, 0, consumerGroup=group).fields
    found = asked.ask(RequestCode.PULL_MESSAGE, **fields)
    assert found.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    asked.heartbeat(1, group, TOPIC)
    assert group not in asked.broker.consumers.groups
    assert f"%RETRY%{group}" not in asked.broker.store.topics
