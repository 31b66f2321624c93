"""What a conversion changes in records, and which records it takes, by the topics' names.

A record that waits, is retried or was given up is in a topic of the broker or of a group. Its own
topic is in its properties (MessageConst): REAL_TOPIC (HookUtils, TransactionalMessageBridge),
RETRY_TOPIC and DLQ_ORIGIN_TOPIC (AbstractSendMessageProcessor).
"""

from dataclasses import dataclass, field
from enum import IntEnum

from reput.store_format.message.message import (
    HALF_TOPIC,
    OP_TOPIC,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
    TIMER_TOPIC,
)
from reput.store_format.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS

# If a record has several of them, the last in this order names the message's own topic.
TOPIC_PROPERTIES = (b"REAL_TOPIC", b"DLQ_ORIGIN_TOPIC", b"RETRY_TOPIC")
TRANSACTIONS = frozenset((HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC))
# Other files and bodies refer to positions in these topics. Of a topic that is not taken whole only
# messages that still wait are taken: nothing refers to them, and a broker begins with them anew.
WHOLE = TRANSACTIONS | {TIMER_TOPIC}
WAIT = (HALF_TOPIC, TIMER_TOPIC)


class Fate(IntEnum):
    """What becomes of the records of a queue."""

    LEFT_OUT = 0
    TAKEN = 1
    FOLLOWS = 2  # the fate of the topic that the record's properties name


@dataclass(frozen=True)
class Decision:
    """What becomes of a queue. name: the topic's new name, '' where it keeps its own."""

    fate: Fate
    name: str = ""
    queue_shift: int = 0  # is added to queueId
    start: int = 0  # of records that have a position, those with a lower queueOffset are left out


@dataclass(frozen=True)
class Changes:
    """What a conversion changes. Topics go by their old names.

    topics: the topics that are taken; empty: all but those dropped. merges: records of other stores
    join them. Where some records are left out or join, only what waits is taken of the topics in
    WHOLE; the caller gives its places besides.
    """

    topics: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    merges: bool = False
    store_host: bytes = b""  # as in a record; empty: each record keeps its own
    shifts: tuple[tuple[str, int], ...] = ()  # (topic's old name, what is added to its queue ids)
    starts: tuple[tuple[str, int, int], ...] = ()  # (topic, queue id, Decision.start)
    _names: dict[str, str] = field(init=False, compare=False)
    _shifts: dict[str, int] = field(init=False, compare=False)
    _starts: dict[tuple[str, int], int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", dict(self.renames))
        object.__setattr__(self, "_shifts", dict(self.shifts))
        starts = {(topic, queue_id): start for topic, queue_id, start in self.starts}
        object.__setattr__(self, "_starts", starts)

    @property
    def by_topic(self) -> bool:
        """Whether a record's topics decide anything."""
        return bool(self.selects or self.renames or self.shifts or self.starts)

    @property
    def selects(self) -> bool:
        """Whether some records are left out, so that a queue may lose some of its own."""
        return bool(self.topics or self.dropped or self.merges)

    @property
    def unnamed(self) -> Fate:
        """What becomes of a record that follows a topic, but names none."""
        return Fate.LEFT_OUT if self.topics else Fate.TAKEN

    @property
    def keeps_sizes(self) -> bool:
        """Whether every record is taken, and as long as it was."""
        return not (self.by_topic or self.store_host)

    def renamed(self, topic: str) -> str:
        return self._names.get(topic, topic)

    def of_queue(self, topic: str, queue_id: int = 0) -> Decision:
        """What becomes of the records that stand in a queue."""
        fate = self._fate(topic)
        if self.selects and is_shared(topic) and topic not in (*self.topics, *self.dropped):
            fate = Fate.LEFT_OUT if topic in WHOLE and topic not in WAIT else Fate.FOLLOWS
        return Decision(
            fate, self._names.get(topic, ""), self._shifts.get(topic, 0),
            self._starts.get((topic, queue_id), 0),
        )  # fmt: skip

    def of_name(self, topic: str) -> Decision:
        """What becomes of a record with a property that names this topic."""
        return Decision(self._fate(topic), self._names.get(topic, ""))

    def _fate(self, topic: str) -> Fate:
        taken = topic not in self.dropped and (not self.topics or topic in self.topics)
        return Fate.TAKEN if taken else Fate.LEFT_OUT


def is_shared(topic: str) -> bool:
    """Whether messages of several topics stand in a topic: a broker's, or a group's own."""
    return (
        topic in SYSTEM_TOPICS
        or topic.startswith((SYSTEM_PREFIX, RETRY_PREFIX, DLQ_PREFIX))
    )  # fmt: skip
