"""How far consumer groups have come: what the store says, and what clients tell meanwhile
(ConsumerOffsetManager). The store itself is never written to.
"""

from typing import Any

from reput.store_format.query.config import Offsets
from reput.store_format.release.profiles import release_key
from reput.store_format.remoting.bodies import fastjson
from reput.store_format.remoting.codes import RequestCode, ResponseCode
from reput.store_format.remoting.command import Command
from reput.store_format.serving.answer import Answer, Caller, found, refused
from reput.store_format.serving.broker import Broker
from reput.store_format.serving.fields import number, text
from reput.store_format.serving.names import is_group_name
from reput.store_format.serving.queue import ServedQueue

_MEMORY_SHARE = 0.4  # MessageStoreConfig.accessMessageInMemoryMaxRatio
MOST_QUEUES = 200_000  # of all groups together that clients may add; a broker has no limit


class TooManyOffsets(ValueError):
    """Clients have committed offsets of more queues than are kept."""


class GroupOffsets:
    """The next position that each group wants of each queue, -1 where there is none."""

    def __init__(self, start: Offsets) -> None:
        """start: what the store's own config/consumerOffset.json says."""
        self._offsets = {key: dict(queues) for key, queues in start.items()}
        self._pulled: dict[tuple[str, str, int], int] = {}
        self._added = 0
        self.changes = 0  # how often something was committed; who writes a file looks at it

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The group's offset of a queue (queryOffset)."""
        return self._offsets.get((group, topic), {}).get(queue_id, -1)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep how far a group has come (commitOffset). Raises TooManyOffsets."""
        queues = self._offsets.get((group, topic))
        if queues is None or queue_id not in queues:
            if self._added >= MOST_QUEUES:
                raise TooManyOffsets(f"offsets of {MOST_QUEUES} queues are kept, and no more")
            self._added += 1
            queues = self._offsets.setdefault((group, topic), {})
        queues[queue_id] = offset
        self.changes += 1

    def pulled(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Keep up to where a group was given messages (commitPullOffset, from 5.0.0 on).

        Operators are shown it, and nothing else is done with it: where there are too many it is
        not kept.
        """
        key = group, topic, queue_id
        if key in self._pulled or len(self._pulled) < MOST_QUEUES:
            self._pulled[key] = offset

    def query_pulled(self, group: str, topic: str, queue_id: int) -> int:
        """Up to where a group was given messages (queryPullOffset)."""
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


def query(broker: Broker, request: Command, caller: Caller) -> Answer:
    """The group's offset of a queue (ConsumerManageProcessor.queryConsumerOffset)."""
    group, topic = text(request, "consumerGroup"), text(request, "topic")
    queue_id = number(request, "queueId")
    offset = broker.offsets.query(group, topic, queue_id)
    if offset >= 0:
        return found(offset=offset)
    if request.fields.get("setZeroIfNotFound", "").lower() == "false":
        return refused(
            ResponseCode.QUERY_NOT_FOUND,
            "Not found, do not set to zero, maybe this group boot first",
        )
    if _begins_in_memory(broker, broker.store.queue(topic, queue_id)):
        return found(offset=0)
    return refused(
        ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
    )


def _begins_in_memory(broker: Broker, queue: ServedQueue | None) -> bool:
    """Whether a queue has its first message, and the log behind that would fit into memory: then a
    new group begins there, wherever it wanted to (checkInMemByConsumeOffset).

    Of an empty queue that is said up to 5.0.0. From 5.1.0 on a broker asks the kernel which pages
    are there; here the older rule stays, which is the same from one day to the next.
    """
    if queue is not None and queue.minimum > 0:
        return False
    for entry in [] if queue is None else queue.some(0, 1):
        return broker.store.log.end - entry.physical_offset <= broker.memory_bytes * _MEMORY_SHARE
    return release_key(broker.store.opened.profile.release) < (5, 1, 0)


def commit(broker: Broker, request: Command, caller: Caller) -> Answer:
    """A client tells how far its group has come (updateConsumerOffset)."""
    group, topic = text(request, "consumerGroup"), text(request, "topic")
    queue_id, offset = number(request, "queueId"), number(request, "commitOffset")
    if topic not in broker.store.topics:
        return refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    if not is_group_name(group):
        return refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group[:300]} not exist!")
    if not 0 <= queue_id < broker.store.topics[topic].read_queues:
        return refused(ResponseCode.INVALID_PARAMETER, f"no queue {queue_id} of {topic}")
    try:
        broker.offsets.commit(group, topic, queue_id, offset)
    except TooManyOffsets as error:
        return refused(ResponseCode.SYSTEM_ERROR, str(error))
    return found()


def everything(broker: Broker, request: Command, caller: Caller) -> Answer:
    """All offsets of all groups (getAllConsumerOffset), as a slave asks for them."""
    told: dict[str, Any] = {"offsetTable": broker.offsets.table()}
    return found(fastjson(told))


HANDLERS = {
    RequestCode.QUERY_CONSUMER_OFFSET: query,
    RequestCode.UPDATE_CONSUMER_OFFSET: commit,
    RequestCode.GET_ALL_CONSUMER_OFFSET: everything,
}
