"""Names of groups that clients make up: those that a broker would make a group of."""

import pytest

from reput.broker.serving import clients
from reput.broker.serving.clients import (
    EXPIRY,
    POP,
    PULL,
    Client,
    Consumers,
    Given,
    Group,
    LockedQueue,
    QueueLocks,
    RequestMode,
    RequestModes,
    Subscription,
    is_group_name,
)
from reput.broker.wire.codes import Refused


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("g", True), ("%RETRY%g", True), ("a|b_c-D9", True), ("g" * 255, True),
        ("", False), ("g" * 256, False), ("a b", False), ("g\n", False), ("a+b", False),
        ("a/b", False), ("..", False), ("gr\u00fcn", False), ("\uff11", False),
    ],
)  # fmt: skip
def test_a_name_has_the_characters_that_topic_validator_knows(name: str, legal: bool) -> None:
    """^[%|a-zA-Z0-9_-]+$, of at most Validators.CHARACTER_MAX_LENGTH characters."""
    assert is_group_name(name) is legal


# --- Groups as heartbeats make them known: members, subscriptions, and who is told of a change.
class Known(Consumers):
    """Consumers, with the (connection, group) pairs that were told of a change."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str]] = []
        super().__init__(lambda connection, group: self.told.append((connection, group)))

    def beat(
        self, connection: int, name: str, *wanted: Subscription, keep: bool = False,
        heard: int = 0, model: str = "CLUSTERING",
    ) -> list[int]:  # fmt: skip
        """One heartbeat; the connections that are told of a change by it."""
        self.told.clear()
        group = Group(name, model=model, subscriptions={each.topic: each for each in wanted})
        self.join(group, connection, Client(f"c{connection}", 0, 0, heard), keep)
        return [connection for connection, _ in self.told]


def test_members_are_told_of_a_new_member_and_of_other_topics_only() -> None:
    known, t, u = Known(), Subscription("T", "*"), Subscription("U", "*")
    assert known.beat(1, "g", t) == [1]
    assert known.beat(2, "g", t) == [1, 2]
    assert known.beat(2, "g", t._replace(text="A", version=1)) == []
    assert known.beat(1, "g", t, u) == [1, 2]
    assert known.beat(1, "g", u) == [1, 2]
    assert known.beat(1, "g", keep=True) == []
    assert known.beat(3, "all", t, model="BROADCASTING") == []
    known.told.clear()
    known.leave("g", 9)
    known.leave("h", 1)
    assert known.told == []
    known.leave("g", 1)
    assert known.told == [(2, "g")]


@pytest.mark.parametrize(("version", "kept"), [(4, "old"), (5, "old"), (6, "new")])
def test_a_subscription_is_replaced_by_a_newer_one_only(version: int, kept: str) -> None:
    """ConsumerGroupInfo.updateSubscription: `getSubVersion() > old.getSubVersion()`."""
    known = Known()
    known.beat(1, "g", Subscription("T", "old", version=5), Subscription("U", "*"))
    known.beat(1, "g", Subscription("T", "new", version=version))
    there = known.groups["g"].subscriptions
    assert {topic: each.text for topic, each in there.items()} == {"T": kept}
    known.beat(2, "g", keep=True)
    assert list(known.groups["g"].subscriptions) == ["T"]


def test_a_group_without_members_is_forgotten() -> None:
    known = Known()
    known.beat(1, "g", Subscription("T", "*"))
    known.produce("p", 1, Client("c1", 0, 0, 0))
    known.produce("p", 2, Client("c2", 0, 0, 0))
    assert known.elsewhere("g", "U")
    assert not known.elsewhere("g", "T")
    known.disconnect(1, 0)
    assert known.groups == {}
    assert not known.elsewhere("g", "U")
    assert list(known.producers["p"]) == [2]
    known.stop_producing("p", 2)
    assert known.producers == {}


def test_a_client_is_silent_after_more_than_two_minutes() -> None:
    known = Known()
    known.beat(1, "g", heard=10)
    known.beat(2, "g", heard=11)
    known.produce("p", 1, Client("c1", 0, 0, 11))
    known.expire(EXPIRY + 10)
    assert list(known.groups["g"].clients) == [1, 2]
    known.expire(EXPIRY + 11)
    assert list(known.groups["g"].clients) == [2]
    assert known.producers == {}  # its connection is taken as closed


def test_members_of_all_groups_are_bounded_and_leave_room_as_they_go(monkeypatch) -> None:
    monkeypatch.setattr(clients, "MOST_MEMBERS", 2)
    known = Known()
    known.beat(1, "g")
    known.beat(1, "g")
    known.produce("p", 1, Client("c1", 0, 0, 0))
    with pytest.raises(Refused):
        known.beat(2, "new")
    assert "new" not in known.groups
    known.stop_producing("p", 1)
    known.stop_producing("p", 1)  # a second time gives no room
    known.beat(2, "g")
    with pytest.raises(Refused):
        known.produce("p", 3, Client("c3", 0, 0, 0))


def test_the_weight_of_subscriptions_is_bounded_and_replaced(monkeypatch) -> None:
    long = Subscription("T", "x" * 5000, version=1)
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


# --- Messages a second over ten seconds, a minute and ten minutes, from what was counted by then.
def counted(now: int, *each: tuple[int, int]) -> Given:
    """each: (milliseconds, messages given since the tick before)."""
    given = Given(now)
    for at, messages in each:
        given.total += messages
        given.tick(at)
    return given


def test_a_new_server_has_given_nothing() -> None:
    assert Given(5000).rates(5000) == [0.0, 0.0, 0.0]
    assert Given(5000).rates(6000) == [0.0, 0.0, 0.0]


def test_each_span_begins_at_the_first_tick_within_it() -> None:
    """600 messages in the first minute, then 20 in each of the last two spans of ten seconds."""
    given = counted(0, (0, 0), *((n * 1000, 10) for n in range(1, 61)))
    for n in range(61, 81):
        given.total += 2
        given.tick(n * 1000)
    ten, minute, whole = given.rates(80_000)
    assert ten == 2.0
    assert minute == pytest.approx((40 * 10 + 20 * 2) / 60)
    assert whole == pytest.approx((600 + 40) / 80)


def test_what_came_after_the_last_tick_counts_too() -> None:
    given = counted(0, (10_000, 100))
    given.total += 50
    assert given.rates(20_000) == [5.0, 7.5, 7.5]
    # no tick is within the last ten seconds: what came since the last one, in 10.001 s
    assert given.rates(20_001)[0] == pytest.approx(50 / 10.001)


def test_ticks_within_a_second_are_one_and_only_ten_minutes_are_kept() -> None:
    given = counted(0, (999, 5), (1000, 5), (1999, 5))
    assert given.rates(10_000)[0] == 1.5
    for n in range(2, 2000):
        given.tick(n * 1000)
    assert given.rates(1_999_000) == [0.0, 0.0, 0.0]
    assert len(given._past) == 601


# --- Whether a group pulls or pops a topic: what was set, and PULL where nothing was.
def test_a_group_pulls_unless_another_mode_was_set() -> None:
    modes = RequestModes()
    assert modes.of("T", "g") == RequestMode(PULL, 0)
    modes.put("T", "g", RequestMode(POP, 2))
    modes.put("T", "g", RequestMode(POP, 3))
    assert modes.of("T", "g") == (POP, 3)
    for topic, group in (("T", "h"), ("U", "g"), ("g", "T")):
        assert modes.of(topic, group).mode == PULL


def test_all_modes_are_told_by_topic_and_group() -> None:
    modes = RequestModes()
    assert modes.table() == {}
    for topic, group in (("T", "g"), ("T", "h"), ("U", "g")):
        modes.put(topic, group, RequestMode(POP, 1))
    table = modes.table()
    assert {topic: list(groups) for topic, groups in table.items()} == {"T": ["g", "h"], "U": ["g"]}
    assert table["T"]["h"] == {
        "consumerGroup": "h", "mode": "POP", "popShareQueueNum": 1, "topic": "T",
    }  # fmt: skip


def test_too_many_are_refused_and_known_ones_may_still_change(monkeypatch) -> None:
    monkeypatch.setattr(clients, "_MOST", 1)
    modes = RequestModes()
    modes.put("T", "g", RequestMode(POP))
    with pytest.raises(Refused):
        modes.put("T", "h", RequestMode(POP))
    modes.put("T", "g", RequestMode(PULL))
    assert modes.of("T", "g").mode == PULL
    assert modes.of("T", "h").mode == PULL
