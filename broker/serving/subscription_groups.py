"""Subscription groups: those of config/subscriptionGroup.json, and those made when clients first
named them (SubscriptionGroupManager). Nothing is written to the store.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from reput.broker.serving.client_names import is_group_name
from reput.store_format.release.profiles import Profile, release_key

MOST_NEW = 20_000  # groups made for clients that are kept; a broker has no limit


class SubscriptionGroups:
    """The configuration of each group (SubscriptionGroupConfig), as JSON has it."""

    def __init__(self, configured: Mapping[str, Any] | None, profile: Profile) -> None:
        """configured: the store's subscriptionGroupTable."""
        self._configured = {
            name: dict(about)
            for name, about in (configured or {}).items()
            if isinstance(about, dict)
        }
        self._made: OrderedDict[str, dict[str, Any]] = OrderedDict()  # the last used group last
        self._release = release_key(profile.release)

    def find(self, name: str) -> dict[str, Any] | None:
        """A group's configuration, made if it is missing; None if `name` is no legal group name.

        Beyond MOST_NEW, the least recently used group is forgotten. If it is used again, it is made
        with the same configuration, so no client can use up what others need.
        """
        if name in self._configured:
            return self._configured[name]
        if name not in self._made:
            if not is_group_name(name):
                return None
            self._made[name] = self._default(name)
            if len(self._made) > MOST_NEW:
                self._made.popitem(last=False)
        self._made.move_to_end(name)
        return self._made[name]

    def has(self, name: str) -> bool:
        """Whether a group is known, without making it (containsSubscriptionGroup)."""
        return name in self._configured or name in self._made

    def names(self) -> list[str]:
        return list(self.table())

    def table(self) -> dict[str, Any]:
        return self._configured | self._made

    def _default(self, name: str) -> dict[str, Any]:
        """The configuration that a broker of this release gives a new group."""
        made: dict[str, Any] = {
            "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True,
            "consumeFromMinEnable": True,
        }  # fmt: skip
        if self._release >= (5, 0, 0):
            made |= {"attributes": {}, "consumeMessageOrderly": False, "consumeTimeoutMinute": 15}
            made |= {"groupRetryPolicy": {"type": "CUSTOMIZED"}, "groupSysFlag": 0}
        return made | {
            "groupName": name, "notifyConsumerIdsChangedEnable": True, "retryMaxTimes": 16,
            "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
        }  # fmt: skip
