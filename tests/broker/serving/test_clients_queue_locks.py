"""One client of a group has a queue to itself, until it gives it back or is silent for a minute."""

import pytest

from reput.broker.serving import clients
from reput.broker.serving.clients import LockedQueue, QueueLocks

A, B, C = (LockedQueue("b", number, "T") for number in range(3))
MINUTE = 60_000  # REBALANCE_LOCK_MAX_LIVE_TIME


def test_a_locked_queue_is_refused_to_others_of_the_group_only() -> None:
    locks = QueueLocks()
    assert locks.lock("g", [A, B], "one", 0) == [A, B]
    assert locks.lock("g", [B, C], "two", 0) == [C]
    assert locks.lock("g", [A, B, C], "one", 0) == [A, B]
    assert locks.lock("h", [A, B, C], "two", 0) == [A, B, C]
    others = [A._replace(topic="U"), A._replace(brokerName="c")]
    assert locks.lock("g", others, "two", 0) == others
    assert locks.lock("g", [], "two", 0) == []


@pytest.mark.parametrize(("silent", "free"), [(MINUTE, False), (MINUTE + 1, True)])
def test_a_lock_is_free_after_more_than_a_minute(silent: int, free: bool) -> None:
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    locks.lock("g", [A], "one", 5)  # asked for again: the minute begins anew
    assert locks.lock("g", [A], "two", 5 + silent) == ([A] if free else [])


def test_only_who_has_a_lock_gives_it_back() -> None:
    locks = QueueLocks()
    locks.lock("g", [A, B], "one", 0)
    locks.unlock("g", [A, B, C], "two")
    locks.unlock("h", [A, B], "one")
    assert locks.lock("g", [A, B], "two", 1) == []
    locks.unlock("g", [A, C], "one")
    assert locks.lock("g", [A, B], "two", 1) == [A]


def test_of_too_many_locks_those_expired_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_LOCKS", 2)
    locks = QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.lock("g", [B, C], "one", 10) == [B]
    assert locks.lock("g", [A, B, C], "one", MINUTE) == [A, B]  # known ones take no room
    assert locks.lock("g", [C], "one", 2 * MINUTE) == []
    assert locks.lock("g", [C], "two", 2 * MINUTE + 1) == [C]
    assert locks.lock("g", [A, B], "two", 2 * MINUTE + 1) == [A]
