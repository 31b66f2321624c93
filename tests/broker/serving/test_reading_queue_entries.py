"""A queue's entries as its files have them, for an operator (queryConsumeQueue)."""

from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked, said

SIZE = FIXED + 1 + 9 + len("TAGS1A2")
A = 65  # String.hashCode of "A"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """25 entries, 20 of them in the queue's first file."""
    return served(tmp_path_factory.mktemp("store"), (message(n, tag="A") for n in range(25)))


def entries(asked: Asked, first: int, most: int, **more: Any) -> Answer:
    fields = {"topic": "T", "queueId": 0, "index": first, "count": most, **more}
    return asked.ask(RequestCode.QUERY_CONSUME_QUEUE, 1, **fields)


def test_entries_are_places_sizes_and_tags_codes(asked: Asked) -> None:
    answer = said(entries(asked, 3, 2))
    assert (answer["minQueueIndex"], answer["maxQueueIndex"]) == (0, 25)
    assert answer["queueData"] == [
        {"eval": False, "physicOffset": n * SIZE, "physicSize": SIZE, "tagsCode": A} for n in (3, 4)
    ]
    assert "filterData" not in answer


@pytest.mark.parametrize(
    ("first", "most", "many"),
    [(0, 1, 1), (24, 5, 1), (18, 50, 2), (20, 50, 5), (0, 0, 0), (0, -1, 0), (0, 1 << 40, 20)],
)
def test_no_more_than_are_asked_for_and_those_of_one_file(
    asked: Asked, first: int, most: int, many: int
) -> None:
    assert len(said(entries(asked, first, most))["queueData"]) == many


@pytest.mark.parametrize("first", [-1, 25, 1 << 62])
def test_a_place_out_of_the_queue_is_told_with_success(asked: Asked, first: int) -> None:
    answer = entries(asked, first, 1)
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
    assert answer.remark == f"Index {first} of 0@T is not exist!"


@pytest.mark.parametrize(("topic", "queue_id"), [("None", 0), ("T", 1), ("T", -1)])
def test_a_queue_that_there_is_not_is_an_error(asked: Asked, topic: str, queue_id: int) -> None:
    answer = entries(asked, 0, 1, topic=topic, queueId=queue_id)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!",
    )  # fmt: skip


def test_the_groups_subscription_is_told_where_it_is_online(asked: Asked) -> None:
    assert said(entries(asked, 0, 1, consumerGroup="g"))["filterData"] == "g@T is not online!"
    asked.heartbeat(1, "g", "T")
    answer = said(entries(asked, 0, 1, consumerGroup="g"))
    assert answer["subscriptionData"]["subString"] == "*"
    assert "filterData" not in answer
