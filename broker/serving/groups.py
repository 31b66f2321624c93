"""Offsets and subscription groups: the store's, and what clients add, which is not written."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from reput.broker.serving.clients import is_group_name
from reput.broker.wire.codes import Refused
from reput.store_format.discover.config import Offsets
from reput.store_format.release.profiles import Profile, release_key

# ---
# Offsets of consumer groups: those in the store, and those that clients have committed since
# (ConsumerOffsetManager). The store itself is never written to.

MOST_QUEUES = 200_000  # queues that clients may add, of all groups; a broker has no limit


class GroupOffsets:
    """The position in each queue at which each group goes on; -1 if it is not known."""

    def __init__(self, start: Offsets) -> None:
        """start: the offsets of the store's config/consumerOffset.json."""
        self._offsets = {key: dict(queues) for key, queues in start.items()}
        self._pulled: dict[tuple[str, str, int], int] = {}
        self._resets: dict[tuple[str, str], dict[int, int]] = {}
        self._added = 0
        self.changes = 0  # number of commits, by which to see whether a file is out of date

    def all(self) -> Offsets:
        return self._offsets

    def take(self, offsets: Offsets) -> None:
        self._offsets = offsets

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The group's offset of a queue (queryOffset)."""
        reset = self._resets.get((group, topic), {}).get(queue_id)
        return self._offsets.get((group, topic), {}).get(queue_id, -1) if reset is None else reset

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note how far a group has come (commitOffset). Raises Refused: too many."""
        queues = self._offsets.get((group, topic))
        if queues is None or queue_id not in queues:
            if self._added >= MOST_QUEUES:
                raise Refused(f"offsets of {MOST_QUEUES} queues are kept, and no more")
            self._added += 1
            queues = self._offsets.setdefault((group, topic), {})
        queues[queue_id] = offset
        self.changes += 1

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Make the group go on at `offset`, of which the answer to its next pull tells it
        (assignResetOffset). Raises Refused.
        """
        self.commit(group, topic, queue_id, offset)
        self._resets.setdefault((group, topic), {})[queue_id] = offset

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether the group has not yet been told of a reset of its offset (hasOffsetReset)."""
        return queue_id in self._resets.get((group, topic), {})

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """The offset of a reset, returned once for the group (queryThenEraseResetOffset)."""
        queues = self._resets.get((group, topic))
        if queues is None:
            return None
        found = queues.pop(queue_id, None)
        if not queues:
            del self._resets[group, topic]
        return found

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note the offset up to which a group was given messages (commitPullOffset, since 5.0.0).

        It is only shown to operators. Beyond MOST_QUEUES queues it is not kept.
        """
        key = group, topic, queue_id
        if key in self._pulled or len(self._pulled) < MOST_QUEUES:
            self._pulled[key] = offset

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """The offset up to which a group was given messages; -1 if unknown (queryPullOffset)."""
        return self._pulled.get((group, topic, queue_id), -1)

    def topics_of(self, group: str) -> list[str]:
        """The topics that a group has an offset of (whichTopicByConsumer)."""
        return [topic for each, topic in self._offsets if each == group]

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have an offset of a topic (whichGroupByTopic)."""
        return [group for group, each in self._offsets if each == topic]

    def table(self) -> dict[str, dict[int, int]]:
        """All offsets, by `topic@group` (the offsetTable of consumerOffset.json)."""
        return {f"{topic}@{group}": queues for (group, topic), queues in self._offsets.items()}


# ---
# Subscription groups: those of config/subscriptionGroup.json, and those made when clients first
# named them (SubscriptionGroupManager). Nothing is written to the store.

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
