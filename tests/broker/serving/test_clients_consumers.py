"""Groups as heartbeats make them known: members, subscriptions, and who is told of a change."""

import pytest

from reput.broker.serving import clients
from reput.broker.serving.clients import EXPIRY, Client, Consumers, Group, Subscription
from reput.broker.wire.codes import Refused


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


def test_members_of_all_groups_are_bounded_and_leave_room_as_they_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_the_weight_of_subscriptions_is_bounded_and_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
