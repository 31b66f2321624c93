"""Is a stretch of sound records after damage live, or left from an older log? The witnesses, how
they are weighed, and the queue that a stretch's records fit by themselves.

A stretch is a run of whole records in their own places between two breaks. That they are whole
says nothing of their time: before a truncation, or on a page whose last write was lost, another
log stood in the same places. Each witness speaks for or against (see the table of judge_stretch); a
report names them. One witness alone decides only where all others are silent.
"""

from collections.abc import Iterable, Mapping
from enum import IntFlag, StrEnum
from typing import Any, NamedTuple

from reput.store_format.damage.queue_ends import most_messages
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.dispatch.dispatch import batch_numbers
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import Fault
from reput.store_format.kernels.java_text import decode
from reput.store_format.kernels.jit import kernel
from reput.store_format.log.properties import ValueSpans, find_properties, new_spans
from reput.store_format.log.records import Bytes
from reput.store_format.log.rules import reaches_queue

Queue = tuple[str, int]


class Witness(IntFlag):
    """Who spoke of a stretch."""

    NONE = 0
    TIME = 1  # storeTimestamp of the stretch, against the live records before
    TIME_BEHIND = 2  # storeTimestamp of the next stretch, against the live records before
    OFFSETS = 4  # its queueOffsets, against those of its queues before
    OFFSETS_BEHIND = 8  # queueOffsets of the next stretch, against its own
    FRAME = 16  # a record of the live log began where the live log seemed to end


class QueueSpan(NamedTuple):
    """The first and last queueOffset of a queue in a stretch.

    doubted: the last queueOffset of a newer record that does not follow `last`. It is believed only
    once the next record follows it. messages: how many that record has.
    batch: it is a batch queue, where a record may have many.
    """

    first: int
    last: int
    doubted: int | None = None
    messages: int = 0
    batch: bool = False

    def then(self, first: int, last: int) -> "QueueSpan":
        """With the queue's next record, whose messages have the queueOffsets from first to last."""
        if first == self.last + 1 or (self.doubted is not None and first == self.doubted + 1):
            return QueueSpan(self.first, last, batch=self.batch)
        return self._replace(doubted=last, messages=last - first + 1)


class NextOffset(NamedTuple):
    """A queue's last message's queueOffset. lost: bytes perhaps lost since, up to the last live
    record.
    """

    last: int
    lost: int


class Votes(NamedTuple):
    """How many queues say yes, and how many no."""

    yes: int
    no: int


class StretchFacts(NamedTuple):
    """What is known of a stretch.

    is_older: its first record was stored before the last live record.
    behind_is_newer: the next stretch is older than neither this one nor the last live record.
    frame: where the live log ends, one more of its records had begun: its first fields are left, or
        more bytes are lost than the rest of one record.
    before, behind: the queues' votes.
    in_order: it was stored after the last live record and before the next stretch.
    opens: a segment begins with it, so that no record of the live log is lost right before it.
    """

    is_older: bool
    behind_is_newer: bool
    frame: bool
    before: Votes
    behind: Votes
    in_order: bool = False
    opens: bool = False


class StretchVerdict(NamedTuple):
    """Whether a stretch is live, and who spoke: for that verdict, and against it."""

    live: bool
    spoke: Witness
    against: Witness


def judge_stretch(facts: StretchFacts) -> StretchVerdict:
    """Weigh the witnesses of a stretch.

    | witness | live | stale |
    |---|---|---|
    | time: older than what stands before | | 1 |
    | and what stands after is newer again | | 1 |
    | stored between what stands before and after | 1 | |
    | queues go on from before, over lost bytes or into the next segment | 2 | |
    | queues repeat what they have, or leap | | 2 |
    | the next stretch goes on from it | 2 | |
    | the next stretch goes on without it | | 2 |

    That queues go on counts only where a record of the live log surely stood between, or a segment
    begins. Right after a log's end the records of an older log may go on by chance, for example if
    the log was cut and all records have one size. Such records never begin a segment: RocketMQ
    deletes all segments after the one that it cuts, and a record in a file made for another place
    has that place as physicalOffset. A tie of times and queues is stale: to deliver a message
    again, or at a wrong place, is worse than to lose a message that the report names.
    """
    live = stale = 0
    for_live = for_stale = Witness.NONE
    if facts.is_older:
        stale += 1
        for_stale |= Witness.TIME
        if facts.behind_is_newer:
            stale += 1
            for_stale |= Witness.TIME_BEHIND
    if facts.in_order:
        live += 1
        for_live |= Witness.TIME | Witness.TIME_BEHIND
    if facts.before.no > facts.before.yes:
        stale += 2
        for_stale |= Witness.OFFSETS
    elif (
        facts.before.yes
        and not facts.before.no
        and (facts.frame or facts.opens or not facts.is_older)
    ):
        live += 2
        for_live |= Witness.OFFSETS | (Witness.FRAME if facts.frame else Witness.NONE)
    if facts.behind.no > facts.behind.yes:
        stale += 2
        for_stale |= Witness.OFFSETS_BEHIND
    elif facts.behind.yes > facts.behind.no:
        live += 2
        for_live |= Witness.OFFSETS_BEHIND
    if live > stale or not stale:
        return StretchVerdict(True, for_live, for_stale)
    return StretchVerdict(False, for_stale, for_live)


