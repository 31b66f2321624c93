"""What a conversion changes of records, and which of them it takes, by the topics' names.

A record that waits, is retried or was given up stands in a topic of the broker's or of a group's.
The topic that it is for stands in its properties (MessageConst): REAL_TOPIC (HookUtils,
TransactionalMessageBridge), RETRY_TOPIC and DLQ_ORIGIN_TOPIC (AbstractSendMessageProcessor).
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

# Of several of them in a record, the later one in this order names where the message is from.
TOPIC_PROPERTIES = (b"REAL_TOPIC", b"DLQ_ORIGIN_TOPIC", b"RETRY_TOPIC")
TRANSACTIONS = frozenset((HALF_TOPIC, OP_TOPIC, ROCKSDB_HALF_TOPIC, ROCKSDB_OP_TOPIC))
# Other files and bodies tell of positions in these: what is not taken whole is taken alone, if it
# waits still. Then nothing tells of it, and a broker begins with it anew.
WHOLE = TRANSACTIONS | {TIMER_TOPIC}
WAIT = (HALF_TOPIC, TIMER_TOPIC)


class Fate(IntEnum):
    """What becomes of the records of a queue."""

    LEFT_OUT = 0
    TAKEN = 1
    FOLLOWS = 2  # as of the topic that the record's properties name


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

    topics: those that are taken; none: all but those dropped; merges: records of other stores join
    them. Where some are left out or join, of topics of which others tell (WHOLE) only what waits is
    taken: its places are given besides.
    """

    topics: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    merges: bool = False
    store_host: bytes = b""  # as in a record; empty: each record keeps its own
    shifts: tuple[tuple[str, int], ...] = ()  # by the topic's old name, what its queue ids grow by
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
        """The new name of a topic."""
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
        """What becomes of a record of which a property names this topic."""
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
