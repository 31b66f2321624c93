"""What is in flight: bounded, whatever handles are given back."""

import json
import random
from typing import Any

import pytest

from reput.broker.serving import popped
from reput.broker.wire.codes import Refused

HOUR = 3_600_000


def test_the_heap_is_no_longer_than_what_is_in_flight() -> None:
    """A million handles that are acknowledged at once, with an hour to go."""
    flight = popped.InFlight()
    flight.add("g", "T", popped.CheckPoint(7, [1], 1, HOUR))
    for n in range(32_000):
        point = popped.CheckPoint(0, range(32 * n, 32 * n + 32), n, n + HOUR)
        flight.add("g", "T", point)
        for position in point.positions:
            assert flight.settle("g", "T", point.key, position)
            assert not flight.settle("g", "T", point.key, position)
    assert len(flight) == 1
    (kept,) = flight._of.values()
    assert len(kept.heap) < 100


def test_a_group_that_never_acknowledges_has_so_much_and_no_more() -> None:
    flight = popped.InFlight()
    for n in range(popped.MOST_OF_GROUP):
        flight.add("g", "T", popped.CheckPoint(0, [n], n, HOUR))
    assert not flight.has_room("g", "T")
    with pytest.raises(Refused):
        flight.add("g", "T", popped.CheckPoint(0, [1 << 40], 1, HOUR))
    with pytest.raises(Refused):
        flight.change("g", "T", _pair(flight), 0, 5, 6)
    assert flight.change("g", "T", (0, 7, 7), 7, 8, 9) is not None  # makes none more
    assert flight.has_room("h", "T")
    assert len(flight) == popped.MOST_OF_GROUP


def _pair(flight: popped.InFlight) -> tuple[int, int, int]:
    """One of two messages, in the place of one of one."""
    flight.settle("g", "T", (0, 0, 0), 0)
    flight.add("g", "T", popped.CheckPoint(0, [0, 1], 0, HOUR))
    return 0, 0, 0


def test_as_a_list_of_all_messages_would_say() -> None:
    """Random pops, acknowledgements and changes, against a plain dictionary."""
    chosen = random.Random(7)
    flight, truth, now, end = popped.InFlight(), dict[int, tuple[int, tuple[int, int, int]]](), 0, 0
    for _ in range(4000):
        now += chosen.randrange(3)
        what = chosen.randrange(4)
        at = flight.pop_time("g", ["T"], now)
        if what == 0:
            many, end = chosen.randrange(1, 6), end + 6
            positions = sorted(chosen.sample(range(end, end + 6), many))
            point = popped.CheckPoint(0, positions, at, now + chosen.randrange(1, 60))
            flight.add("g", "T", point)
            truth |= dict.fromkeys(positions, (point.visible, point.key))
        elif what == 1 and truth:
            position = chosen.choice(list(truth))
            assert flight.settle("g", "T", truth.pop(position)[1], position)
        elif what == 2 and truth:
            position = chosen.choice(list(truth))
            visible = now + chosen.randrange(1, 60)
            kept = flight.change("g", "T", truth[position][1], position, now, visible)
            assert kept is not None
            truth[position] = visible, (0, position, kept)
        elif flight.queues_due("g", "T", now):
            again = flight.again("g", "T", 0, now, chosen.randrange(1, 9))
            given = [] if again is None else again.positions
            assert all(truth.pop(position)[0] <= now for position in given)
        due = {position for position, (visible, _) in truth.items() if visible <= now}
        waiting = {p for _, _, point in flight.all() for p in point.waiting()}
        assert waiting == set(truth)
        next_due = flight.next_due("g", "T")
        assert (next_due is not None and next_due <= now) == bool(due)


# --- Popped messages outlive the server as JSON, and wrong rows of it are left out.
POINT = ["g", "t", 2, [10, 11], 0b11, 1000, 1060, 0]
INFINITE = json.loads("1e999")
ORDER = ["g", "t", 2, "first", 1000, 60, [10, 11], 0b11, [[11, 5000]], [[10, 1]]]


def restored(table: dict[str, Any]) -> tuple[popped.InFlight, popped.Orders, int]:
    in_flight, orders = popped.InFlight(), popped.Orders()
    return in_flight, orders, popped.restore(table, in_flight, orders)


def test_what_was_popped_is_the_same_after_a_restart() -> None:
    in_flight, orders = popped.InFlight(), popped.Orders()
    point = popped.CheckPoint(2, [10, 11, 14], 1000, 1060, 1)
    point.left &= 0b101
    in_flight.add("g", "t", point)
    orders.popped("first", "g", "t", 2, 1000, 60, [10, 11])
    orders.commit("g", "t", 2, 10, 1000)
    orders.show_at("g", "t", 2, 11, 1000, 5000)
    rows = json.loads(json.dumps(popped.popped_rows(in_flight, orders)))
    again, ordered, wrong = restored(rows)
    assert wrong == 0
    (found,) = again.all()
    assert found[:2] == ("g", "t")
    assert (list(found[2].positions), found[2].left, found[2].times) == ([10, 11, 14], 0b101, 1)
    assert ordered.blocked_until(None, "g", "t", 2, 1000) == 5000
    assert ordered.blocked_until("first", "g", "t", 2, 1000) is None
    assert ordered.commit("g", "t", 2, 11, 1000) == 12


