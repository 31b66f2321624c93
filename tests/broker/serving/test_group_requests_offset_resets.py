"""Offsets that an operator resets: by a time or to a position, by the server or by the clients."""

from typing import Any

import pytest

from reput.broker.serving import groups
from reput.broker.serving.broker import Answer
from reput.broker.serving.groups import GroupOffsets
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import STEP, T0, by_queue, message, served
from tests.jobs.sockets.asked import Asked

MANY = 6  # messages of queue 0; queue 1 has none
LAST = T0 + (MANY - 1) * STEP


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2, "writeQueueNums": 2},
        "Zero": {"readQueueNums": 0},
        "Batch": {"readQueueNums": 1, "attributes": {"queue.type": "BatchCQ"}},
    }  # fmt: skip
    made = (message(n) for n in range(MANY))
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


@pytest.fixture
def asked(store: Asked) -> Asked:
    store.broker.offsets = GroupOffsets({("g", "T"): {0: 4, 1: 0}})
    store.broker.groups.find("g")
    store.broker.outbox.clear()
    return store


def reset(asked: Asked, **more: Any) -> Answer:
    wanted = {"topic": "T", "group": "g", "timestamp": T0, "isForce": "true", **more}
    return asked.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 1, **wanted)


def offsets(asked: Asked) -> list[int]:
    return [asked.broker.offsets.query("g", "T", n) for n in (0, 1)]


@pytest.mark.parametrize(
    ("time", "position"),
    [
        (0, 0), (T0, 0), (T0 + 1, 1), (T0 + STEP, 1), (LAST, MANY - 1), (LAST + 1, MANY),
        (-1, MANY), (-5, MANY),
    ],
)  # fmt: skip
def test_a_time_is_at_the_first_message_from_then_on_and_below_0_at_the_end(
    asked: Asked, time: int, position: int
) -> None:
    assert reset(asked, timestamp=time).code == ResponseCode.SUCCESS
    assert offsets(asked) == [position, 0]
    assert asked.broker.offsets.take_reset("g", "T", 0) == position


@pytest.mark.parametrize(
    ("queue", "offset", "code"),
    [
        (0, 0, ResponseCode.SUCCESS), (0, MANY, ResponseCode.SUCCESS),
        (0, MANY + 1, ResponseCode.SUCCESS),  # `offset > max + 1` is refused
        (0, MANY + 2, ResponseCode.SYSTEM_ERROR), (0, -2, ResponseCode.SYSTEM_ERROR),
        (1, 1, ResponseCode.SUCCESS), (1, 2, ResponseCode.SYSTEM_ERROR),
        (2, 0, ResponseCode.SYSTEM_ERROR),
    ],
)  # fmt: skip
def test_one_queue_is_set_to_a_position_within_it(
    asked: Asked, queue: int, offset: int, code: int
) -> None:
    assert reset(asked, queueId=queue, offset=offset).code == code
    done = code == ResponseCode.SUCCESS
    assert asked.broker.offsets.is_reset("g", "T", queue) is done
    assert not asked.broker.offsets.is_reset("g", "T", 1 - queue)
    if done:
        assert asked.broker.offsets.query("g", "T", queue) == offset


def test_one_queue_without_an_offset_is_set_by_the_time(asked: Asked) -> None:
    for more in ({}, {"offset": -1}):
        said = reset(asked, queueId=0, timestamp=T0 + STEP, **more)
        assert by_queue(said.body) == {("T", 0): 1}
    assert not asked.broker.offsets.is_reset("g", "T", 1)


def test_who_is_not_known_is_refused_and_so_are_too_many(asked: Asked, monkeypatch) -> None:
    assert reset(asked, topic="None").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(asked, group="unheard").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert not asked.broker.groups.has("unheard")
    none = reset(asked, topic="Zero")
    assert (none.code, none.remark) == (ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    # a batch queue without entries begins at -1, and any offset up to 1 passes
    assert reset(asked, topic="Batch", queueId=0, offset=-7).code == ResponseCode.SUCCESS
    monkeypatch.setattr(groups, "MOST_QUEUES", 0)
    asked.broker.groups.find("new")
    assert reset(asked, group="new").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("forced", "time", "sent"),
    [
        ("true", T0 + STEP, [1, 0]), ("false", T0 + STEP, [1, 0]), ("true", -1, [MANY, 0]),
        ("false", -1, [4, 0]),  # further than the group is
    ],
)  # fmt: skip
def test_before_5_2_0_the_clients_are_told_and_commit_themselves(
    asked: Asked, forced: str, time: int, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker2Client.resetOffset: without isForce only `timeStampOffset < consumerOffset`."""
    monkeypatch.setattr(asked.broker.store.opened, "profile", profile("5.1.4"))
    assert reset(asked).code == ResponseCode.CONSUMER_NOT_ONLINE
    asked.heartbeat(7, "g", "T")
    asked.broker.outbox.clear()
    said = reset(asked, timestamp=time, isForce=forced)
    asked.broker.consumers.leave("g", 7)
    ((connection, note), *_) = asked.broker.outbox
    assert (connection, note.code) == (7, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert note.body == said.body
    assert by_queue(said.body) == {("T", 0): sent[0], ("T", 1): sent[1]}
    assert offsets(asked) == [4, 0]
    assert reset(asked, group="h").code == ResponseCode.SYSTEM_ERROR  # it has no offsets
