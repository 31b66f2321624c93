"""Where each group goes on: the store's offsets, what clients commit, what operators reset."""

from typing import Any

import pytest

from reput.broker.serving import groups
from reput.broker.serving.groups import GroupOffsets, SubscriptionGroups
from reput.broker.wire.codes import Refused
from reput.store_format.release.profiles import profile

START = {("g", "T"): {0: 7, 1: 0}, ("h", "T"): {0: 3}, ("g", "U"): {0: 1}}


@pytest.fixture
def offsets() -> GroupOffsets:
    return GroupOffsets(START)


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
    assert (offsets.changes, START["g", "T"][0]) == (5, 7)  # the file stays as it was


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
    known = groups_subscription()
    assert all(known.find(name) for name in ("%RETRY%g", "a|b_c-D9", "g" * 255))
    for name in ["", "a b", "a/b", "a.b", "a+b", "gr\u00fcn", "\uff11", "a\n", "g" * 256]:
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
    monkeypatch.setattr(groups, "MOST_NEW", 2)
    known = groups_subscription({"old": {}})
    for name in ("a", "b", "a", "old", "c"):
        known.find(name)
    assert known.names() == ["old", "a", "c"]
    assert not known.has("b")
    assert (known.find("b") or {})["groupName"] == "b"
    assert known.names() == ["old", "c", "b"]
