"""A pull of one queue: what is found from a position on, and the code that each result has."""

from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.serving.reading import (
    EVERYTHING,
    Got,
    PullFilter,
    subscription_of,
    take,
    wanted_by,
)
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, SUSPEND, pull

MANY = 30  # 20 of them are in the queue's first file
INT_MAX = (1 << 31) - 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = (message(n, tag="AB"[n % 2]) for n in range(MANY))
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2, "topicSysFlag": 1}, "Closed": {"perm": 2},
        "Batch": {"attributes": {"queue.type": "BatchCQ"}},
    }  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


def asked_by(store: Asked, position: int, **more: Any) -> Answer:
    topic, queue_id = more.pop("topic", "T"), more.pop("queueId", 0)
    fields = {**pull(topic, queue_id, position).fields, **more}
    return store.ask(RequestCode.PULL_MESSAGE, **fields)


def taken(store: Asked, position: int, most: int = 32, tags: str = "*") -> Got:
    broker = store.broker
    wanted: PullFilter = EVERYTHING
    if tags != "*":
        wanted = wanted_by(subscription_of("T", tags, None, 0), broker.store.opened.profile)
    queue = broker.store.queue("T", 0)
    return take(broker, broker.store.topics["T"], queue, position, most, wanted)


@pytest.mark.parametrize(
    ("position", "status", "following", "code"),
    [
        (-1, "OFFSET_TOO_SMALL", 0, ResponseCode.PULL_OFFSET_MOVED),
        (0, "FOUND", 20, ResponseCode.SUCCESS),  # no further than the queue's file
        (MANY - 1, "FOUND", MANY, ResponseCode.SUCCESS),
        (MANY, "OFFSET_OVERFLOW_ONE", MANY, ResponseCode.PULL_NOT_FOUND),
        (MANY + 1, "OFFSET_OVERFLOW_BADLY", MANY, ResponseCode.PULL_OFFSET_MOVED),
        ((1 << 63) - 1, "OFFSET_OVERFLOW_BADLY", MANY, ResponseCode.PULL_OFFSET_MOVED),
    ],
)
def test_a_position_in_or_beside_the_queue(
    store: Asked, position: int, status: str, following: int, code: int
) -> None:
    answer = asked_by(store, position)
    assert (answer.code, answer.remark) == (code, status)
    assert answer.fields == {
        "suggestWhichBrokerId": "0", "nextBeginOffset": str(following), "minOffset": "0",
        "maxOffset": str(MANY), "topicSysFlag": "1", "groupSysFlag": "0",
    }  # fmt: skip


@pytest.mark.parametrize(("topic", "low"), [("T", 0), ("Batch", -1)])
@pytest.mark.parametrize(
    ("position", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (5, ResponseCode.PULL_OFFSET_MOVED)]
)
def test_a_queue_without_messages_has_none(
    store: Asked, topic: str, low: int, position: int, code: int
) -> None:
    answer = asked_by(store, position, topic=topic, queueId=1)
    assert (answer.code, answer.remark) == (code, "NO_MESSAGE_IN_QUEUE")
    found = [answer.fields[name] for name in ("nextBeginOffset", "minOffset", "maxOffset")]
    assert found == ["0", str(low), "0"]


def test_no_more_is_taken_than_is_asked_for_and_one_at_least(store: Asked) -> None:
    assert [taken(store, 3, most).given for most in (-1, 0, 1, 5, INT_MAX)] == [1, 1, 1, 5, 17]
    assert taken(store, 3, 5).next == 8
    assert taken(store, 18).next == 20


def test_unwanted_messages_are_passed_over(store: Asked) -> None:
    found = taken(store, 0, 3, "B")
    assert [each for part in found.positions for each in part.tolist()] == [1, 3, 5]
    assert (found.status, found.next, found.given) == ("FOUND", 6, 3)
    none = taken(store, 4, 32, "C")
    assert (none.status, none.next, none.given) == ("NO_MATCHED_MESSAGE", 20, 0)


@pytest.mark.parametrize(
    ("release", "code"),
    [("5.3.1", ResponseCode.SYSTEM_ERROR), ("5.3.2", ResponseCode.INVALID_PARAMETER)],
)
def test_a_queue_that_a_topic_does_not_have_is_refused(
    store: Asked, release: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.broker.store.opened, "profile", profile(release))
    for queue_id in (-1, 2, INT_MAX):
        assert asked_by(store, 0, queueId=queue_id).code == code


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Closed"}, ResponseCode.NO_PERMISSION),
        ({"consumerGroup": "no group"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"sysFlag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"queueOffset": "x"}, ResponseCode.SYSTEM_ERROR),
        # an expression that is none filters nothing, as in a broker
        ({"subscription": "a >", "expressionType": "SQL92"}, ResponseCode.SUCCESS),
    ],
)
def test_what_is_refused(store: Asked, more: dict[str, Any], code: int) -> None:
    assert asked_by(store, 0, **more).code == code


def test_a_pull_at_the_end_waits_where_it_may(store: Asked) -> None:
    flags = HAS_SUBSCRIPTION | SUSPEND
    hold = asked_by(store, MANY, sysFlag=flags, suspendTimeoutMillis=700).hold
    assert hold is not None
    assert hold[:4] == ("T", 0, MANY, store.now + 700)
    assert asked_by(store, MANY, suspendTimeoutMillis=700).hold is None
    assert asked_by(store, MANY + 1, sysFlag=flags).hold is None
    assert asked_by(store, 0, sysFlag=flags).hold is None


def test_the_groups_subscription_stands_for_the_pulls_own_if_it_is_not_older(store: Asked) -> None:
    store.heartbeat(1, "heard", "T", version=5)
    codes = [
        asked_by(store, 0, consumerGroup="heard", sysFlag=0, **more).code
        for more in ({"subVersion": 5}, {"subVersion": 6}, {"topic": "Batch"})
    ]
    assert codes == [
        ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ]  # fmt: skip
