"""One pop: from which queues its messages are, what its answer says, and what comes again."""

from itertools import count
from typing import Any

import pytest

from reput.broker.serving.broker import Answer, Caller, Hold
from reput.broker.serving.groups import GroupOffsets
from reput.broker.serving.popped import CheckPoint, InFlight, Orders
from reput.broker.serving.popping import Asked as Wanted
from reput.broker.serving.popping import checked, has_due, has_fresh, polling, pop_offset
from reput.broker.serving.records import PullLimits
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.asking import request
from tests.jobs.sockets.comparing import whole
from tests.jobs.sockets.popping import fields, pop

NOW = 10_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Queue 0 has five messages, queue 1 three; every second one has the tag B."""
    made = [message(n, "T", 0, "AB"[n % 2]) for n in range(5)]
    made += [message(n, "T", 1, "AB"[n % 2]) for n in range(3)]
    return served(tmp_path_factory.mktemp("store"), made)


@pytest.fixture
def asked(store: Asked) -> Asked:
    """Nothing is popped yet; the first pop begins with queue 0."""
    broker = store.broker
    broker.in_flight, broker.orders, broker.offsets = InFlight(), Orders(), GroupOffsets({})
    broker.pops, broker.limits, store.now = count(), PullLimits(), NOW
    return store


def answer(asked: Asked, group: str, **more: Any) -> Answer:
    return asked.ask(RequestCode.POP_MESSAGE, **fields(group, "T", **more))


def places(asked: Asked, group: str, **more: Any) -> list[tuple[int, int]]:
    return [each[:2] for each in pop(asked, group, "T", **more)]


def test_an_answer_names_each_message_and_counts_the_rest(asked: Asked) -> None:
    said = answer(asked, "g", maxMsgNums=2)
    assert (said.code, said.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert said.fields == {
        "popTime": str(NOW), "invisibleTime": "60000", "reviveQid": "0", "restNum": "6",
        "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0,1"}  # fmt: skip
    said = answer(asked, "g", maxMsgNums=4)  # the next pop begins with queue 1
    assert said.fields["popTime"] == str(NOW + 1)  # no two pops of a group have one time
    assert (said.fields["reviveQid"], said.fields["restNum"]) == ("1", "2")
    assert said.fields["msgOffsetInfo"] == "0 1 0,1,2;0 0 2"
    assert asked.broker.offsets.query("g", "T", 0) == 3


def test_what_a_pop_refuses_and_when_it_was_sent(asked: Asked) -> None:
    """A pop is too late after 500 ms more than it would have waited (isTimeoutTooMuch)."""
    for more, code in [
        ({"maxMsgNums": 32}, ResponseCode.SUCCESS),
        ({"maxMsgNums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"bornTime": NOW - 600, "pollTime": 100}, ResponseCode.SUCCESS),
        ({"bornTime": NOW - 601, "pollTime": 100}, ResponseCode.POLLING_TIMEOUT),
        ({"bornTime": 0}, ResponseCode.SUCCESS), ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"exp": "a >", "expType": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"invisibleTime": "x"}, ResponseCode.SYSTEM_ERROR),
        ({"maxMsgNums": 0}, ResponseCode.POLLING_TIMEOUT),
        ({"invisibleTime": -(1 << 62)}, ResponseCode.SUCCESS)]:  # fmt: skip
        asked.broker.in_flight, asked.broker.offsets = InFlight(), GroupOffsets({})
        assert asked.ask(RequestCode.POP_MESSAGE, **{**fields("g", "T"), **more}).code == code
    # PopMessageProcessor: addExtFieldIfNotExist.
    asked.broker.offsets = GroupOffsets({})
    unsaid = fields("g", "T")
    del unsaid["bornTime"]
    assert asked.ask(RequestCode.POP_MESSAGE, **unsaid).code == ResponseCode.SUCCESS
    waits = asked.ask(RequestCode.POP_MESSAGE, **{**unsaid, "pollTime": 700})
    assert waits.hold is not None
    assert waits.hold.until == NOW + 700


def test_one_queue_alone_is_popped_and_a_new_group_begins_as_it_asks(asked: Asked) -> None:
    assert places(asked, "g", queueId=1) == [(1, 0), (1, 1), (1, 2)]
    assert places(asked, "g", queueId=1) == []
    assert places(asked, "g", queueId=-1) == [(0, n) for n in range(5)]
    asked.broker.limits = PullLimits(memory_bytes=0)
    assert places(asked, "new", queueId=0, initMode=1, invisibleTime=0) == [(0, 4)]
    assert places(asked, "new", queueId=0) == []  # for 1 ms at least
    asked.now += 1
    assert places(asked, "new", queueId=0) == [(0, 4)]


def test_what_the_filter_does_not_want_is_passed_and_the_group_goes_on_behind_it(asked) -> None:
    assert places(asked, "g", queueId=0, exp="B") == [(0, 1), (0, 3)]
    assert asked.broker.offsets.query("g", "T", 0) == 5
    said = answer(asked, "g", queueId=1, exp="C")
    assert (said.code, said.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    assert asked.broker.offsets.query("g", "T", 1) == 3
    assert said.fields["msgOffsetInfo"] == ""


def test_an_offset_that_is_reset_is_where_the_next_pop_begins(asked: Asked) -> None:
    places(asked, "g", queueId=0)
    asked.broker.offsets.reset("g", "T", 0, 3)
    assert places(asked, "g", queueId=0) == [(0, 3), (0, 4)]
    asked.broker.offsets.commit("g", "T", 0, 99)  # past the end: back to it
    assert places(asked, "g", queueId=0) == []
    assert asked.broker.offsets.query("g", "T", 0) == 5


# --- What POP and its like check before they answer, where a group goes on, and who may wait.
CALLER = Caller(1, "10.0.0.1:5000", "127.0.0.1:9876", NOW)
RETRY = "%RETRY%g_T"  # KeyBuilder.buildPopRetryTopicV1


@pytest.fixture(scope="module")
def store_pop(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [*(message(n, "T", 1) for n in range(5)), message(9, RETRY)]
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2}, "Closed": {"perm": 2}, RETRY: {"readQueueNums": 1},
        "Batch": {"readQueueNums": 1, "attributes": {"queue.type": "BatchCQ"}}}  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


@pytest.fixture
def asked_pop(store_pop: Asked) -> Asked:
    broker = store_pop.broker
    broker.in_flight, broker.offsets, broker.limits = InFlight(), GroupOffsets({}), PullLimits()
    broker.groups.find("shut")  # so that it is known
    return store_pop


def wanted(asked_pop: Asked, queue_id: int = -1, group: str = "g", topic: str = "T") -> Wanted:
    return Wanted(group, asked_pop.broker.store.topics[topic], queue_id)


def test_what_looking_refuses_and_a_queue_below_0_is_all_queues(asked_pop: Asked) -> None:
    for more, code in [
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Closed"}, ResponseCode.NO_PERMISSION),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "a b"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"consumerGroup": "shut"}, ResponseCode.NO_PERMISSION)]:  # fmt: skip
        (asked_pop.broker.groups.find("shut") or {})["consumeEnable"] = False
        with pytest.raises(Refused) as said:
            checked(asked_pop.broker, request(1, **({**_FIELDS, **more})), CALLER)
        assert said.value.code == code
    for queue_id, queues in [(0, [0]), (1, [1]), (-1, [0, 1]), (-9, [0, 1])]:
        found = checked(asked_pop.broker, request(1, **{**_FIELDS, "queueId": queue_id}), CALLER)
        assert list(found.queues) == queues
        assert [each.name for each in found.topics(asked_pop.broker)] == ["T", RETRY]
        assert [each.name for each in wanted(asked_pop, group="h").topics(asked_pop.broker)] == [
            "T"]  # fmt: skip


_FIELDS: dict[str, Any] = {"topic": "T", "consumerGroup": "g", "queueId": 1}


@pytest.mark.parametrize(("topic", "queue_id", "memory", "first", "offset"), [
    ("T", 1, 0, True, 0), ("T", 1, 0, False, 4), ("T", 1, 1 << 62, False, 0), ("T", 0, 0, True, 0),
    ("T", 0, 0, False, 0), ("Batch", 0, 0, True, 0)])  # fmt: skip
def test_a_group_without_an_offset_begins_at_the_first_or_last_message(
    asked_pop: Asked, topic: str, queue_id: int, memory: int, first: bool, offset: int
) -> None:
    broker = asked_pop.broker
    broker.limits = PullLimits(memory_bytes=memory)
    there = broker.store.topics[topic]
    assert pop_offset(broker, "g", there, queue_id, first) == offset
    broker.offsets.commit("g", topic, queue_id, 3)
    assert pop_offset(broker, "g", there, queue_id, first) == 3


def test_something_is_new_until_all_is_read_and_comes_again_in_its_time(asked_pop: Asked) -> None:
    broker = asked_pop.broker
    assert not has_fresh(broker, wanted(asked_pop, 0, "h"))
    assert has_fresh(broker, wanted(asked_pop, 1, "h"))
    broker.offsets.commit("g", "T", 1, 4)
    assert has_fresh(broker, wanted(asked_pop))
    broker.offsets.commit("g", "T", 1, 5)
    assert has_fresh(broker, wanted(asked_pop, 0))  # the message in the retry topic
    broker.offsets.commit("g", RETRY, 0, 1)
    assert not has_fresh(broker, wanted(asked_pop))
    broker = asked_pop.broker
    assert not has_due(broker, wanted(asked_pop), NOW)
    broker.in_flight.add("g", RETRY, CheckPoint(0, [0], 1, NOW))
    assert [has_due(broker, wanted(asked_pop), NOW + n) for n in (-1, 0)] == [False, True]
    assert not has_due(broker, wanted(asked_pop, group="h"), NOW)


@pytest.mark.parametrize(("born", "wait", "until"), [
    (NOW - 100, 101, NOW + 1), (NOW - 100, 100, None), (NOW, 0, None), (NOW, -1, None),
    (0, 700, NOW + 700), (NOW, 300_001, NOW + 300_000),
    (NOW + (1 << 40), 1, NOW + 300_000)])  # fmt: skip
def test_a_request_waits_from_its_birth_on(asked_pop, born, wait, until) -> None:
    """PopLongPollingService.polling: until bornTime + pollTime; here five minutes at most."""
    command = request(1, pollTime=wait, bornTime=born)
    hold = polling(asked_pop.broker, command, CALLER, wanted(asked_pop, 1), None)
    if until is None:
        assert hold == ResponseCode.POLLING_TIMEOUT
        return
    assert isinstance(hold, Hold)
    assert (hold.topic, hold.queue_id, hold.group, hold.until) == ("T", 1, "g", until)
    assert command.fields["bornTime"] == str(born or NOW)
    assert hold.ready is not None
    assert hold.ready()


@pytest.mark.parametrize(("many", "full"), [(1024, False), (1025, True)])
def test_more_than_1024_do_not_wait_for_one_queue(asked_pop, many, full, monkeypatch) -> None:
    monkeypatch.setattr(
        asked_pop.broker, "waiting", lambda *key: many if key == ("g", "T", 1) else 0)  # fmt: skip
    command = request(1, pollTime=5, bornTime=NOW)
    hold = polling(asked_pop.broker, command, CALLER, wanted(asked_pop, 1), None)
    assert (hold == ResponseCode.POLLING_FULL) is full
    assert isinstance(polling(asked_pop.broker, command, CALLER, wanted(asked_pop, -1), None), Hold)


@pytest.mark.parametrize(("due", "again", "looks"), [
    (None, None, None), (None, NOW + 5, NOW + 5), (NOW + 700, None, NOW + 700),
    (NOW + 700, NOW + 5, NOW + 5), (NOW - 5, None, NOW + 200),
    (NOW + 199, None, NOW + 200)])  # fmt: skip
def test_a_waiting_request_looks_again_when_something_may_be_due(
    asked_pop: Asked, due: int | None, again: int | None, looks: int | None
) -> None:
    if due is not None:
        asked_pop.broker.in_flight.add("g", RETRY, CheckPoint(0, [0], 1, due))
    hold = polling(asked_pop.broker, request(1, pollTime=5000, bornTime=NOW), CALLER,
                   wanted(asked_pop), again)  # fmt: skip
    assert isinstance(hold, Hold)
    assert hold.again == looks


# --- Looking at what a pop would give: whether there is anything, how many wait, the messages.
SIZE = FIXED + 1 + 9


@pytest.fixture(scope="module")
def store_looks(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [*(message(n, "T", n % 2) for n in range(6)), message(6, RETRY)]
    return served(tmp_path_factory.mktemp("store"), made)


@pytest.fixture
def asked_looks(store_looks: Asked) -> Asked:
    """The group g has read all; h has read nothing."""
    broker = store_looks.broker
    broker.in_flight, broker.orders = InFlight(), Orders()
    broker.offsets = GroupOffsets({("g", "T"): {0: 3, 1: 3}, ("g", RETRY): {0: 1}})
    store_looks.now = NOW
    return store_looks


def notified(asked_looks: Asked, group: str = "g", **more: Any) -> Answer:
    return asked_looks.ask(RequestCode.NOTIFICATION, **fields(group, "T", **more))


def peeked(asked_looks: Asked, group: str, most: int, queue_id: int = -1) -> tuple[
    int, int, int, str]:  # fmt: skip
    """(code, bytes, rest, remark) of a peek."""
    said = asked_looks.ask(RequestCode.PEEK_MESSAGE, consumerGroup=group, topic="T",
                           queueId=queue_id, maxMsgNums=most)  # fmt: skip
    return said.code, len(whole(said).body), int(said.fields["restNum"]), str(said.remark)


def has(said: Answer) -> tuple[str, bool]:
    return said.fields["hasMsg"], said.hold is not None


def test_there_is_a_message_or_the_request_waits_or_it_may_not(asked_looks, monkeypatch) -> None:
    assert has(notified(asked_looks, "h", pollTime=1000)) == ("true", False)
    waits = notified(asked_looks, pollTime=1000)
    assert has(waits) == ("false", True)
    assert has(notified(asked_looks, pollTime=0)) == ("false", False)
    assert waits.fields["pollingFull"] == "false"
    asked_looks.broker.offsets.commit("g", RETRY, 0, 0)
    assert has(notified(asked_looks, queueId=1)) == ("true", False)
    asked_looks.broker.offsets.commit("g", RETRY, 0, 1)
    # NotificationProcessor: addExtFieldIfNotExist.
    unsaid = fields("g", "T", pollTime=700)
    del unsaid["bornTime"]
    waits = asked_looks.ask(RequestCode.NOTIFICATION, **unsaid)
    assert waits.hold is not None
    assert waits.hold.until == NOW + 700
    monkeypatch.setattr(asked_looks.broker, "waiting", lambda *key: 1025)
    said = notified(asked_looks, pollTime=1000)
    assert said.fields == {"hasMsg": "false", "pollingFull": "true"}
    said = asked_looks.ask(RequestCode.POLLING_INFO, consumerGroup="g", topic="T", queueId=0)
    assert said.fields == {"pollingNum": "1025"}


def test_what_is_in_flight_is_there_when_its_time_is_over(asked_looks: Asked) -> None:
    asked_looks.broker.in_flight.add("g", "T", CheckPoint(1, [0], 1, NOW + 1))
    assert has(notified(asked_looks)) == ("false", False)
    assert has(notified(asked_looks, order="true")) == ("false", False)
    asked_looks.now += 1
    assert has(notified(asked_looks)) == ("true", False)
    assert has(notified(asked_looks, order="true")) == ("false", False)  # no retries in order


def test_in_order_a_blocked_queue_has_nothing_until_it_is_free(asked_looks: Asked) -> None:
    some: dict[str, Any] = {"order": "true", "queueId": 0, "invisibleTime": 500}
    assert len(pop(asked_looks, "h", "T", **some, attemptId="a", maxMsgNums=1)) == 1
    blocked = notified(asked_looks, "h", **some, attemptId="b", pollTime=1000)
    assert has(blocked) == ("false", True)
    assert blocked.hold is not None
    assert blocked.hold.again == NOW + 500
    assert has(notified(asked_looks, "h", **some, attemptId="a")) == ("true", False)
    assert has(notified(asked_looks, "h", **{**some, "queueId": -1}, attemptId="b")) == (
        "true", False)  # fmt: skip
    asked_looks.now += 500
    assert has(notified(asked_looks, "h", **some, attemptId="b")) == ("true", False)


def test_a_peek_gives_messages_counts_all_and_changes_no_offset(asked_looks: Asked) -> None:
    assert peeked(asked_looks, "h", 32) == (ResponseCode.SUCCESS, 6 * SIZE, 6, "FOUND")
    assert peeked(asked_looks, "h", 2) == (ResponseCode.SUCCESS, 2 * SIZE, 6, "FOUND")
    assert peeked(asked_looks, "h", 1 << 30, 1) == (ResponseCode.SUCCESS, 3 * SIZE, 3, "FOUND")
    assert peeked(asked_looks, "h", 0)[:3] == (ResponseCode.PULL_NOT_FOUND, 0, 6)
    assert peeked(asked_looks, "g", 32) == (
        ResponseCode.PULL_NOT_FOUND, 0, 0, "NO_MESSAGE_IN_QUEUE")  # fmt: skip
    asked_looks.broker.offsets.commit("g", "T", 0, 2)
    asked_looks.broker.offsets.commit("g", RETRY, 0, 0)
    retry = FIXED + len(RETRY) + 9
    assert peeked(asked_looks, "g", 32)[1:3] == (SIZE + retry, 2)
    peeked(asked_looks, "h", 32)
    assert asked_looks.broker.offsets.query("h", "T", 0) == -1
    assert len(asked_looks.broker.in_flight) == 0
    asked_looks.broker.offsets.commit("g", "T", 0, 99)
    asked_looks.broker.offsets.commit("g", RETRY, 0, 1)
    assert peeked(asked_looks, "g", 5, 0)[:3] == (ResponseCode.PULL_NOT_FOUND, 0, 0)
    assert asked_looks.broker.offsets.query("g", "T", 0) == 99
