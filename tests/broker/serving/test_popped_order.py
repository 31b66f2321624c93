"""Queues popped in order: what blocks one, and where a group goes on (ConsumerOrderInfoManager)."""

import pytest

from reput.broker.serving.popped import ILLEGAL, UNCHANGED, OrderInfo, Orders

QUEUE = ("group", "topic", 3)
POPPED, INVISIBLE, POSITIONS = 1000, 60, [10, 11, 14]
DAY = 24 * 3600 * 1000


@pytest.fixture
def orders() -> Orders:
    made = Orders()
    made.popped("first", *QUEUE, POPPED, INVISIBLE, POSITIONS)
    return made


@pytest.mark.parametrize(
    ("attempt", "now", "until"),
    [
        (None, 1000, 1060),
        ("second", 1059, 1060),
        ("second", 1060, None),
        ("first", 1000, None),  # the client repeats its request
    ],
)
def test_a_queue_is_blocked_until_its_messages_are_visible_again(
    orders: Orders, attempt: str | None, now: int, until: int | None
) -> None:
    assert orders.blocked_until(attempt, *QUEUE, now) == until
    assert orders.blocked_until(attempt, "group", "topic", 4, now) is None


def test_requests_without_an_attempt_are_not_the_same_request() -> None:
    orders = Orders()
    orders.popped(None, *QUEUE, POPPED, INVISIBLE, POSITIONS)
    assert orders.blocked_until(None, *QUEUE, POPPED) == 1060
    assert orders.popped(None, *QUEUE, POPPED, INVISIBLE, POSITIONS).counts == {10: 1, 11: 1, 14: 1}


def test_the_offset_goes_up_to_the_first_message_that_is_not_acknowledged(orders: Orders) -> None:
    commits = [(11, 10), (11, 10), (10, 14), (14, 15)]
    for position, offset in commits:
        assert orders.blocked_until(None, *QUEUE, POPPED) == 1060
        assert orders.commit(*QUEUE, position, POPPED) == offset
    assert orders.blocked_until(None, *QUEUE, POPPED) is None


@pytest.mark.parametrize(
    ("position", "pop_time", "offset"),
    [(12, POPPED, ILLEGAL), (9, POPPED, ILLEGAL), (10, POPPED + 1, UNCHANGED), (12, 0, UNCHANGED)],
)
def test_what_was_not_popped_then_commits_nothing(
    orders: Orders, position: int, pop_time: int, offset: int
) -> None:
    changes = orders.changes
    assert orders.commit(*QUEUE, position, pop_time) == offset
    assert (orders.changes, orders.commit(*QUEUE, 10, POPPED)) == (changes, 11)


def test_of_a_queue_that_is_unknown_every_acknowledgement_counts() -> None:
    assert Orders().commit(*QUEUE, 41, POPPED) == 42


def test_only_messages_that_are_left_block_each_by_its_own_time(orders: Orders) -> None:
    orders.show_at(*QUEUE, 11, POPPED, 5000)
    orders.show_at(*QUEUE, 14, POPPED + 1, 9000)  # popped at another time
    orders.show_at(*QUEUE, 12, POPPED, 9000)
    assert orders.blocked_until(None, *QUEUE, POPPED) == 5000
    orders.commit(*QUEUE, 11, POPPED)
    assert orders.blocked_until(None, *QUEUE, POPPED) == 1060


def test_a_message_is_counted_each_time_it_is_given_again(orders: Orders) -> None:
    again = orders.popped("second", *QUEUE, 2000, INVISIBLE, [11, 14, 15])
    assert again.counts == {11: 1, 14: 1}
    assert orders.popped("second", *QUEUE, 2000, INVISIBLE, [11, 14, 15]).counts == again.counts
    assert orders.popped("third", *QUEUE, 3000, INVISIBLE, [14, 15, 16]).counts == {14: 2, 15: 1}


def test_a_queue_is_forgotten_after_more_than_a_day(orders: Orders) -> None:
    orders.clean(POPPED + DAY)
    assert dict(orders.all()).keys() == {QUEUE}
    orders.clean(POPPED + DAY + 1)
    assert list(orders.all()) == []


def test_of_messages_whose_times_differ_the_last_one_blocks() -> None:
    info = OrderInfo("a", 100, 10, [1, 2, 3], 0b101, {1: 50, 2: 900})
    assert (info.blocks_until(), info.next()) == (110, 1)
    assert OrderInfo("a", 100, 10, [1, 2, 3], 0).blocks_until() == 0
