"""POP: what is given, what comes again, what acknowledges it (PopMessageProcessor and others)."""

from typing import Any

import pytest

from reput.broker.serving import popped
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.jobs.sockets.asked import TOPIC, Asked, opened
from tests.jobs.sockets.popping import Popped, ack, batch, fields, messages, pop

MANY = 1420  # messages of the topic, 348 of them in its first queue


@pytest.fixture
def asked() -> Asked:
    return Asked(opened())


def drain(asked: Asked, group: str, **more: Any) -> list[Popped]:
    found: list[Popped] = []
    while some := pop(asked, group, **more):
        found += some
    return found


def places(some: list[Popped]) -> list[tuple[int, int]]:
    return sorted((each.queue, each.position) for each in some)


def everything(asked: Asked) -> list[tuple[int, int]]:
    queues = ((n, asked.broker.store.queue(TOPIC, n)) for n in range(4))
    return [(n, position) for n, queue in queues if queue for position in range(queue.maximum)]


def test_each_message_is_given_once_to_a_group_and_again_when_its_time_is_up(asked: Asked) -> None:
    first = drain(asked, "g")
    assert places(first) == everything(asked)
    assert {each.times for each in first} == {0}
    assert places(drain(asked, "other")) == everything(asked)
    for each in first[::2]:
        assert ack(asked, "g", each) == ResponseCode.SUCCESS
    asked.now += 59_999
    assert drain(asked, "g") == []
    asked.now += 1
    second = drain(asked, "g")
    assert places(second) == places(first[1::2])
    assert {each.times for each in second} == {1}
    for each in second:
        assert ack(asked, "g", each) == ResponseCode.SUCCESS
    asked.now += 10**9
    assert drain(asked, "g") == []
    assert [group for group, _, _ in asked.broker.in_flight.all() if group == "g"] == []


def test_a_handle_acknowledges_only_what_it_was_given_for(asked: Asked) -> None:
    (each,) = pop(asked, "g", maxMsgNums=1)
    other = each._replace(queue=(each.queue + 1) % 4)
    assert ack(asked, "g", other) == ResponseCode.SUCCESS  # of another queue
    assert ack(asked, "g", each._replace(position=each.position + 1)) == ResponseCode.SUCCESS
    assert ack(asked, "other", each) == ResponseCode.SUCCESS
    asked.now += 60_000
    (again,) = pop(asked, "g", maxMsgNums=1, queueId=each.queue, exp="nothing")
    assert again[:2] == each[:2]
    assert ack(asked, "g", each) == ResponseCode.SUCCESS  # by a handle whose time is over
    asked.now += 60_000
    (again,) = pop(asked, "g", maxMsgNums=1, queueId=each.queue, exp="nothing")
    assert (again[:2], again.times) == (each[:2], 2)
    assert [ack(asked, "g", again) for _ in range(2)] == [0, 0]  # twice
    asked.now += 60_000
    assert pop(asked, "g", maxMsgNums=1, queueId=each.queue, exp="nothing") == []


def test_a_batch_acknowledges_what_several_answers_had(asked: Asked) -> None:
    some = pop(asked, "g", queueId=0) + pop(asked, "g", queueId=1, maxMsgNums=3)
    body = batch("g", some)
    body["acks"] += [{**body["acks"][0], "t": "NoSuchTopic"}, {**body["acks"][0], "q": 77}]
    assert asked.ask(RequestCode.BATCH_ACK_MESSAGE, body=body).code == ResponseCode.SUCCESS
    assert len(asked.broker.in_flight) == 0


def test_a_message_stays_invisible_for_longer_or_shorter(asked: Asked) -> None:
    first, second, *_ = pop(asked, "g", queueId=0)
    change = RequestCode.CHANGE_MESSAGE_INVISIBLETIME

    def changed(each: Popped, invisible: int, **more: Any) -> Any:
        wanted = {"extraInfo": each.handle, "offset": each.position, **more}
        return asked.ask(
            change, consumerGroup="g", topic=TOPIC, queueId=0, invisibleTime=invisible, **wanted
        )

    answer = changed(first, 5_000)
    assert int(answer.fields["popTime"]) - asked.now in (0, 1)
    changed(second, 100_000)
    for each in pop(asked, "g", queueId=0, exp="nothing"):
        raise AssertionError(each)
    asked.now += 5_000
    assert [each[:2] for each in pop(asked, "g", queueId=0, exp="nothing")] == [first[:2]]
    asked.now += 55_000
    third = pop(asked, "g", queueId=0, exp="nothing")
    assert [each.position for each in third] == list(range(2, 32))
    assert changed(first, 5_000, offset=1 << 40).code == ResponseCode.NO_MESSAGE
    assert changed(first, 5_000).code == ResponseCode.SUCCESS  # in flight no more by this handle
    for huge, code in (((1 << 63) - 1, 1), (3 * 86_400_000 + 1001, 1), (3 * 86_400_000 + 1000, 0)):
        assert changed(third[0], huge).code == code
    asked.now += 10**12
    again = [each.position for each in drain(asked, "g", queueId=0, exp="nothing")]
    assert sorted(again) == list(range(32))


