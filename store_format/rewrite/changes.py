"""What a conversion changes in records, and which it takes, by the names of topics; what becomes of
names and positions that pop keeps elsewhere; and whether another release reads the records alike.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from reput.store_format import layouts
from reput.store_format.message import message
from reput.store_format.names import (
    DLQ_PREFIX,
    LMQ_PREFIX,
    POP_RETRY_SIGNS,
    RETRY_PREFIX,
    REVIVE_TOPIC,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
)
from reput.store_format.release.profiles import Profile

# ---
# What a conversion changes in records, and which records it takes, by the topics' names.
#
# A record that waits, is retried or was given up is in a topic of the broker or of a group. Its own
# topic is in its properties (MessageConst): REAL_TOPIC (HookUtils, TransactionalMessageBridge),
# RETRY_TOPIC and DLQ_ORIGIN_TOPIC (AbstractSendMessageProcessor).

# If a record has several of them, the last in this order names the message's own topic.
TOPIC_PROPERTIES = (b"REAL_TOPIC", b"DLQ_ORIGIN_TOPIC", b"RETRY_TOPIC")
TRANSACTIONS = frozenset(
    (message.HALF_TOPIC, message.OP_TOPIC, message.ROCKSDB_HALF_TOPIC, message.ROCKSDB_OP_TOPIC)
)
# Other files and bodies refer to positions in these topics. Of a topic that is not taken whole only
# messages that still wait are taken: nothing refers to them, and a broker begins with them anew.
WHOLE = TRANSACTIONS | {message.TIMER_TOPIC}
WAIT = (message.HALF_TOPIC, message.TIMER_TOPIC)
# Pop's check points and acknowledgements name positions too: REVIVE_TOPIC is left out, and check
# points of what is in flight are written anew.


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
    # Of records that have a position those with a lower queueOffset are left out, and those at a
    # lower physical offset.
    start: int = 0
    begin: int = 0
    # For a topic in which pop retries messages: what becomes of those that name no RETRY_TOPIC.
    retried: Fate | None = None


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
    begins: tuple[tuple[str, int, int], ...] = ()  # (topic, queue id, Decision.begin)
    retries: tuple[tuple[str, str], ...] = ()  # (topic of pop's retries, the topic they are of)
    digits: int = 0  # of each queueOffset in properties, where such change; 0: they stay
    _names: dict[str, str] = field(init=False, compare=False)
    _shifts: dict[str, int] = field(init=False, compare=False)
    _retries: dict[str, str] = field(init=False, compare=False)
    _starts: dict[tuple[str, int], int] = field(init=False, compare=False)
    _begins: dict[tuple[str, int], int] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", dict(self.renames))
        object.__setattr__(self, "_shifts", dict(self.shifts))
        object.__setattr__(self, "_retries", dict(self.retries))
        for name, values in (("_starts", self.starts), ("_begins", self.begins)):
            by_queue = {(topic, queue_id): value for topic, queue_id, value in values}
            object.__setattr__(self, name, by_queue)

    @property
    def by_topic(self) -> bool:
        """Whether a record's topics decide anything."""
        several = self.renames or self.shifts or self.starts or self.begins
        return bool(self.selects or several)

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
        """The topic's new name; a topic of pop's retries goes by the name of the topic they are of
        (KeyBuilder.buildPopRetryTopic).
        """
        own = self.own(topic)
        return topic.removesuffix(own) + self._names.get(own, own)

    def own(self, topic: str) -> str:
        """The topic that pop's retries in a topic are of; any other topic itself."""
        return self._retries.get(topic, topic)

    def of_queue(self, topic: str, queue_id: int = 0) -> Decision:
        """What becomes of the records that stand in a queue."""
        fate = self._fate(topic)
        if self.selects and is_shared(topic) and topic not in (*self.topics, *self.dropped):
            told = (topic in WHOLE and topic not in WAIT) or topic.startswith(REVIVE_TOPIC)
            fate = Fate.LEFT_OUT if told else Fate.FOLLOWS
        return Decision(
            fate, self._name(topic), self._shifts.get(topic, 0),
            self._starts.get((topic, queue_id), 0), self._begins.get((topic, queue_id), 0),
            self._fate(self.own(topic)) if topic in self._retries else None,
        )  # fmt: skip

    def of_name(self, topic: str) -> Decision:
        """What becomes of a record with a property that names this topic."""
        told = self.selects and topic.startswith(REVIVE_TOPIC)
        fate = Fate.LEFT_OUT if told else self._fate(self.own(topic))
        return Decision(fate, self._name(topic))

    def _name(self, topic: str) -> str:
        """The topic's new name, '' where it keeps its own."""
        new = self.renamed(topic)
        return "" if new == topic else new

    def _fate(self, topic: str) -> Fate:
        taken = topic not in self.dropped and (not self.topics or topic in self.topics)
        return Fate.TAKEN if taken else Fate.LEFT_OUT


