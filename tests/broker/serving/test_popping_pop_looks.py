"""Looking at what a pop would give: whether there is anything, how many wait, the messages."""

from typing import Any

import pytest

from reput.broker.serving.broker import Answer
from reput.broker.serving.groups import GroupOffsets
from reput.broker.serving.popped import CheckPoint, InFlight, Orders
from reput.broker.wire.codes import RequestCode, ResponseCode
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked
from tests.jobs.sockets.comparing import whole
from tests.jobs.sockets.popping import fields, pop

NOW = 10_000_000
RETRY = "%RETRY%g_T"  # KeyBuilder.buildPopRetryTopicV1
SIZE = FIXED + 1 + 9


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = [*(message(n, "T", n % 2) for n in range(6)), message(6, RETRY)]
    return served(tmp_path_factory.mktemp("store"), made)


@pytest.fixture
def asked(store: Asked) -> Asked:
    """The group g has read all; h has read nothing."""
    broker = store.broker
    broker.in_flight, broker.orders = InFlight(), Orders()
    broker.offsets = GroupOffsets({("g", "T"): {0: 3, 1: 3}, ("g", RETRY): {0: 1}})
    store.now = NOW
    return store


def notified(asked: Asked, group: str = "g", **more: Any) -> Answer:
    return asked.ask(RequestCode.NOTIFICATION, **fields(group, "T", **more))


def peeked(asked: Asked, group: str, most: int, queue_id: int = -1) -> tuple[int, int, int, str]:
    """(code, bytes, rest, remark) of a peek."""
    said = asked.ask(
        RequestCode.PEEK_MESSAGE, consumerGroup=group, topic="T", queueId=queue_id, maxMsgNums=most
    )
    return said.code, len(whole(said).body), int(said.fields["restNum"]), str(said.remark)


def has(said: Answer) -> tuple[str, bool]:
    return said.fields["hasMsg"], said.hold is not None


def test_there_is_a_message_or_the_request_waits_or_it_may_not(asked: Asked) -> None:
    assert has(notified(asked, "h", pollTime=1000)) == ("true", False)
    waits = notified(asked, pollTime=1000)
    assert has(waits) == ("false", True)
    assert has(notified(asked, pollTime=0)) == ("false", False)
    assert waits.fields["pollingFull"] == "false"
    asked.broker.offsets.commit("g", RETRY, 0, 0)
    assert has(notified(asked, queueId=1)) == ("true", False)


def test_a_notification_that_does_not_say_when_it_was_sent_waits_from_now(asked: Asked) -> None:
    """NotificationProcessor: addExtFieldIfNotExist."""
    unsaid = fields("g", "T", pollTime=700)
    del unsaid["bornTime"]
    waits = asked.ask(RequestCode.NOTIFICATION, **unsaid)
    assert waits.hold is not None
    assert waits.hold.until == NOW + 700


def test_what_is_in_flight_is_there_when_its_time_is_over(asked: Asked) -> None:
    asked.broker.in_flight.add("g", "T", CheckPoint(1, [0], 1, NOW + 1))
    assert has(notified(asked)) == ("false", False)
    assert has(notified(asked, order="true")) == ("false", False)
    asked.now += 1
    assert has(notified(asked)) == ("true", False)
    assert has(notified(asked, order="true")) == ("false", False)  # no retries in order


def test_too_many_that_wait_are_told(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked.broker, "waiting", lambda *key: 1025)
    said = notified(asked, pollTime=1000)
    assert said.fields == {"hasMsg": "false", "pollingFull": "true"}
    said = asked.ask(RequestCode.POLLING_INFO, consumerGroup="g", topic="T", queueId=0)
    assert said.fields == {"pollingNum": "1025"}


def test_in_order_a_blocked_queue_has_nothing_until_it_is_free(asked: Asked) -> None:
    some: dict[str, Any] = {"order": "true", "queueId": 0, "invisibleTime": 500}
    assert len(pop(asked, "h", "T", **some, attemptId="a", maxMsgNums=1)) == 1
    blocked = notified(asked, "h", **some, attemptId="b", pollTime=1000)
    assert has(blocked) == ("false", True)
    assert blocked.hold is not None
    assert blocked.hold.again == NOW + 500
    assert has(notified(asked, "h", **some, attemptId="a")) == ("true", False)
    assert has(notified(asked, "h", **{**some, "queueId": -1}, attemptId="b")) == ("true", False)
    asked.now += 500
    assert has(notified(asked, "h", **some, attemptId="b")) == ("true", False)


def test_a_peek_gives_messages_and_counts_all_that_are_there(asked: Asked) -> None:
    assert peeked(asked, "h", 32) == (ResponseCode.SUCCESS, 6 * SIZE, 6, "FOUND")
    assert peeked(asked, "h", 2) == (ResponseCode.SUCCESS, 2 * SIZE, 6, "FOUND")
    assert peeked(asked, "h", 1 << 30, 1) == (ResponseCode.SUCCESS, 3 * SIZE, 3, "FOUND")
    assert peeked(asked, "h", 0)[:3] == (ResponseCode.PULL_NOT_FOUND, 0, 6)
    assert peeked(asked, "g", 32) == (ResponseCode.PULL_NOT_FOUND, 0, 0, "NO_MESSAGE_IN_QUEUE")
    asked.broker.offsets.commit("g", "T", 0, 2)
    asked.broker.offsets.commit("g", RETRY, 0, 0)
    retry = FIXED + len(RETRY) + 9
    assert peeked(asked, "g", 32)[1:3] == (SIZE + retry, 2)


def test_a_peek_leaves_everything_as_it_was(asked: Asked) -> None:
    peeked(asked, "h", 32)
    assert asked.broker.offsets.query("h", "T", 0) == -1
    assert len(asked.broker.in_flight) == 0


def test_an_offset_out_of_the_queue_is_put_right_for_the_look(asked: Asked) -> None:
    asked.broker.offsets.commit("g", "T", 0, 99)
    assert peeked(asked, "g", 5, 0)[:3] == (ResponseCode.PULL_NOT_FOUND, 0, 0)
    assert asked.broker.offsets.query("g", "T", 0) == 99
