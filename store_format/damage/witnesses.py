"""Which witnesses say what a damaged range of the log is, and how sure that is.

The words of a report, for people and for `--json`: one row for each fault, and for a stretch of
stale records the witnesses that were weighed (damage/evidence).
"""

from enum import StrEnum
from typing import NamedTuple

from reput.store_format.damage.evidence import StretchVerdict, Witness
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.faults import Fault


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
