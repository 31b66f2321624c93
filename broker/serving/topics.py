"""The topics that are served: those of config/topics.json, and others that have queues."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from reput.store_format.query.reader import OpenedStore

PERM_READ, PERM_WRITE = 4, 2  # PermName
_DEFAULT_QUEUES = 16  # TopicConfig.defaultReadQueueNums
_INT = 1 << 31
# Of a topic. A hostile topics.json may have any number, and requests loop over all queues.
_MOST_QUEUES = 1 << 16


class Topic(NamedTuple):
    """The configuration of a topic (TopicConfig)."""

    name: str
    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int
    order: bool
    filter_type: str
    attributes: dict[str, str]
    configured: bool  # whether config/topics.json has the topic

    @property
    def empty_minimum(self) -> int:
        """The minimum of a queue without entries (ConsumeQueue, BatchConsumeQueue)."""
        return -1 if self.attributes.get("queue.type") == "BatchCQ" else 0


def served_topics(
    configured: Mapping[str, Any] | None, folders: Mapping[str, int]
) -> dict[str, Topic]:
    """All topics by name. folders: topic -> its greatest queue id plus 1, if it has queues."""
    found = {
        name: _configured(name, config)
        for name, config in (configured or {}).items()
        if isinstance(config, dict)
    }
    for name, queues in folders.items():
        if name not in found:
            found[name] = Topic(
                name, queues, queues, PERM_READ | PERM_WRITE, 0, False, "SINGLE_TAG", {}, False
            )
    return found


def _configured(name: str, config: Mapping[str, Any]) -> Topic:
    attributes = config.get("attributes")
    return Topic(
        name,
        _queues(config.get("readQueueNums")),
        _queues(config.get("writeQueueNums")),
        _int(config.get("perm"), PERM_READ | PERM_WRITE),
        _int(config.get("topicSysFlag"), 0),
        config.get("order") is True,
        str(config.get("topicFilterType", "SINGLE_TAG")),
        {str(k): str(v) for k, v in attributes.items()} if isinstance(attributes, dict) else {},
        True,
    )


def _queues(value: Any) -> int:
    return min(_int(value, _DEFAULT_QUEUES), _MOST_QUEUES)


def _int(value: Any, default: int) -> int:
    return value if type(value) is int and -_INT <= value < _INT else default


def queue_folders(store: OpenedStore) -> dict[str, int]:
    """Topic -> its greatest queue id plus 1, for topics that have folders of queues."""
    counts = {topic: store.queues.of(topic) for topic in store.queues.topics()}
    return {topic: queues[-1][0] + 1 for topic, queues in counts.items() if queues}
