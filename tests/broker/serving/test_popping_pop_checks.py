"""What POP and its like check before they answer, where a group goes on, and who may wait."""

from typing import Any

import pytest

from reput.broker.serving.broker import Caller, Hold
from reput.broker.serving.groups import GroupOffsets
from reput.broker.serving.popped import CheckPoint, InFlight
from reput.broker.serving.popping import Asked as Wanted
from reput.broker.serving.popping import checked, has_due, has_fresh, polling, pop_offset
from reput.broker.serving.records import PullLimits
from reput.broker.wire.codes import Refused, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import request

NOW = 10_000_000
CALLER = Caller(1, "10.0.0.1:5000", "127.0.0.1:9876", NOW)
RETRY = "%RETRY%g_T"  # KeyBuilder.buildPopRetryTopicV1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [*(message(n, "T", 1) for n in range(5)), message(9, RETRY)]
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2}, "Closed": {"perm": 2}, RETRY: {"readQueueNums": 1},
        "Batch": {"readQueueNums": 1, "attributes": {"queue.type": "BatchCQ"}},
    }  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


@pytest.fixture
def asked(store: Asked) -> Asked:
    broker = store.broker
    broker.in_flight, broker.offsets, broker.limits = InFlight(), GroupOffsets({}), PullLimits()
    broker.groups.find("shut")  # so that it is known
    return store


def wanted(asked: Asked, queue_id: int = -1, group: str = "g", topic: str = "T") -> Wanted:
    return Wanted(group, asked.broker.store.topics[topic], queue_id)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Closed"}, ResponseCode.NO_PERMISSION),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "a b"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"consumerGroup": "shut"}, ResponseCode.NO_PERMISSION),
    ],
)
def test_what_is_refused(asked: Asked, more: dict[str, Any], code: int) -> None:
    (asked.broker.groups.find("shut") or {})["consumeEnable"] = False
    with pytest.raises(Refused) as said:
        checked(asked.broker, request(1, **({**_FIELDS, **more})), CALLER)
    assert said.value.code == code


_FIELDS: dict[str, Any] = {"topic": "T", "consumerGroup": "g", "queueId": 1}


@pytest.mark.parametrize(("queue_id", "queues"), [(0, [0]), (1, [1]), (-1, [0, 1]), (-9, [0, 1])])
def test_a_queue_below_0_is_all_queues(asked: Asked, queue_id: int, queues: list[int]) -> None:
    found = checked(asked.broker, request(1, **{**_FIELDS, "queueId": queue_id}), CALLER)
    assert list(found.queues) == queues
    assert [each.name for each in found.topics(asked.broker)] == ["T", RETRY]
    assert [each.name for each in wanted(asked, group="h").topics(asked.broker)] == ["T"]


@pytest.mark.parametrize(
    ("topic", "queue_id", "memory", "first", "offset"),
    [
        ("T", 1, 0, True, 0), ("T", 1, 0, False, 4), ("T", 1, 1 << 62, False, 0),
        ("T", 0, 0, True, 0), ("T", 0, 0, False, 0), ("Batch", 0, 0, True, 0),
    ],
)  # fmt: skip
def test_a_group_without_an_offset_begins_at_the_first_or_last_message(
    asked: Asked, topic: str, queue_id: int, memory: int, first: bool, offset: int
) -> None:
    broker = asked.broker
    broker.limits = PullLimits(memory_bytes=memory)
    there = broker.store.topics[topic]
    assert pop_offset(broker, "g", there, queue_id, first) == offset
    broker.offsets.commit("g", topic, queue_id, 3)
    assert pop_offset(broker, "g", there, queue_id, first) == 3


def test_there_is_something_new_until_all_queues_and_retries_are_read(asked: Asked) -> None:
    broker = asked.broker
    assert not has_fresh(broker, wanted(asked, 0, "h"))
    assert has_fresh(broker, wanted(asked, 1, "h"))
    broker.offsets.commit("g", "T", 1, 4)
    assert has_fresh(broker, wanted(asked))
    broker.offsets.commit("g", "T", 1, 5)
    assert has_fresh(broker, wanted(asked, 0))  # the message in the retry topic
    broker.offsets.commit("g", RETRY, 0, 1)
    assert not has_fresh(broker, wanted(asked))


def test_something_comes_again_when_its_time_is_over_also_of_the_retry_topic(asked: Asked) -> None:
    broker = asked.broker
    assert not has_due(broker, wanted(asked), NOW)
    broker.in_flight.add("g", RETRY, CheckPoint(0, [0], 1, NOW))
    assert [has_due(broker, wanted(asked), NOW + n) for n in (-1, 0)] == [False, True]
    assert not has_due(broker, wanted(asked, group="h"), NOW)


@pytest.mark.parametrize(
    ("born", "wait", "until"),
    [
        (NOW - 100, 101, NOW + 1), (NOW - 100, 100, None), (NOW, 0, None), (NOW, -1, None),
        (0, 700, NOW + 700), (NOW, 300_001, NOW + 300_000), (NOW + (1 << 40), 1, NOW + 300_000),
    ],
)  # fmt: skip
def test_a_request_waits_from_its_birth_on(
    asked: Asked, born: int, wait: int, until: int | None
) -> None:
    """PopLongPollingService.polling: until bornTime + pollTime; here five minutes at most."""
    command = request(1, pollTime=wait, bornTime=born)
    hold = polling(asked.broker, command, CALLER, wanted(asked, 1), None)
    if until is None:
        assert hold == ResponseCode.POLLING_TIMEOUT
        return
    assert isinstance(hold, Hold)
    assert (hold.topic, hold.queue_id, hold.group, hold.until) == ("T", 1, "g", until)
    assert command.fields["bornTime"] == str(born or NOW)
    assert hold.ready is not None
    assert hold.ready()


@pytest.mark.parametrize(("many", "full"), [(1024, False), (1025, True)])
def test_more_than_1024_do_not_wait_for_one_queue(
    asked: Asked, many: int, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked.broker, "waiting", lambda *key: many if key == ("g", "T", 1) else 0)
    command = request(1, pollTime=5, bornTime=NOW)
    hold = polling(asked.broker, command, CALLER, wanted(asked, 1), None)
    assert (hold == ResponseCode.POLLING_FULL) is full
    assert isinstance(polling(asked.broker, command, CALLER, wanted(asked, -1), None), Hold)


@pytest.mark.parametrize(
    ("due", "again", "looks"),
    [
        (None, None, None), (None, NOW + 5, NOW + 5), (NOW + 700, None, NOW + 700),
        (NOW + 700, NOW + 5, NOW + 5), (NOW - 5, None, NOW + 200), (NOW + 199, None, NOW + 200),
    ],
)  # fmt: skip
def test_a_waiting_request_looks_again_when_something_may_be_due(
    asked: Asked, due: int | None, again: int | None, looks: int | None
) -> None:
    if due is not None:
        asked.broker.in_flight.add("g", RETRY, CheckPoint(0, [0], 1, due))
    hold = polling(
        asked.broker, request(1, pollTime=5000, bornTime=NOW), CALLER, wanted(asked), again
    )
    assert isinstance(hold, Hold)
    assert hold.again == looks