def votes_before(
    spans: Mapping[Queue, QueueSpan], known: Mapping[Queue, NextOffset | None], lost: int
) -> Votes:
    """Whether the queues of a stretch go on from what they had before it.

    known: what each queue has before the stretch, None where nothing. lost: bytes between the
    stretch and the live record before it. If only these and the bytes lost earlier can together
    hold the messages that a queue misses, the queue has no vote.
    """
    yes = no = missing = 0
    for queue, span in spans.items():
        had = known[queue]
        if had is None:
            yes += span.first == 0
            continue
        gap = span.first - had.last - 1
        room = most_messages(lost, span.batch)
        if room < gap <= most_messages(lost + had.lost, span.batch):
            continue
        yes, no = yes + (0 <= gap <= room), no + (gap < 0 or gap > room)
        missing += max(gap, 0)
    together = most_messages(lost, any(span.batch for span in spans.values()))
    return Votes(yes, no) if missing <= together else Votes(0, no + 1 if yes else no)


def votes_behind(
    spans: Mapping[Queue, QueueSpan],
    known: Mapping[Queue, NextOffset | None],
    firsts: Iterable[tuple[Queue, int]],
    lost: int,
    lost_without: int,
) -> Votes:
    """Whether the queues of the next stretch go on from those of this stretch.

    firsts: the first queueOffset of each queue in the next stretch. lost: bytes between the two
    stretches; lost_without: bytes between the last live record and the next stretch.
    """
    yes = no = 0
    for queue, first in firsts:
        if queue not in spans:
            continue
        span = spans[queue]
        room = most_messages(lost, span.batch) + span.messages
        goes_on = 0 <= first - span.last - 1 <= room
        had = known[queue]
        without = first - (-1 if had is None else had.last) - 1
        yes += goes_on
        no += not goes_on and 0 <= without <= most_messages(lost_without, span.batch)
    return Votes(yes, no)


# ---
# Which witnesses say what a damaged range of the log is, and how sure that is.
#
# The words of a report, for people and for `--json`: one row for each fault, and for a stretch of
# stale records the witnesses that were weighed (damage/evidence).


class Sureness(StrEnum):
    """How sure a finding is."""

    CERTAIN = "certain"  # a checksum, the record's own frame, or a value that RocketMQ refuses
    LIKELY = "likely"  # two witnesses or more, against one field
    EVEN = "even"  # one against one: it is named, and nothing follows from it


class Heard(NamedTuple):
    """The witnesses that spoke for a finding, those that spoke against it, and how sure it is."""

    witnesses: tuple[str, ...]
    against: tuple[str, ...]
    sureness: Sureness


_FRAME = Heard(("the record's own lengths and magic number",), (), Sureness.CERTAIN)
_ITS_QUEUE = "the queueOffsets before and behind it in the queue that it names"
_QUEUE_MISSES = "a queue misses just this queueOffset there"
_AROUND = "the records before and behind it"
_BESIDE = "damage right beside it"


def _of(sureness: Sureness, *witnesses: str) -> Heard:
    return Heard(witnesses, (), sureness)


