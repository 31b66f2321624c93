"""One pop: from which queues its messages are, what its answer says, and what comes again."""

from itertools import count
from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.serving.groups import GroupOffsets
from reput.broker.serving.popped import InFlight, Orders
from reput.broker.serving.records import PullLimits
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import message, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.popping import ack, fields, messages, pop

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
        "startOffsetInfo": "0 0 0", "msgOffsetInfo": "0 0 0,1",
    }  # fmt: skip
    said = answer(asked, "g", maxMsgNums=4)  # the next pop begins with queue 1
    assert said.fields["popTime"] == str(NOW + 1)  # no two pops of a group have one time
    assert (said.fields["reviveQid"], said.fields["restNum"]) == ("1", "2")
    assert said.fields["msgOffsetInfo"] == "0 1 0,1,2;0 0 2"
    assert asked.broker.offsets.query("g", "T", 0) == 3


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"maxMsgNums": 32}, ResponseCode.SUCCESS),
        ({"maxMsgNums": 33}, ResponseCode.INVALID_PARAMETER),
        ({"bornTime": NOW - 600, "pollTime": 100}, ResponseCode.SUCCESS),
        ({"bornTime": NOW - 601, "pollTime": 100}, ResponseCode.POLLING_TIMEOUT),
        ({"bornTime": 0}, ResponseCode.SUCCESS),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"exp": "a >", "expType": "SQL92"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"invisibleTime": "x"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_is_refused(asked: Asked, more: dict[str, Any], code: int) -> None:
    """A pop is too late after 500 ms more than it would have waited (isTimeoutTooMuch)."""
    assert asked.ask(RequestCode.POP_MESSAGE, **{**fields("g", "T"), **more}).code == code


def test_a_pop_that_does_not_say_when_it_was_sent_is_sent_now(asked: Asked) -> None:
    """PopMessageProcessor: addExtFieldIfNotExist."""
    unsaid = fields("g", "T")
    del unsaid["bornTime"]
    assert asked.ask(RequestCode.POP_MESSAGE, **unsaid).code == ResponseCode.SUCCESS
    waits = asked.ask(RequestCode.POP_MESSAGE, **{**unsaid, "pollTime": 700})
    assert waits.hold is not None
    assert waits.hold.until == NOW + 700


def test_one_queue_alone_is_popped_where_it_is_named(asked: Asked) -> None:
    assert places(asked, "g", queueId=1) == [(1, 0), (1, 1), (1, 2)]
    assert places(asked, "g", queueId=1) == []
    assert places(asked, "g", queueId=-1) == [(0, n) for n in range(5)]


def test_what_is_not_acknowledged_comes_again_when_its_time_is_over(asked: Asked) -> None:
    first = pop(asked, "g", "T", queueId=1, invisibleTime=500)
    assert ack(asked, "g", first[1], "T") == ResponseCode.SUCCESS
    asked.now += 499
    assert places(asked, "g", queueId=1) == []
    asked.now += 1
    second = pop(asked, "g", "T", queueId=1, invisibleTime=0)
    assert [(each.position, each.times) for each in second] == [(0, 1), (2, 1)]
    assert places(asked, "g", queueId=1) == []  # for 1 ms at least
    asked.now += 1
    assert [each.times for each in pop(asked, "g", "T", queueId=1)] == [2, 2]


def test_what_the_filter_does_not_want_is_passed_and_the_group_goes_on_behind_it(
    asked: Asked,
) -> None:
    assert places(asked, "g", queueId=0, exp="B") == [(0, 1), (0, 3)]
    assert asked.broker.offsets.query("g", "T", 0) == 5
    said = answer(asked, "g", queueId=1, exp="C")
    assert (said.code, said.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    assert asked.broker.offsets.query("g", "T", 1) == 3
    assert said.fields["msgOffsetInfo"] == ""


@pytest.mark.parametrize(
    ("mode", "memory", "first"),
    [(0, 0, 0), (1, 0, 4), (1, 1 << 62, 0)],
    ids=["from the first", "from the last", "all in memory"],
)
def test_a_new_group_begins_as_it_asks(asked: Asked, mode: int, memory: int, first: int) -> None:
    """getInitOffset: MAX is the last message, or the first where the queue is in memory."""
    asked.broker.limits = PullLimits(memory_bytes=memory)
    found = places(asked, "g", queueId=0, initMode=mode)
    assert found == [(0, n) for n in range(first, 5)]


def test_in_order_a_queue_is_blocked_until_its_messages_are_acknowledged(asked: Asked) -> None:
    some: dict[str, Any] = {"queueId": 0, "order": "true", "maxMsgNums": 2, "attemptId": "a"}
    first = pop(asked, "g", "T", **some)
    assert [each.position for each in first] == [0, 1]
    assert asked.broker.offsets.query("g", "T", 0) == 0  # not before they are acknowledged
    assert places(asked, "g", **{**some, "attemptId": "b"}) == []
    assert places(asked, "g", **some) == [(0, 0), (0, 1)]  # the same request once more
    for each in messages(answer(asked, "g", **some)):
        assert ack(asked, "g", each, "T") == ResponseCode.SUCCESS
    said = answer(asked, "g", **{**some, "attemptId": "b"})
    assert said.fields["msgOffsetInfo"] == "0 0 2,3"
    assert said.fields["reviveQid"] == "999"
    assert said.fields["orderCountInfo"] == "0 0 0"
    asked.now += 60_000
    said = answer(asked, "g", **{**some, "attemptId": "c"})
    assert said.fields["orderCountInfo"] == "0 qo0%2 1;0 qo0%3 1;0 0 1"


def test_an_offset_that_is_reset_is_where_the_next_pop_begins(asked: Asked) -> None:
    places(asked, "g", queueId=0)
    asked.broker.offsets.reset("g", "T", 0, 3)
    assert places(asked, "g", queueId=0) == [(0, 3), (0, 4)]
    asked.broker.offsets.commit("g", "T", 0, 99)  # past the end: back to it
    assert places(asked, "g", queueId=0) == []
    assert asked.broker.offsets.query("g", "T", 0) == 5
