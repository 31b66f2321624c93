"""Where each group goes on: the store's offsets, what clients commit, what operators reset."""

from typing import Any

import pytest

from reput.broker.serving import groups
from reput.broker.serving import groups as subscription_groups
from reput.broker.serving.groups import GroupOffsets, SubscriptionGroups
from reput.broker.wire.codes import Refused
from reput.store_format.release.profiles import profile

START = {("g", "T"): {0: 7, 1: 0}, ("h", "T"): {0: 3}, ("g", "U"): {0: 1}}


@pytest.fixture
def offsets() -> GroupOffsets:
    return GroupOffsets(START)


def test_offsets_begin_as_the_file_has_them_and_the_file_stays_as_it_was(offsets) -> None:
    assert [offsets.query("g", "T", n) for n in (0, 1, 2)] == [7, 0, -1]
    assert [offsets.query(*key, 0) for key in (("g", "V"), ("i", "T"))] == [-1, -1]
    offsets.commit("g", "T", 0, 9)
    assert (offsets.query("g", "T", 0), START["g", "T"][0]) == (9, 7)
    offsets.commit("g", "T", 0, 2)  # a group may go back
    assert offsets.query("g", "T", 0) == 2
    assert offsets.changes == 2


def test_offsets_are_found_by_group_and_by_topic(offsets: GroupOffsets) -> None:
    offsets.commit("i", "T", 0, 1)
    offsets.pulled("j", "T", 0, 1)  # what a group was given is not an offset
    assert offsets.topics_of("g") == ["T", "U"]
    assert offsets.topics_of("j") == []
    assert offsets.groups_of("T") == ["g", "h", "i"]
    assert offsets.table() == {
        "T@g": {0: 7, 1: 0}, "T@h": {0: 3}, "U@g": {0: 1}, "T@i": {0: 1}}  # fmt: skip


def test_a_reset_holds_for_its_queue_until_the_group_is_told_once(offsets: GroupOffsets) -> None:
    assert offsets.take_reset("g", "T", 0) is None
    offsets.reset("g", "T", 0, 4)
    offsets.reset("g", "T", 1, 0)
    offsets.commit("g", "T", 0, 50)
    assert offsets.query("g", "T", 0) == 4
    assert [offsets.is_reset("g", "T", n) for n in (0, 1, 2)] == [True, True, False]
    assert not offsets.is_reset("h", "T", 0)
    assert [offsets.take_reset("g", "T", 1) for _ in range(2)] == [0, None]  # 0 is an offset too
    assert offsets.take_reset("g", "T", 0) == 4
    assert not offsets.is_reset("g", "T", 0)


def test_queues_that_clients_add_are_bounded_and_those_known_are_not(offsets, monkeypatch) -> None:
    monkeypatch.setattr(groups, "MOST_QUEUES", 2)
    offsets.commit("g", "T", 2, 1)
    offsets.commit("k", "T", 0, 1)
    for group, queue_id in (("g", 3), ("l", 0)):
        with pytest.raises(Refused):
            offsets.commit(group, "T", queue_id, 1)
        with pytest.raises(Refused):
            offsets.reset(group, "T", queue_id, 1)
        assert offsets.query(group, "T", queue_id) == -1
        assert not offsets.is_reset(group, "T", queue_id)
    for group, queue_id in (("g", 0), ("g", 2), ("k", 0)):
        offsets.commit(group, "T", queue_id, 5)
        assert offsets.query(group, "T", queue_id) == 5


def test_what_a_group_was_given_is_kept_apart_and_bounded(offsets, monkeypatch) -> None:
    monkeypatch.setattr(groups, "MOST_QUEUES", 1)
    offsets.pulled("g", "T", 0, 8)
    offsets.pulled("g", "T", 1, 8)
    offsets.pulled("g", "T", 0, 9)
    assert [offsets.query_pulled("g", "T", n) for n in (0, 1)] == [9, -1]
    assert offsets.query("g", "T", 0) == 7


# --- Groups: those of the store's file, and those that a broker makes as clients first name them.
def groups_subscription(configured: Any = None, release: str = "5.3.3") -> SubscriptionGroups:
    return SubscriptionGroups(configured, profile(release))


def test_the_stores_groups_are_as_its_file_has_them_and_one_that_is_named_is_made() -> None:
    given = {"g": {"groupName": "g", "retryMaxTimes": 3}, "no group!": {}, "bad": 7, "worse": None}
    known = groups_subscription(given)
    assert known.find("g") == {"groupName": "g", "retryMaxTimes": 3}
    assert known.find("no group!") == {}  # a broker reads it as it is
    assert known.names() == ["g", "no group!"]
    assert not known.has("bad")
    known = groups_subscription()
    assert not known.has("g")
    made = known.find("g")
    assert made is not None
    assert (made["groupName"], made["retryMaxTimes"], made["retryQueueNums"]) == ("g", 16, 1)
    assert known.has("g")
    assert known.find("g") is made
    for name in ["", "a b", "a/b", "a.b", "gr\u00fcn", "a\n", "g" * 256]:
        known = groups_subscription()
        assert known.find(name) is None
        assert known.names() == []
    for release, has in [("4.9.7", False), ("5.0.0", True)]:
        made = groups_subscription(release=release).find("g") or {}
        since = {"attributes", "consumeMessageOrderly", "consumeTimeoutMinute", "groupRetryPolicy",
                 "groupSysFlag"}  # fmt: skip
        assert (since <= made.keys()) is has
        assert len(made) == (14 if has else 9)


def test_of_too_many_groups_the_one_used_longest_ago_is_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(subscription_groups, "MOST_NEW", 2)
    known = groups_subscription({"old": {}})
    for name in ("a", "b", "a", "old", "c"):
        known.find(name)
    assert known.names() == ["old", "a", "c"]
    assert not known.has("b")
    assert (known.find("b") or {})["groupName"] == "b"
    assert known.names() == ["old", "c", "b"]
