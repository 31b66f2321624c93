"""How far groups have come in their topics, and how late they are (AdminBrokerProcessor)."""

from typing import Any

import pytest

from reput.broker.serving import groups
from reput.broker.serving.broker import Answer
from reput.broker.serving.group_requests import begins_in_memory, check_group
from reput.broker.serving.groups import GroupOffsets, SubscriptionGroups
from reput.broker.serving.records import PullLimits
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, STEP, T0, by_queue, message, served
from tests.jobs.sockets.asked import Asked, said

TOPICS: dict[str, Any] = {"T": {"readQueueNums": 2, "writeQueueNums": 1}, "U": {
    "readQueueNums": 1, "writeQueueNums": 1, "order": True}}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """T's queue 0 has the messages 0 to 4, U's the messages 5 and 6."""
    made = [message(n, "T" if n < 5 else "U") for n in range(7)]
    return served(tmp_path_factory.mktemp("store"), made, topics=TOPICS)


@pytest.fixture
def asked(store: Asked) -> Asked:
    broker = store.broker
    broker.offsets = GroupOffsets({("g", "T"): {0: 3}, ("g", "U"): {0: 9}, ("g", "Gone"): {0: 1}})
    broker.groups.find("g")
    store.now = T0 + 100 * STEP
    return store


def of_group(asked: Asked, group: str = "g", **more: Any) -> dict[tuple[str, int], Any]:
    return by_queue(asked.ask(RequestCode.GET_CONSUME_STATS, 1, consumerGroup=group, **more).body)


def progress(end: int, consumed: int, pulled: int, last: int) -> dict[str, int]:
    return {"brokerOffset": end, "consumerOffset": consumed, "lastTimestamp": last,
            "pullOffset": pulled}  # fmt: skip


def test_a_groups_progress_is_of_all_queues_that_are_read(asked: Asked) -> None:
    asked.broker.offsets.pulled("g", "T", 0, 5)
    asked.broker.offsets.pulled("g", "U", 0, 2)
    assert of_group(asked) == {
        ("T", 0): progress(5, 3, 5, T0 + 2 * STEP),  # of the last message consumed
        ("T", 1): progress(0, 0, 0, 0),
        ("U", 0): progress(2, 9, 9, 0),  # past the end; given less than it has committed
    }


def test_topics_are_those_named_or_subscribed_to_or_those_with_offsets(asked) -> None:
    for more, topics in [
        ({}, {"T", "U"}), ({"topic": " "}, {"T", "U"}), ({"topic": "U"}, {"U"}),
        ({"topic": "None"}, set()), ({"topicList": "U;None;;T"}, {"T", "U"}),
        ({"topicList": ";", "topic": "T"}, {"T"}),
        ({"topicList": "U", "topic": "T"}, {"U"})]:  # fmt: skip
        assert {topic for topic, _ in of_group(asked, **more)} == topics
    asked.heartbeat(1, "g", "U")
    try:
        assert {topic for topic, _ in of_group(asked)} == {"U"}
        assert of_group(asked, topic="T") == {}
        assert {topic for topic, _ in of_group(asked, topicList="T")} == {"T"}
    finally:
        asked.broker.consumers.leave("g", 1)


def test_all_groups_are_behind_by_the_sum_of_their_queues(asked: Asked, monkeypatch) -> None:
    """ConsumeStats.computeTotalDiff: brokerOffset - consumerOffset."""
    for ordered, behind, topics in [("false", 5 - 3 + 2 - 9, 2), ("true", 2 - 9, 1)]:
        answer = asked.ask(RequestCode.GET_BROKER_CONSUME_STATS, 1, isOrder=ordered)
        text = answer.body.decode()
        assert f'"totalDiff":{behind},' in text
        assert text.count('"consumeTps"') == topics
        assert text.startswith('{"brokerAddr":"127.0.0.1:9876",')
        assert ("T", 1) not in by_queue(answer.body)  # of queues that are written to
    # fetchAllConsumeStatsInBroker sets no pullOffset: 0 - 3 of T, 0 - 9 of U.
    asked.broker.offsets.pulled("g", "T", 0, 5)
    answer = asked.ask(RequestCode.GET_BROKER_CONSUME_STATS, 1, isOrder="false")
    assert answer.body.endswith(b'"totalInflightDiff":-12}')
    assert by_queue(answer.body) == {
        ("T", 0): progress(5, 3, 0, T0 + 2 * STEP), ("U", 0): progress(2, 9, 0, 0)}  # fmt: skip
    monkeypatch.setattr(asked.broker.store.opened, "profile", profile("5.0.0"))
    wanted = progress(5, 3, 0, T0 + 2 * STEP)
    del wanted["pullOffset"]
    assert of_group(asked)["T", 0] == wanted
    answer = asked.ask(RequestCode.GET_BROKER_CONSUME_STATS, 1, isOrder="false")
    assert by_queue(answer.body)["T", 0] == wanted
    assert b"Inflight" not in answer.body


