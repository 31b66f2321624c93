"""Subscription groups: those of config/subscriptionGroup.json, and those that clients have made
since by being heard of (SubscriptionGroupManager). Nothing is written to the store.
"""

from collections.abc import Mapping
from typing import Any

from reput.store_format.release.profiles import Profile, release_key
from reput.store_format.serving.names import is_group_name

MOST_NEW = 20_000  # groups that clients may make; a broker has no limit


class SubscriptionGroups:
    """The configuration of each group (SubscriptionGroupConfig), as JSON has it."""

    def __init__(self, configured: Mapping[str, Any] | None, profile: Profile) -> None:
        """configured: the subscriptionGroupTable of the store."""
        self._table = {
            name: dict(about)
            for name, about in (configured or {}).items()
            if isinstance(about, dict)
        }
        self._new, self._release = 0, release_key(profile.release)

    def find(self, name: str) -> dict[str, Any] | None:
        """A group's configuration, made where it is not there yet; None where its name is no
        group's, or clients have made too many.
        """
        if name not in self._table:
            if not is_group_name(name) or self._new >= MOST_NEW:
                return None
            self._new += 1
            self._table[name] = self._default(name)
        return self._table[name]

    def names(self) -> list[str]:
        return list(self._table)

    def table(self) -> dict[str, Any]:
        return self._table

    def _default(self, name: str) -> dict[str, Any]:
        """What a broker of this release makes of a new group."""
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