def is_shared(topic: str) -> bool:
    """Whether messages of several topics stand in a topic: a broker's, a group's own, an LMQ."""
    shared = (SYSTEM_PREFIX, RETRY_PREFIX, DLQ_PREFIX, LMQ_PREFIX)
    return topic in SYSTEM_TOPICS or topic.startswith(shared)


# ---
# Pop's retries of a topic and a group have a topic of their own (KeyBuilder.buildPopRetryTopic).

_V1, _V2 = POP_RETRY_SIGNS  # no topic or group may have the second


def retried_topics(
    names: Iterable[str], topics: Collection[str], groups: Collection[str],
    consumed: Collection[tuple[str, str]],
) -> tuple[tuple[str, str], ...]:  # fmt: skip
    """(topic of pop's retries, the topic they are of), sorted, for those of `names` that are such.

    topics, groups: that the store knows; consumed: (group, topic) with a position. The name of the
    first release tells the group from the topic by an underscore, which both may have: a position
    decides (PopReviveService.initPopRetryOffset makes one), then a group that is known, then the
    longest topic. A group's own retries are none of pop's.
    """
    of_retries = {name for name in names if name.startswith(RETRY_PREFIX)}
    by_position = {
        topic: whole.removeprefix(group)[1:] for group, topic in consumed
        if topic in of_retries and _starts(whole := topic.removeprefix(RETRY_PREFIX), group)
    }  # fmt: skip
    found = dict(by_position)
    for name in of_retries - found.keys():
        whole = name.removeprefix(RETRY_PREFIX)
        _, plus, topic = whole.partition(_V2)
        if plus:
            found[name] = topic
        elif whole not in groups:
            cuts = [
                n for n, letter in enumerate(whole) if letter == _V1 and whole[n + 1 :] in topics
            ]
            known = [n for n in cuts if whole[:n] in groups] or cuts
            if known:
                found[name] = whole[known[0] + 1 :]
    return tuple(sorted(found.items()))


def _starts(whole: str, group: str) -> bool:
    return len(whole) > len(group) + 1 and whole.startswith((group + _V1, group + _V2))


# ---
# What a queue that is popped in order holds (ConsumerOrderInfoManager.OrderInfo).


def moved_order(info: Mapping[str, Any], new: Callable[[int], int | None]) -> dict[str, Any] | None:
    """An OrderInfo whose messages have other queueOffsets; None if none of them is taken.

    new: the new queueOffset of an old one, None where it is left out.
    """
    moved = [new(offset) for offset in order_offsets(info)]
    kept = sorted((offset, n) for n, offset in enumerate(moved) if offset is not None)
    if not kept:
        return None
    begin, acknowledged = kept[0][0], int(info.get("cm") or 0)
    made = {
        **info,
        "o": [begin, *(offset - begin for offset, _ in kept[1:])],
        "cm": sum((acknowledged >> n & 1) << at for at, (_, n) in enumerate(kept)),
    }
    for name in ("ot", "oc"):  # of each queueOffset: when it comes again, how often it came
        if isinstance(info.get(name), Mapping):
            pairs = ((new(int(offset)), value) for offset, value in info[name].items())
            made[name] = {str(offset): value for offset, value in pairs if offset is not None}
    return made


def order_offsets(info: Mapping[str, Any]) -> list[int]:
    """The queueOffsets of an OrderInfo's messages."""
    first, *steps = info["o"]
    return [first, *(first + step for step in steps)]


# ---
# Whether a release reads records as the release that wrote them does.


class Seen(NamedTuple):
    """What the records of a topic have after the conversion. long: some are V2."""

    topic: str
    sys_flags: int
    long: bool
    batch_queue: bool


def misfits(seen: Iterable[Seen], store_host: bytes, to: Profile) -> list[str]:
    """One line for each topic with something that the release `to` does not know."""
    lines = []
    for each in seen:
        why = _why_not(each, store_host, to)
        if why:
            lines.append(f"topic {each.topic[:127]!r}: {why}")
    return lines


def _why_not(seen: Seen, store_host: bytes, to: Profile) -> str:
    hosts = layouts.SYS_BORN_HOST_V6
    if not store_host:
        hosts |= layouts.SYS_STORE_HOST_V6
    if seen.long and not to.long_topics:
        return "its name is over 127 bytes (magic DAA320AB), which is read from 5.1.0 on"
    if seen.sys_flags & hosts and not to.ipv6_hosts:
        return "has hosts of IPv6 (sysFlag 0x10, 0x20), which are read from 4.6.0 on"
    if len(store_host) > layouts.IPV4_HOST and not to.ipv6_hosts:
        return "would get a storeHost of IPv6, which is read from 4.6.0 on"
    if (seen.batch_queue or seen.sys_flags & layouts.SYS_INNER_BATCH) and not to.batch_queues:
        return "has batches in one record, for a batch queue, which there is from 5.0.0 on"
    if seen.topic == message.TIMER_TOPIC and not to.timer_messages:
        return "messages wait for the timer, which there is from 5.0.0 on"
    if seen.topic in TRANSACTIONS and not to.half_topic:
        return "half messages have a topic of their own from 4.3.0 on"
    return ""