_BY_FAULT = {
    Fault.PLACE: _of(Sureness.CERTAIN, "physicalOffset against its place"),
    Fault.BODY_CRC: _of(Sureness.CERTAIN, "bodyCRC"),
    Fault.PROPERTY_CRC: _of(Sureness.CERTAIN, "__CRC32#"),
    Fault.DELAY_LEVEL: _of(Sureness.CERTAIN, "its own DELAY"),
    Fault.BATCH_NUMBERS: _of(Sureness.CERTAIN, "its own INNER_NUM and INNER_BASE"),
    Fault.BLANK_SIZE: _of(Sureness.CERTAIN, "size against the segment's end"),
    Fault.HEAD_MAGIC: _of(Sureness.CERTAIN, "the DLedger head's own magic number"),
    Fault.HEAD_SIZE: _of(Sureness.CERTAIN, "the DLedger head's lengths and totalSize"),
    Fault.HEAD_PLACE: _of(Sureness.CERTAIN, "pos against its place"),
    Fault.HEAD_INDEX: _of(Sureness.CERTAIN, "index of the DLedger entry before it"),
    Fault.HEAD_TERM: _of(Sureness.CERTAIN, "term of the DLedger entry before it"),
    Fault.MISSING: _of(Sureness.CERTAIN, "the segments' names and lengths"),
    Fault.TORN: _of(Sureness.LIKELY, "zeros up to a sector's end", "text has no NUL"),
    Fault.TEXT: _of(Sureness.LIKELY, "damage right behind it", "text has no such bytes"),
    Fault.STRAY: _of(Sureness.LIKELY, _ITS_QUEUE, _QUEUE_MISSES),
    Fault.KEPT_OUT: _of(Sureness.LIKELY, _QUEUE_MISSES, "its topic, queueId and queueOffset"),
    Fault.TIME: _of(
        Sureness.LIKELY, f"storeTimestamp of {_AROUND}", f"its own bornTimestamp, or {_BESIDE}"
    ),
    Fault.HOST: _of(Sureness.LIKELY, f"storeHost of {_AROUND}", f"its own time, or {_BESIDE}"),
    Fault.UNSEALED: _of(
        Sureness.LIKELY, f"__CRC32# of {_AROUND}", f"what is left of its own, or {_BESIDE}"
    ),
    Fault.TAG: _of(Sureness.EVEN, "tagsCode of its ConsumeQueue entry"),
    Fault.KEYS: _of(Sureness.EVEN, "keyHash of its IndexFile entry"),
    Fault.STORED: _of(Sureness.EVEN, "timeDiff of its IndexFile entry"),
    Fault.ELSEWHERE: _of(
        Sureness.LIKELY, _QUEUE_MISSES, "that queue's ConsumeQueue entry with its place and size"
    ),
}  # fmt: skip

_NAMES = {
    Witness.TIME: "storeTimestamp of the live records before it",
    Witness.TIME_BEHIND: "storeTimestamp of the records behind it",
    Witness.OFFSETS: "queueOffsets of its queues before it",
    Witness.OFFSETS_BEHIND: "queueOffsets of its queues behind it",
    Witness.FRAME: "a record of the live log that began before it",
}
_AGAINST_BITS = 8


def packed(verdict: StretchVerdict) -> int:
    """A verdict's witnesses as a number, for a range's `value`."""
    return int(verdict.spoke) | int(verdict.against) << _AGAINST_BITS


def heard(damage: Damage) -> Heard:
    """Who spoke of a range, and how sure it is."""
    if damage.kind == DamageKind.STALE and damage.fault == Fault.NONE:
        value = damage.value or 0
        spoke, against = value & ((1 << _AGAINST_BITS) - 1), value >> _AGAINST_BITS
        counts = spoke.bit_count(), against.bit_count()
        sureness = Sureness.LIKELY if counts[0] > counts[1] else Sureness.EVEN
        return Heard(_names(spoke), _names(against), sureness)
    return _BY_FAULT.get(damage.fault, _FRAME)


def _names(witnesses: int) -> tuple[str, ...]:
    return tuple(name for witness, name in _NAMES.items() if witness & witnesses)


# ---
# The queue that a record goes to by itself, and which queueOffsets it takes there.


class OwnOffsets(NamedTuple):
    """The queueOffsets of a record's first and last message: in a batch queue it may have several.

    batch: it is a batch queue.
    """

    queue: Queue
    first: int
    last: int
    batch: bool = False


class OwnQueues:
    """Tells which queueOffsets a record takes, under the rules of a scan."""

    def __init__(self, rules: ScanRules) -> None:
        self._batch_topics = frozenset(rules.batch_topics)
        self._split = rules.dispatch.split_properties
        self._spans = new_spans()

    def of(self, window: Bytes, row: Any) -> OwnOffsets | None:
        """None where its transaction type or its batch's numbers keep the record out of a queue."""
        if not reaches_queue(int(row["sysFlag"])):
            return None
        at = int(row["topicAt"])
        topic = decode(window[at : at + int(row["topicLength"])].tobytes())
        queue, first = (topic, int(row["queueId"])), int(row["queueOffset"])
        if topic not in self._batch_topics:
            return OwnOffsets(queue, first, first)
        at = int(row["propertiesAt"])
        end = at + int(row["propertiesLength"])
        sound, first, messages = _numbers(window, at, end, first, self._split, self._spans)
        if not sound or first < 0 or messages < 0:
            return None
        return OwnOffsets(queue, first, first + max(messages, 1) - 1, True)


@kernel
def _numbers(
    buf: Bytes, at: int, end: int, queue_offset: int, split: bool, spans: ValueSpans
) -> tuple[bool, int, int]:
    find_properties(buf, at, end, split, spans)
    return batch_numbers(buf, spans, queue_offset)