def test_tags_and_sql_choose(asked: Asked) -> None:
    tags = ("TagA", "TagB", "TagA || TagB")
    both = [drain(asked, f"g{n}", exp=tag) for n, tag in enumerate(tags)]
    assert len(both[0]) + len(both[1]) == len(both[2]) > max(len(both[0]), len(both[1])) > 0
    some = drain(asked, "sql", exp="price > 500", expType="SQL92")
    assert 0 < len(some) < MANY
    asked.now += 60_000
    assert places(drain(asked, "sql", exp="price > 500", expType="SQL92")) == places(some)
    wrong = asked.ask(RequestCode.POP_MESSAGE, **fields("g", exp="price >", expType="SQL92"))
    assert wrong.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_in_order_a_queue_goes_on_when_its_messages_are_acknowledged(asked: Asked) -> None:
    def ordered(**more: Any) -> list[Popped]:
        return pop(asked, "g", queueId=0, maxMsgNums=4, order="true", **more)

    first = ordered(attemptId="a1")
    assert [each.position for each in first] == [0, 1, 2, 3]
    assert ordered(attemptId="a2") == []  # blocked
    assert [each.position for each in ordered(attemptId="a1")] == [0, 1, 2, 3]  # asked again
    for each in first[:2]:
        ack(asked, "g", each)
    assert asked.broker.offsets.query("g", TOPIC, 0) == 2
    assert ordered(attemptId="a2") == []
    asked.now += 60_000
    answer = asked.ask(
        RequestCode.POP_MESSAGE, **fields("g", queueId=0, maxMsgNums=4, order="true")
    )
    assert [each.position for each in messages(answer)] == [2, 3, 4, 5]
    assert answer.fields["orderCountInfo"] == "0 qo0%2 1;0 qo0%3 1;0 0 0"
    assert answer.fields["reviveQid"] == "999"
    again = messages(answer)
    wrong = again[0]._replace(position=17)
    assert ack(asked, "g", wrong) == ResponseCode.MESSAGE_ILLEGAL
    assert ack(asked, "g", first[2]) == ResponseCode.SUCCESS  # an old handle changes nothing
    assert asked.broker.offsets.query("g", TOPIC, 0) == 2
    asked.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, consumerGroup="g", topic=TOPIC, queueId=0,
              invisibleTime=1000, extraInfo=again[3].handle, offset=5)  # fmt: skip
    for each in again[:3]:
        ack(asked, "g", each)
    assert ordered() == []
    asked.now += 1000
    assert [each.position for each in ordered()] == [5, 6, 7, 8]


def test_what_waits_is_limited(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that never acknowledges is given nothing new; what it has comes again."""
    monkeypatch.setattr(popped, "MOST_OF_GROUP", 5)
    given = drain(asked, "g", queueId=0, maxMsgNums=10)
    assert len(given) == 50
    assert places(drain(asked, "other", queueId=0, maxMsgNums=32)) == everything(asked)[:160]
    asked.now += 60_000
    again = drain(asked, "g", queueId=0, maxMsgNums=10)
    assert places(again) == places(given)
    assert {each.times for each in again} == {1}
    asked.now += 60_000
    # a part of what was popped together is kept beside the rest, up to twice as many
    parts = [pop(asked, "g", queueId=0, maxMsgNums=3) for _ in range(50)]
    assert len(parts[0]) == 3
    assert len(asked.broker.in_flight._of["g", TOPIC].points) <= 10
    asked.now += 60_000
    again = drain(asked, "g", queueId=0, maxMsgNums=10)
    assert places(again) == places(given)
    for each in again:
        ack(asked, "g", each)
    assert drain(asked, "g", queueId=0, maxMsgNums=10, invisibleTime=1 << 62)
    monkeypatch.setattr(popped, "MOST_QUEUES", 0)
    assert pop(asked, "new", queueId=0, order="true") == []


def test_a_million_handles_leave_nothing_behind(asked: Asked) -> None:
    """Acknowledged at once, with an hour to go: what is kept is not kept for that hour."""
    for _ in range(20):
        for each in pop(asked, "g", queueId=0, invisibleTime=3_600_000):
            ack(asked, "g", each)
        asked.broker.offsets.commit("g", TOPIC, 0, 0)
        asked.now += 1
    assert len(asked.broker.in_flight) == 0
    assert asked.broker.in_flight._of == {}