def spans(asked: Asked, group: str) -> Any:
    found = asked.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, 1, topic="T", group=group)
    return [
        [each[name] for name in ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime")]
        for each in said(found)["consumeTimeSpanSet"]]  # fmt: skip


def test_a_span_is_from_the_first_message_to_the_last_and_what_is_late_is_the_next(asked) -> None:
    end = T0 + 4 * STEP
    assert spans(asked, "g") == [[T0, end, T0 + 2 * STEP, (100 - 3) * STEP]]
    asked.broker.offsets.commit("g", "T", 0, 5)
    assert spans(asked, "g") == [[T0, end, end, 0]]
    asked.broker.offsets.commit("g", "T", 0, 0)
    assert spans(asked, "g") == [[T0, end, T0, 100 * STEP]]
    # getMessageStoreTimeStamp of the offset -1 is -1
    assert spans(asked, "new") == [[T0, end, T0, asked.now + 1]]
    none = asked.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, 1, topic="None", group="g")
    assert none.code == ResponseCode.TOPIC_NOT_EXIST


# --- Groups' configurations as told to others, and which group may get messages.
@pytest.fixture
def asked_group(store: Asked) -> Asked:
    configured = {"on": {"consumeEnable": True}, "off": {"consumeEnable": False}, "none": {}}
    store.broker.groups = SubscriptionGroups(configured, store.broker.store.opened.profile)
    return store


def test_a_group_is_made_when_it_is_asked_for_and_all_are_told(asked_group: Asked) -> None:
    one = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    assert said(asked_group.ask(one, 1, group="on")) == {"consumeEnable": True}
    assert said(asked_group.ask(one, 1, group="new"))["groupName"] == "new"
    assert asked_group.ask(one, 1, group="a b").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    table = said(asked_group.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 1))
    assert list(table["subscriptionGroupTable"]) == ["on", "off", "none", "new"]
    assert table["forbiddenTable"] == {}
    assert table["dataVersion"]["counter"] == 0


def test_a_group_gets_messages_unless_that_is_switched_off(asked_group: Asked) -> None:
    for group, code in [
        ("on", None), ("none", None), ("new", None), ("off", ResponseCode.NO_PERMISSION),
        ("a b", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)]:  # fmt: skip
        if code is None:
            check_group(asked_group.broker, group)
        else:
            with pytest.raises(Refused) as refused:
                check_group(asked_group.broker, group)
            assert refused.value.code == code
    with pytest.raises(Refused, match=r"^subscription group \[g{255}\] does not exist$"):
        check_group(asked_group.broker, "g" * 10_000)


# --- Groups' offsets: asked for, committed, and where a group begins that has none.
SIZE = FIXED + 1 + 9
END = 3 * SIZE + 9 * SIZE  # three messages of U, then nine of T