def test_what_is_wrong_in_a_file_is_counted_and_the_rest_restored() -> None:
    for table in [{}, {popped.IN_FLIGHT: None, popped.IN_ORDER: 7}, {"other": [1]}]:
        in_flight, orders, wrong = restored(table)
        assert (list(in_flight.all()), list(orders.all()), wrong) == ([], [], 0)
    for row in [
        7, [], POINT[:-1], [*POINT, 0], changed(POINT, 2, "x"), changed(POINT, 3, []),
        changed(POINT, 3, [11, 10]), changed(POINT, 3, [10, 10]), changed(POINT, 3, 10),
        changed(POINT, 3, list(range(1025))), changed(POINT, 4, None),
        *(changed(POINT, at, INFINITE) for at in (2, 4, 5, 6, 7)),
        changed(POINT, 3, [INFINITE])]:  # fmt: skip
        in_flight, _, wrong = restored({popped.IN_FLIGHT: [row, POINT]})
        assert (len(list(in_flight.all())), wrong) == (1, 1)
    for row in [
        ORDER[:-1], changed(ORDER, 6, []), changed(ORDER, 8, [[1]]), changed(ORDER, 9, None),
        *(changed(ORDER, at, INFINITE) for at in (2, 4, 5, 7)),
        changed(ORDER, 9, [[1, INFINITE]])]:  # fmt: skip
        _, orders, wrong = restored({popped.IN_ORDER: [row, changed(ORDER, 3, None)]})
        (found,) = orders.all()
        assert (found[0], found[1].attempt, wrong) == (("g", "t", 2), None, 1)
    for left in (0, 0b100):  # a bit of no message
        in_flight, _, wrong = restored({popped.IN_FLIGHT: [changed(POINT, 4, left)]})
        assert (list(in_flight.all()), wrong) == ([], 0)


def changed(row: list[Any], at: int, value: Any) -> list[Any]:
    return [*row[:at], value, *row[at + 1 :]]


# --- Queues popped in order: what blocks one, and where a group goes on
# (ConsumerOrderInfoManager).
QUEUE = ("group", "topic", 3)
POPPED, INVISIBLE, POSITIONS = 1000, 60, [10, 11, 14]
DAY = 24 * 3600 * 1000


@pytest.fixture
def orders() -> popped.Orders:
    made = popped.Orders()
    made.popped("first", *QUEUE, POPPED, INVISIBLE, POSITIONS)
    return made


def test_a_queue_in_order_is_another_requests_and_blocked_by_its_last_message() -> None:
    orders = popped.Orders()
    orders.popped(None, *QUEUE, POPPED, INVISIBLE, POSITIONS)
    assert orders.blocked_until(None, *QUEUE, POPPED) == 1060
    assert orders.popped(None, *QUEUE, POPPED, INVISIBLE, POSITIONS).counts == {10: 1, 11: 1, 14: 1}
    assert popped.Orders().commit(*QUEUE, 41, POPPED) == 42
    info = popped.OrderInfo("a", 100, 10, [1, 2, 3], 0b101, {1: 50, 2: 900})
    assert (info.blocks_until(), info.next()) == (110, 1)
    assert popped.OrderInfo("a", 100, 10, [1, 2, 3], 0).blocks_until() == 0


def test_the_offset_goes_up_to_the_first_message_that_is_not_acknowledged(orders) -> None:
    for position, pop_time, offset in [
        (12, POPPED, popped.ILLEGAL), (9, POPPED, popped.ILLEGAL),
        (10, POPPED + 1, popped.UNCHANGED), (12, 0, popped.UNCHANGED)]:  # fmt: skip
        changes = orders.changes
        assert orders.commit(*QUEUE, position, pop_time) == offset
        assert orders.changes == changes
    commits = [(11, 10), (11, 10), (10, 14), (14, 15)]
    for position, offset in commits:
        assert orders.blocked_until(None, *QUEUE, POPPED) == 1060
        assert orders.commit(*QUEUE, position, POPPED) == offset
    assert orders.blocked_until(None, *QUEUE, POPPED) is None


def test_a_repeated_request_counts_once_and_another_pops_time_stays(orders: popped.Orders) -> None:
    again = orders.popped("second", *QUEUE, 2000, INVISIBLE, [11, 14, 15])
    assert again.counts == {11: 1, 14: 1}
    assert orders.popped("second", *QUEUE, 2000, INVISIBLE, [11, 14, 15]).counts == again.counts
    orders.show_at(*QUEUE, 14, 2001, 9000)  # popped at another time
    assert orders.blocked_until(None, *QUEUE, 2000) == 2060


def test_a_queue_is_forgotten_after_more_than_a_day(orders) -> None:
    orders.clean(POPPED + DAY)
    assert dict(orders.all()).keys() == {QUEUE}
    orders.clean(POPPED + DAY + 1)
    assert list(orders.all()) == []
