"""Requests to lock queues for one client: of which queues, and what is no such request."""

from typing import Any

import pytest

from reput.broker.serving.clients import QueueLocks
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked, said


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics = {"T": {"readQueueNums": 2}}
    return served(tmp_path_factory.mktemp("store"), [message(0)], topics=topics)


@pytest.fixture
def asked(store: Asked) -> Asked:
    store.broker.locks = QueueLocks()
    return store


def queue(queue_id: Any, topic: str = "T") -> dict[str, Any]:
    return {"brokerName": "reput", "queueId": queue_id, "topic": topic}


def lock(asked: Asked, client: str, *queues: Any, group: str = "g") -> Any:
    body = {"consumerGroup": group, "clientId": client, "mqSet": list(queues)}
    return said(asked.ask(RequestCode.LOCK_BATCH_MQ, 1, body))["lockOKMQSet"]


def unlock(asked: Asked, client: str, *queues: Any) -> int:
    body = {"consumerGroup": "g", "clientId": client, "mqSet": list(queues)}
    return asked.ask(RequestCode.UNLOCK_BATCH_MQ, 1, body).code


def test_queues_are_one_clients_until_it_unlocks_them_or_a_minute_is_over(asked: Asked) -> None:
    assert lock(asked, "one", queue(0), queue(1)) == [queue(0), queue(1)]
    assert lock(asked, "two", queue(0)) == []
    assert unlock(asked, "two", queue(0)) == ResponseCode.SUCCESS
    assert lock(asked, "two", queue(0)) == []
    assert unlock(asked, "one", queue(0)) == ResponseCode.SUCCESS
    assert lock(asked, "two", queue(0), queue(1)) == [queue(0)]
    asked.now += 60_001
    assert lock(asked, "two", queue(1)) == [queue(1)]


def test_queues_that_there_are_not_are_left_out(asked: Asked) -> None:
    wrong = [queue(2), queue(-1), queue(0, "None"), queue(1 << 40)]
    assert lock(asked, "one", *wrong, queue(1)) == [queue(1)]
    assert lock(asked, "one") == []


@pytest.mark.parametrize("code", [RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{}", b"[" * 100_000, b'{"consumerGroup":"g","clientId":"c"}',
        {"consumerGroup": "g", "clientId": "c", "mqSet": [7]},
        {"consumerGroup": "g", "clientId": "c", "mqSet": [queue("x")]},
        {"consumerGroup": "g", "clientId": "c", "mqSet": [queue(1e999)]},
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(asked: Asked, code: int, body: Any) -> None:
    assert asked.ask(code, 1, body).code == ResponseCode.SYSTEM_ERROR


def test_names_that_clients_make_up_are_short_and_legal(asked: Asked) -> None:
    body = {"consumerGroup": "a b", "clientId": "c", "mqSet": [queue(0)]}
    refused = asked.ask(RequestCode.LOCK_BATCH_MQ, 1, body)
    assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert lock(asked, "c" * 255 + "one", queue(0)) == [queue(0)]
    assert lock(asked, "c" * 255 + "two", queue(0)) == [queue(0)]  # alike in what is kept
    (made,) = lock(asked, "one", queue(0) | {"brokerName": "b" * 999})
    assert made["brokerName"] == "b" * 255