@pytest.fixture(scope="module")
def store_offset(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [message(n, "U" if n < 3 else "T") for n in range(12)]
    return served(tmp_path_factory.mktemp("store"), made, topics={"T": {"readQueueNums": 2}})


@pytest.fixture
def asked_offset(store_offset: Asked) -> Asked:
    store_offset.broker.offsets = GroupOffsets({("g", "T"): {0: 7}})
    store_offset.broker.limits = PullLimits(memory_bytes=0)
    store_offset.broker.groups.find("g")
    return store_offset


def query(asked_offset: Asked, group: str = "g", **more: Any) -> Answer:
    fields = {"consumerGroup": group, "topic": "T", "queueId": 0, **more}
    return asked_offset.ask(RequestCode.QUERY_CONSUMER_OFFSET, 1, **fields)


def commit(asked_offset: Asked, group: str = "g", **more: Any) -> Answer:
    fields = {"consumerGroup": group, "topic": "T", "queueId": 0, "commitOffset": 9, **more}
    return asked_offset.ask(RequestCode.UPDATE_CONSUMER_OFFSET, 1, **fields)


def test_an_offset_is_told_where_it_is_known_or_0_in_memory(asked_offset: Asked) -> None:
    assert query(asked_offset).fields == {"offset": "7"}
    asked_offset.broker.offsets.commit("g", "T", 0, 0)
    assert query(asked_offset).fields == {"offset": "0"}
    assert query(asked_offset, "h").code == ResponseCode.QUERY_NOT_FOUND
    asked_offset.broker.limits = PullLimits()
    assert query(asked_offset, "h").fields == {"offset": "0"}
    for no in ("false", "FALSE"):
        assert query(asked_offset, "h", setZeroIfNotFound=no).code == ResponseCode.QUERY_NOT_FOUND
    assert query(asked_offset, "h", setZeroIfNotFound="true").fields == {"offset": "0"}


@pytest.mark.parametrize(("memory", "whole"), [(END - 3 * SIZE, True), (END - 3 * SIZE - 1, False)])
def test_a_queue_is_in_memory_from_its_first_message_to_the_logs_end(
    asked_offset: Asked, memory: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_offset.broker.store, "limit", END)
    asked_offset.broker.limits = PullLimits(memory_bytes=memory)
    assert begins_in_memory(asked_offset.broker, asked_offset.broker.store.queue("T", 0)) is whole
    assert not begins_in_memory(asked_offset.broker, asked_offset.broker.store.queue("U", 0))


def test_a_queue_that_expired_never_is_in_memory_and_an_empty_one_up_to_5_0_0(
    asked_offset, monkeypatch
) -> None:
    asked_offset.broker.limits = PullLimits()
    queue = asked_offset.broker.store.queue("T", 0)
    assert begins_in_memory(asked_offset.broker, queue)
    monkeypatch.setattr(queue, "minimum", 1)
    assert not begins_in_memory(asked_offset.broker, queue)


@pytest.mark.parametrize(("more", "code"), [
    ({}, ResponseCode.SUCCESS), ({"queueId": 1}, ResponseCode.SUCCESS),
    ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
    ({"queueId": -1}, ResponseCode.INVALID_PARAMETER),
    ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
    ({"consumerGroup": "unheard"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ({"consumerGroup": "a b"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ({"commitOffset": 1 << 63}, ResponseCode.SYSTEM_ERROR)])  # fmt: skip
def test_a_commit_is_of_a_known_group_and_a_queue(asked_offset, more, code) -> None:
    wanted = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 9, **more}
    assert asked_offset.ask(RequestCode.UPDATE_CONSUMER_OFFSET, 1, **wanted).code == code
    assert not asked_offset.broker.groups.has("unheard")
    done = asked_offset.broker.offsets.query("g", "T", int(more.get("queueId", 0))) == 9
    assert done is (code == ResponseCode.SUCCESS)


def test_a_commit_does_not_undo_a_reset_and_slaves_get_all(asked_offset: Asked) -> None:
    asked_offset.broker.offsets.reset("g", "T", 0, 2)
    late = commit(asked_offset)
    assert (late.code, late.remark) == (ResponseCode.SUCCESS, "Offset has been previously reset")
    assert query(asked_offset).fields == {"offset": "2"}
    asked_offset.broker.offsets.take_reset("g", "T", 0)
    commit(asked_offset)
    body = asked_offset.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, 1).body
    assert body == b'{"offsetTable":{"T@g":{0:9}}}'  # a broker's integer keys have no quotes


# --- Offsets that an operator resets: by a time or to a position, by the server or by the
# clients.
MANY = 6  # messages of queue 0; queue 1 has none
LAST = T0 + (MANY - 1) * STEP


@pytest.fixture(scope="module")
def store_resets(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2, "writeQueueNums": 2}, "Zero": {"readQueueNums": 0},
        "Batch": {"readQueueNums": 1, "attributes": {"queue.type": "BatchCQ"}}}  # fmt: skip
    made = (message(n) for n in range(MANY))
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


@pytest.fixture
def asked_resets(store_resets: Asked) -> Asked:
    store_resets.broker.offsets = GroupOffsets({("g", "T"): {0: 4, 1: 0}})
    store_resets.broker.groups.find("g")
    store_resets.broker.outbox.clear()
    return store_resets


def reset(asked_resets: Asked, **more: Any) -> Answer:
    wanted = {"topic": "T", "group": "g", "timestamp": T0, "isForce": "true", **more}
    return asked_resets.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, 1, **wanted)


def offsets(asked_resets: Asked) -> list[int]:
    return [asked_resets.broker.offsets.query("g", "T", n) for n in (0, 1)]


def test_a_time_is_at_the_first_message_from_then_on_and_below_0_at_the_end(asked_resets) -> None:
    for time, position in [(0, 0), (T0, 0), (T0 + 1, 1), (T0 + STEP, 1), (LAST, MANY - 1),
                           (LAST + 1, MANY), (-1, MANY), (-5, MANY)]:  # fmt: skip
        assert reset(asked_resets, timestamp=time).code == ResponseCode.SUCCESS
        assert offsets(asked_resets) == [position, 0]
        assert asked_resets.broker.offsets.take_reset("g", "T", 0) == position
    asked_resets.broker.offsets = GroupOffsets({("g", "T"): {0: 4, 1: 0}})
    for more in ({}, {"offset": -1}):
        said = reset(asked_resets, queueId=0, timestamp=T0 + STEP, **more)
        assert by_queue(said.body) == {("T", 0): 1}
    assert not asked_resets.broker.offsets.is_reset("g", "T", 1)


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
def test_one_queue_is_set_to_a_position_within_it(asked_resets, queue, offset, code) -> None:
    assert reset(asked_resets, queueId=queue, offset=offset).code == code
    done = code == ResponseCode.SUCCESS
    assert asked_resets.broker.offsets.is_reset("g", "T", queue) is done
    assert not asked_resets.broker.offsets.is_reset("g", "T", 1 - queue)
    if done:
        assert asked_resets.broker.offsets.query("g", "T", queue) == offset


def test_who_is_not_known_is_refused_and_so_are_too_many(asked_resets: Asked, monkeypatch) -> None:
    assert reset(asked_resets, topic="None").code == ResponseCode.TOPIC_NOT_EXIST
    assert reset(asked_resets, group="unheard").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert not asked_resets.broker.groups.has("unheard")
    none = reset(asked_resets, topic="Zero")
    assert (none.code, none.remark) == (ResponseCode.SYSTEM_ERROR, "No queues to reset.")
    # a batch queue without entries begins at -1, and any offset up to 1 passes
    assert reset(asked_resets, topic="Batch", queueId=0, offset=-7).code == ResponseCode.SUCCESS
    monkeypatch.setattr(groups, "MOST_QUEUES", 0)
    asked_resets.broker.groups.find("new")
    assert reset(asked_resets, group="new").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("forced", "time", "sent"),
    [
        ("true", T0 + STEP, [1, 0]), ("false", T0 + STEP, [1, 0]), ("true", -1, [MANY, 0]),
        ("false", -1, [4, 0]),  # further than the group is
    ],
)  # fmt: skip
def test_before_5_2_0_the_clients_are_told_and_commit_themselves(
    asked_resets: Asked, forced: str, time: int, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker2Client.resetOffset: without isForce only `timeStampOffset < consumerOffset`."""
    monkeypatch.setattr(asked_resets.broker.store.opened, "profile", profile("5.1.4"))
    assert reset(asked_resets).code == ResponseCode.CONSUMER_NOT_ONLINE
    asked_resets.heartbeat(7, "g", "T")
    asked_resets.broker.outbox.clear()
    said = reset(asked_resets, timestamp=time, isForce=forced)
    asked_resets.broker.consumers.leave("g", 7)
    ((connection, note), *_) = asked_resets.broker.outbox
    assert (connection, note.code) == (7, RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert note.body == said.body
    assert by_queue(said.body) == {("T", 0): sent[0], ("T", 1): sent[1]}
    assert offsets(asked_resets) == [4, 0]
    assert reset(asked_resets, group="h").code == ResponseCode.SYSTEM_ERROR  # it has no offsets
