"""Groups: those of the store's file, and those that a broker makes as clients first name them."""

from typing import Any

import pytest

from reput.broker.serving import groups as subscription_groups
from reput.broker.serving.groups import SubscriptionGroups
from reput.store_format.release.profiles import profile


def groups(configured: Any = None, release: str = "5.3.3") -> SubscriptionGroups:
    return SubscriptionGroups(configured, profile(release))


def test_the_stores_groups_are_as_its_file_has_them() -> None:
    given = {"g": {"groupName": "g", "retryMaxTimes": 3}, "no group!": {}, "bad": 7, "worse": None}
    known = groups(given)
    assert known.find("g") == {"groupName": "g", "retryMaxTimes": 3}
    assert known.find("no group!") == {}  # a broker reads it as it is
    assert known.names() == ["g", "no group!"]
    assert not known.has("bad")


def test_a_group_that_is_named_is_made_and_asking_whether_it_is_there_makes_none() -> None:
    known = groups()
    assert not known.has("g")
    made = known.find("g")
    assert made is not None
    assert (made["groupName"], made["retryMaxTimes"], made["retryQueueNums"]) == ("g", 16, 1)
    assert known.has("g")
    assert known.find("g") is made


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "gr\u00fcn", "a\n", "g" * 256])
def test_no_group_is_made_of_a_name_that_a_broker_refuses(name: str) -> None:
    known = groups()
    assert known.find(name) is None
    assert known.names() == []


@pytest.mark.parametrize("name", ["a|b%c-d_E9", "g" * 255])
def test_a_name_of_topic_validators_characters_makes_a_group(name: str) -> None:
    assert groups().find(name) is not None


@pytest.mark.parametrize(("release", "has"), [("4.9.7", False), ("5.0.0", True)])
def test_fields_of_5_0_0_are_there_from_then_on(release: str, has: bool) -> None:
    made = groups(release=release).find("g") or {}
    since = {"attributes", "consumeMessageOrderly", "consumeTimeoutMinute", "groupRetryPolicy",
             "groupSysFlag"}  # fmt: skip
    assert (since <= made.keys()) is has
    assert len(made) == (14 if has else 9)


def test_of_too_many_groups_the_one_used_longest_ago_is_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(subscription_groups, "MOST_NEW", 2)
    known = groups({"old": {}})
    for name in ("a", "b", "a", "old", "c"):
        known.find(name)
    assert known.names() == ["old", "a", "c"]
    assert not known.has("b")
    assert (known.find("b") or {})["groupName"] == "b"
    assert known.names() == ["old", "c", "b"]
