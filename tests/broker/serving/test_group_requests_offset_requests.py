"""Groups' offsets: asked for, committed, and where a group begins that has none."""

from typing import Any

import pytest

from reput.broker.serving import groups
from reput.broker.serving.broker import Answer
from reput.broker.serving.group_requests import begins_in_memory
from reput.broker.serving.groups import GroupOffsets
from reput.broker.serving.records import PullLimits
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked

SIZE = FIXED + 1 + 9
END = 3 * SIZE + 9 * SIZE  # three messages of U, then nine of T


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [message(n, "U" if n < 3 else "T") for n in range(12)]
    return served(tmp_path_factory.mktemp("store"), made, topics={"T": {"readQueueNums": 2}})


@pytest.fixture
def asked(store: Asked) -> Asked:
    store.broker.offsets = GroupOffsets({("g", "T"): {0: 7}})
    store.broker.limits = PullLimits(memory_bytes=0)
    store.broker.groups.find("g")
    return store


def query(asked: Asked, group: str = "g", **more: Any) -> Answer:
    fields = {"consumerGroup": group, "topic": "T", "queueId": 0, **more}
    return asked.ask(RequestCode.QUERY_CONSUMER_OFFSET, 1, **fields)


def commit(asked: Asked, group: str = "g", **more: Any) -> Answer:
    fields = {"consumerGroup": group, "topic": "T", "queueId": 0, "commitOffset": 9, **more}
    return asked.ask(RequestCode.UPDATE_CONSUMER_OFFSET, 1, **fields)


def test_an_offset_is_told_where_it_is_known(asked: Asked) -> None:
    assert query(asked).fields == {"offset": "7"}
    asked.broker.offsets.commit("g", "T", 0, 0)
    assert query(asked).fields == {"offset": "0"}
    assert query(asked, "h").code == ResponseCode.QUERY_NOT_FOUND


def test_a_group_that_is_new_begins_at_0_where_the_queue_is_in_memory(asked: Asked) -> None:
    asked.broker.limits = PullLimits()
    assert query(asked, "h").fields == {"offset": "0"}
    for no in ("false", "FALSE"):
        assert query(asked, "h", setZeroIfNotFound=no).code == ResponseCode.QUERY_NOT_FOUND
    assert query(asked, "h", setZeroIfNotFound="true").fields == {"offset": "0"}


@pytest.mark.parametrize(("memory", "whole"), [(END - 3 * SIZE, True), (END - 3 * SIZE - 1, False)])
def test_a_queue_is_in_memory_from_its_first_message_to_the_logs_end(
    asked: Asked, memory: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked.broker.store, "limit", END)
    asked.broker.limits = PullLimits(memory_bytes=memory)
    assert begins_in_memory(asked.broker, asked.broker.store.queue("T", 0)) is whole
    assert not begins_in_memory(asked.broker, asked.broker.store.queue("U", 0))


def test_a_queue_whose_first_messages_have_expired_never_is(asked: Asked, monkeypatch) -> None:
    asked.broker.limits = PullLimits()
    queue = asked.broker.store.queue("T", 0)
    assert begins_in_memory(asked.broker, queue)
    monkeypatch.setattr(queue, "minimum", 1)
    assert not begins_in_memory(asked.broker, queue)


@pytest.mark.parametrize(("release", "begins"), [("5.0.0", True), ("5.1.0", False)])
def test_a_queue_without_messages_is_up_to_5_0_0(
    asked: Asked, release: str, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked.broker.store.opened, "profile", profile(release))
    assert begins_in_memory(asked.broker, None) is begins
    assert (query(asked, queueId=1).code == ResponseCode.SUCCESS) is begins


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, ResponseCode.SUCCESS), ({"queueId": 1}, ResponseCode.SUCCESS),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": -1}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": "unheard"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"consumerGroup": "a b"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"commitOffset": 1 << 63}, ResponseCode.SYSTEM_ERROR),
    ],
)  # fmt: skip
def test_a_commit_is_of_a_known_group_and_a_queue(
    asked: Asked, more: dict[str, Any], code: int
) -> None:
    wanted = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 9, **more}
    assert asked.ask(RequestCode.UPDATE_CONSUMER_OFFSET, 1, **wanted).code == code
    assert not asked.broker.groups.has("unheard")
    done = asked.broker.offsets.query("g", "T", int(more.get("queueId", 0))) == 9
    assert done is (code == ResponseCode.SUCCESS)


def test_before_5_3_0_an_unknown_group_commits_too(asked: Asked, monkeypatch) -> None:
    monkeypatch.setattr(asked.broker.store.opened, "profile", profile("5.2.0"))
    assert commit(asked, "unheard").code == ResponseCode.SUCCESS
    assert commit(asked, "a b").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    monkeypatch.setattr(groups, "MOST_QUEUES", 1)
    assert commit(asked, "another").code == ResponseCode.SYSTEM_ERROR


def test_a_commit_does_not_undo_a_reset_and_slaves_get_all(asked: Asked) -> None:
    asked.broker.offsets.reset("g", "T", 0, 2)
    late = commit(asked)
    assert (late.code, late.remark) == (ResponseCode.SUCCESS, "Offset has been previously reset")
    assert query(asked).fields == {"offset": "2"}
    asked.broker.offsets.take_reset("g", "T", 0)
    commit(asked)
    body = asked.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, 1).body
    assert body == b'{"offsetTable":{"T@g":{0:9}}}'  # a broker's integer keys have no quotes
