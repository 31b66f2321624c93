"""A queue's ends, and its position at a time, as clients ask for them."""

from typing import Any

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import STEP, T0, message, served
from tests.jobs.sockets.asked import Asked

MANY = 5
MAX, MIN = RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET
AT, EARLIEST = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, RequestCode.GET_EARLIEST_MSG_STORETIME


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2}, "Batch": {"attributes": {"queue.type": "BatchCQ"}},
    }  # fmt: skip
    made = (message(n) for n in range(MANY))
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


def told(asked: Asked, code: int, topic: str = "T", queue_id: int = 0, **more: Any) -> int:
    (value,) = asked.ask(code, 1, topic=topic, queueId=queue_id, **more).fields.values()
    return int(value)


def test_a_queues_ends_and_first_time(asked: Asked) -> None:
    assert [told(asked, code) for code in (MAX, MIN, EARLIEST)] == [MANY, 0, T0]


@pytest.mark.parametrize(
    ("topic", "queue_id", "low"), [("T", 1, 0), ("T", -1, 0), ("None", 0, 0), ("Batch", 0, -1)]
)
def test_a_queue_that_there_is_not_begins_and_ends_at_once(
    asked: Asked, topic: str, queue_id: int, low: int
) -> None:
    found = [told(asked, code, topic, queue_id) for code in (MAX, MIN, EARLIEST)]
    assert found == [0, low, -1]
    assert told(asked, AT, topic, queue_id, timestamp=T0) == 0


@pytest.mark.parametrize(
    ("boundary", "offset"),
    [({}, 2), ({"boundaryType": "lower"}, 2), ({"boundaryType": "LOWER"}, 2),
     ({"boundaryType": "upper"}, 1), ({"boundaryType": "UPPER"}, 1), ({"boundaryType": "x"}, 2)],
)  # fmt: skip
def test_a_time_between_two_messages_is_the_later_one_unless_upper_is_asked_for(
    asked: Asked, boundary: dict[str, Any], offset: int
) -> None:
    assert told(asked, AT, timestamp=T0 + STEP + 1, **boundary) == offset


def test_a_boundary_is_not_known_before_5_1_4(asked: Asked, monkeypatch) -> None:
    queue = asked.broker.store.queue("T", 0)
    assert queue is not None
    monkeypatch.setattr(queue, "_profile", profile("5.1.3"))
    assert told(asked, AT, timestamp=T0 + STEP + 1, boundaryType="upper") == 2


def test_what_is_missing_is_told(asked: Asked) -> None:
    for code in (MAX, MIN, EARLIEST, AT):
        answer = asked.ask(code, 1, topic="T")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "queueId" in str(answer.remark)
    assert asked.ask(AT, 1, topic="T", queueId=0).code == ResponseCode.SYSTEM_ERROR
