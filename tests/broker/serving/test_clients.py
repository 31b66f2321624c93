"""Names of groups that clients make up: those that a broker would make a group of."""

import pytest

from reput.broker.serving import clients
from reput.broker.wire.codes import Refused


# --- Groups as heartbeats make them known: members, subscriptions, and who is told of a change.
class Known(clients.Consumers):
    """Consumers, with the (connection, group) pairs that were told of a change."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        super().__init__(lambda connection, group: self.told.append((connection, group)))

    def beat(self, connection: int, name: str, *wanted: clients.Subscription, keep: bool = False,
             heard: int = 0, model: str = "CLUSTERING") -> list[int]:  # fmt: skip
        """One heartbeat; the connections that are told of a change by it."""
        self.told.clear()
        group = clients.Group(
            name, model=model, subscriptions={each.topic: each for each in wanted})  # fmt: skip
        self.join(group, connection, clients.Client(f"c{connection}", 0, 0, heard), keep)
        return [connection for connection, _ in self.told]


def test_who_produces_or_reads_elsewhere_is_known_until_it_goes() -> None:
    """Members that come and go: tests/jobs/sockets/test_groups.py."""
    known = Known()
    known.beat(1, "g", clients.Subscription("T", "*"))
    known.told.clear()
    known.leave("g", 9)
    known.leave("h", 1)
    assert known.told == []
    for client in (1, 2):
        known.produce("p", client, clients.Client(f"c{client}", 0, 0, client))
    assert known.elsewhere("g", "U")
    assert not known.elsewhere("g", "T")
    known.disconnect(1, 0)
    assert known.groups == {}
    assert not known.elsewhere("g", "U")
    assert list(known.producers["p"]) == [2]
    known.expire(clients.EXPIRY + 2)
    assert list(known.producers["p"]) == [2]
    known.expire(clients.EXPIRY + 3)
    assert known.producers == {}  # its connection is taken as closed
    # ConsumerGroupInfo.updateSubscription: `getSubVersion() > old.getSubVersion()`.
    for version, kept in [(4, "old"), (5, "old"), (6, "new")]:
        known = Known()
        known.beat(1, "g", clients.Subscription("T", "old", version=5))
        known.beat(1, "g", clients.Subscription("T", "new", version=version))
        assert known.groups["g"].subscriptions["T"].text == kept


def test_members_of_all_groups_are_bounded_and_leave_room_as_they_go(monkeypatch) -> None:
    monkeypatch.setattr(clients, "MOST_MEMBERS", 2)
    known = Known()
    known.beat(1, "g")
    known.beat(1, "g")
    known.produce("p", 1, clients.Client("c1", 0, 0, 0))
    with pytest.raises(Refused):
        known.beat(2, "new")
    assert "new" not in known.groups
    known.stop_producing("p", 1)
    known.stop_producing("p", 1)  # a second time gives no room
    known.beat(2, "g")
    with pytest.raises(Refused):
        known.produce("p", 3, clients.Client("c3", 0, 0, 0))


def test_the_weight_of_subscriptions_is_bounded_and_replaced(monkeypatch) -> None:
    long = clients.Subscription("T", "x" * 5000, version=1)
    monkeypatch.setattr(clients, "MOST_SUBSCRIBED", 2 * long.weight - 1)
    known = Known()
    known.beat(1, "g", long)
    known.beat(2, "g", long._replace(version=2))  # in the place of the first
    with pytest.raises(Refused):
        known.beat(3, "h", long)
    known.beat(3, "h", long, keep=True)  # takes none of them
    known.leave("g", 1)
    known.leave("g", 2)
    known.beat(3, "h", long)


# --- One client of a group has a queue to itself, until it gives it back or is silent for a
# minute.
A, B, C = (clients.LockedQueue("b", number, "T") for number in range(3))
MINUTE = 60_000  # REBALANCE_LOCK_MAX_LIVE_TIME


def test_a_locked_queue_is_refused_to_others_of_the_group_for_a_minute() -> None:
    locks = clients.QueueLocks()
    assert locks.lock("g", [A, B], "one", 0) == [A, B]
    assert locks.lock("g", [B, C], "two", 0) == [C]
    assert locks.lock("g", [A, B, C], "one", 0) == [A, B]
    assert locks.lock("h", [A, B, C], "two", 0) == [A, B, C]
    others = [A._replace(topic="U"), A._replace(brokerName="c")]
    assert locks.lock("g", others, "two", 0) == others
    assert locks.lock("g", [], "two", 0) == []
    for silent, free in [(MINUTE, False), (MINUTE + 1, True)]:
        locks = clients.QueueLocks()
        locks.lock("g", [A], "one", 0)
        locks.lock("g", [A], "one", 5)  # asked for again: the minute begins anew
        assert locks.lock("g", [A], "two", 5 + silent) == ([A] if free else [])
    locks = clients.QueueLocks()
    locks.lock("g", [A, B], "one", 0)
    locks.unlock("g", [A, B, C], "two")
    locks.unlock("h", [A, B], "one")
    assert locks.lock("g", [A, B], "two", 1) == []
    locks.unlock("g", [A, C], "one")
    assert locks.lock("g", [A, B], "two", 1) == [A]


def test_of_too_many_locks_those_expired_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_LOCKS", 2)
    locks = clients.QueueLocks()
    locks.lock("g", [A], "one", 0)
    assert locks.lock("g", [B, C], "one", 10) == [B]
    assert locks.lock("g", [A, B, C], "one", MINUTE) == [A, B]  # known ones take no room
    assert locks.lock("g", [C], "one", 2 * MINUTE) == []
    assert locks.lock("g", [C], "two", 2 * MINUTE + 1) == [C]
    assert locks.lock("g", [A, B], "two", 2 * MINUTE + 1) == [A]


# --- Messages a second over ten seconds, a minute and ten minutes, from what was counted by then.
def counted(now: int, *each: tuple[int, int]) -> clients.Given:
    """each: (milliseconds, messages given since the tick before)."""
    given = clients.Given(now)
    for at, messages in each:
        given.total += messages
        given.tick(at)
    return given


def test_each_span_begins_at_the_first_tick_within_it() -> None:
    assert clients.Given(5000).rates(5000) == [0.0, 0.0, 0.0]
    assert clients.Given(5000).rates(6000) == [0.0, 0.0, 0.0]
    # 600 messages in the first minute, then 20 in each of the last two spans of ten seconds.
    given = counted(0, (0, 0), *((n * 1000, 10) for n in range(1, 61)))
    for n in range(61, 81):
        given.total += 2
        given.tick(n * 1000)
    ten, minute, whole = given.rates(80_000)
    assert ten == 2.0
    assert minute == pytest.approx((40 * 10 + 20 * 2) / 60)
    assert whole == pytest.approx((600 + 40) / 80)
    given = counted(0, (10_000, 100))
    given.total += 50
    assert given.rates(20_000) == [5.0, 7.5, 7.5]
    # no tick is within the last ten seconds: what came since the last one, in 10.001 s
    assert given.rates(20_001)[0] == pytest.approx(50 / 10.001)
    given = counted(0, (999, 5), (1000, 5), (1999, 5))
    assert given.rates(10_000)[0] == 1.5
    for n in range(2, 2000):
        given.tick(n * 1000)
    assert given.rates(1_999_000) == [0.0, 0.0, 0.0]
    assert len(given._past) == 601
