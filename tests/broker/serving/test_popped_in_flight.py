"""What is in flight: bounded, whatever handles are given back."""

import random

import pytest

from reput.broker.serving.handles import Infos, parse_handle, real_topic, retry_topics
from reput.broker.serving.popped import MOST_OF_GROUP, CheckPoint, InFlight
from reput.broker.wire.codes import Refused

HOUR = 3_600_000


def test_the_heap_is_no_longer_than_what_is_in_flight() -> None:
    """A million handles that are acknowledged at once, with an hour to go."""
    flight = InFlight()
    flight.add("g", "T", CheckPoint(7, [1], 1, HOUR))
    for n in range(32_000):
        point = CheckPoint(0, range(32 * n, 32 * n + 32), n, n + HOUR)
        flight.add("g", "T", point)
        for position in point.positions:
            assert flight.settle("g", "T", point.key, position)
            assert not flight.settle("g", "T", point.key, position)
    assert len(flight) == 1
    (popped,) = flight._of.values()
    assert len(popped.heap) < 100


def test_a_group_that_never_acknowledges_has_so_much_and_no_more() -> None:
    flight = InFlight()
    for n in range(MOST_OF_GROUP):
        flight.add("g", "T", CheckPoint(0, [n], n, HOUR))
    assert not flight.has_room("g", "T")
    with pytest.raises(Refused):
        flight.add("g", "T", CheckPoint(0, [1 << 40], 1, HOUR))
    with pytest.raises(Refused):
        flight.change("g", "T", _pair(flight), 0, 5, 6)
    assert flight.change("g", "T", (0, 7, 7), 7, 8, 9) is not None  # makes none more
    assert flight.has_room("h", "T")
    assert len(flight) == MOST_OF_GROUP


def _pair(flight: InFlight) -> tuple[int, int, int]:
    """One of two messages, in the place of one of one."""
    flight.settle("g", "T", (0, 0, 0), 0)
    flight.add("g", "T", CheckPoint(0, [0, 1], 0, HOUR))
    return 0, 0, 0


def test_as_a_list_of_all_messages_would_say() -> None:
    """Random pops, acknowledgements and changes, against a plain dictionary."""
    chosen = random.Random(7)
    flight, truth, now, end = InFlight(), dict[int, tuple[int, tuple[int, int, int]]](), 0, 0
    for _ in range(4000):
        now += chosen.randrange(3)
        what = chosen.randrange(4)
        at = flight.pop_time("g", ["T"], now)
        if what == 0:
            many, end = chosen.randrange(1, 6), end + 6
            positions = sorted(chosen.sample(range(end, end + 6), many))
            point = CheckPoint(0, positions, at, now + chosen.randrange(1, 60))
            flight.add("g", "T", point)
            truth |= dict.fromkeys(positions, (point.visible, point.key))
        elif what == 1 and truth:
            position = chosen.choice(list(truth))
            assert flight.settle("g", "T", truth.pop(position)[1], position)
        elif what == 2 and truth:
            position = chosen.choice(list(truth))
            visible = now + chosen.randrange(1, 60)
            popped = flight.change("g", "T", truth[position][1], position, now, visible)
            assert popped is not None
            truth[position] = visible, (0, position, popped)
        elif flight.queues_due("g", "T", now):
            again = flight.again("g", "T", 0, now, chosen.randrange(1, 9))
            given = [] if again is None else again.positions
            assert all(truth.pop(position)[0] <= now for position in given)
        due = {position for position, (visible, _) in truth.items() if visible <= now}
        waiting = {p for _, _, point in flight.all() for p in point.waiting()}
        assert waiting == set(truth)
        next_due = flight.next_due("g", "T")
        assert (next_due is not None and next_due <= now) == bool(due)


def test_handles_and_topics_are_written_as_a_broker_writes_them() -> None:
    assert retry_topics("T", "g") == ("%RETRY%g_T", "%RETRY%g+T")
    assert [real_topic("T", "g", kind) for kind in "0123"] == [
        "T", "%RETRY%g_T", "%RETRY%g+T", None,
    ]  # fmt: skip
    infos = Infos()
    infos.add("T", 3, 7, [7, 9])
    infos.add("%RETRY%g_T", 0, 1, [1])
    infos.add("%RETRY%g+T", 0, 2, [2])
    assert ";".join(infos.starts) == "0 3 7;1 0 1;2 0 2"
    assert ";".join(infos.positions) == "0 3 7,9;1 0 1;2 0 2"
    assert parse_handle("1 2 3 999 0 b 4 5").in_order
    with pytest.raises(Refused):
        parse_handle("1 2 3 99999999999999999999")
