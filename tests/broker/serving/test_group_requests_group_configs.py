"""Groups' configurations as told to others, and which group may get messages."""

import pytest

from reput.broker.serving.group_requests import check_group
from reput.broker.serving.groups import SubscriptionGroups
from reput.broker.wire.codes import Refused, RequestCode, ResponseCode
from tests.jobs.sockets.asked import Asked, said


@pytest.fixture
def asked(store: Asked) -> Asked:
    configured = {"on": {"consumeEnable": True}, "off": {"consumeEnable": False}, "none": {}}
    store.broker.groups = SubscriptionGroups(configured, store.broker.store.opened.profile)
    return store


def test_a_group_is_made_when_it_is_asked_for_and_all_are_told(asked: Asked) -> None:
    one = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
    assert said(asked.ask(one, 1, group="on")) == {"consumeEnable": True}
    assert said(asked.ask(one, 1, group="new"))["groupName"] == "new"
    assert asked.ask(one, 1, group="a b").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    table = said(asked.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, 1))
    assert list(table["subscriptionGroupTable"]) == ["on", "off", "none", "new"]
    assert table["forbiddenTable"] == {}
    assert table["dataVersion"]["counter"] == 0


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("on", None), ("none", None), ("new", None), ("off", ResponseCode.NO_PERMISSION),
        ("a b", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)  # fmt: skip
def test_a_group_gets_messages_unless_that_is_switched_off(
    asked: Asked, group: str, code: int | None
) -> None:
    if code is None:
        check_group(asked.broker, group)
    else:
        with pytest.raises(Refused) as refused:
            check_group(asked.broker, group)
        assert refused.value.code == code


def test_a_long_name_is_told_in_part(asked: Asked) -> None:
    with pytest.raises(Refused, match=r"^subscription group \[g{255}\] does not exist$"):
        check_group(asked.broker, "g" * 10_000)
