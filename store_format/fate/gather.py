"""Gathers in one pass over a log the marks of the records that services of a broker have touched,
and what op messages name.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.queue_table import SCHEDULE_NAME, TIMER_NAME
from reput.store_format.files.protocol import InputStorage
from reput.store_format.kernels.bytes import get_i32, get_i64, same_bytes
from reput.store_format.kernels.java_text import hash_code, parse_integer
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import (
    MIDDLE_AT,
    PROPERTY_END,
    RECORD_AT,
    RECORD_MIDDLE_BYTES,
    SYS_TRANSACTION_MASK,
)
from reput.store_format.log.properties import find_named
from reput.store_format.log.reader import LiveBehind, LogReader, NoRecord
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import Step
from reput.store_format.message.message import (
    CHECK_MAX_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_TOPIC,
)

# ---
# One small row for each record that a broker's own services have touched.
#
# A walk over the log makes these marks, so that a question about transactions or delays holds tens
# of bytes for each message in question, and none for all others. Texts are kept as hashes (FNV-1a,
# 64 bits) of their bytes.

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[Any]

# A mark's kind: the topic that the record stands in. OTHER is any other topic.
OTHER, HALF, OP, DISCARDED, SCHEDULE, WHEEL, ROCKSDB_HALF, ROCKSDB_OP = range(8)
_TOPICS = (
    HALF_TOPIC.encode(), OP_TOPIC.encode(), CHECK_MAX_TOPIC.encode(),
    SCHEDULE_NAME.tobytes(), TIMER_NAME.tobytes(),
    ROCKSDB_HALF_TOPIC.encode(), ROCKSDB_OP_TOPIC.encode(),
)  # fmt: skip

# The properties that are read (MessageConst); each one's index here is its row in `spans`.
_NAMES = (
    b"UNIQ_KEY", b"REAL_TOPIC", b"REAL_QID", b"TIMER_OUT_MS", b"TIMER_ROLL_TIMES",
    b"TIMER_DEL_UNIQKEY", b"TRANSACTION_CHECK_TIMES", b"TRAN_PREPARED_QUEUE_OFFSET",
    b"ORIGIN_MESSAGE_ID", b"__transactionId__", b"TRANS_OFFSET",
)  # fmt: skip
_UNIQ_KEY, _REAL_TOPIC, _REAL_QID, _OUT, _ROLLED, _DELETES, _CHECKS, _PREPARED, _ORIGIN = range(9)
_TRANSACTION_ID, _HALF_PLACE = 9, 10

# Which numbers of a mark could not be read: bits of its `flaws`.
NO_REAL_TOPIC, BAD_REAL_QID, BAD_OUT, BAD_CHECKS, BAD_PREPARED = 1, 2, 4, 8, 16
BAD_HALF_PLACE = 32
FLAWS = {
    NO_REAL_TOPIC: ("REAL_TOPIC", "is missing: it cannot be delivered"),
    BAD_REAL_QID: ("REAL_QID", "is not a number: it cannot be delivered"),
    BAD_OUT: ("TIMER_OUT_MS", "is not a number"),
    BAD_CHECKS: ("TRANSACTION_CHECK_TIMES", "is not a number"),
    BAD_PREPARED: ("TRAN_PREPARED_QUEUE_OFFSET", "is not a number"),
    BAD_HALF_PLACE: ("TRANS_OFFSET", "of an op message is not a number"),
}

NONE = -1  # a number that the record does not have

MARK = np.dtype(
    [
        ("physicalOffset", "<i8"),
        ("queueOffset", "<i8"),
        ("storeTimestamp", "<i8"),  # milliseconds
        ("key", "<u8"),  # hash of UNIQ_KEY, 0 without one; of ROCKSDB_OP that of the half message
        # hash of the message's home: topic, queue id, UNIQ_KEY, bornTimestamp and reconsumeTimes,
        # which delivery copies. Of a waiting message, topic and queue id are REAL_TOPIC, REAL_QID.
        ("home", "<u8"),
        ("origin", "<u8"),  # hash of ORIGIN_MESSAGE_ID, 0 without one
        ("deletes", "<u8"),  # hash of TIMER_DEL_UNIQKEY, 0 without one
        ("deletedBy", "<u8"),  # of a timer: the hash of REAL_TOPIC, `+`, UNIQ_KEY
        ("out", "<i8"),  # TIMER_OUT_MS
        ("size", "<i4"),  # of the record, in bytes
        ("topicHash", "<i4"),  # of a timer: String.hashCode of REAL_TOPIC, 0 without one
        ("prepared", "<i8"),  # of a half message TRAN_PREPARED_QUEUE_OFFSET, of ROCKSDB_OP the half
        # message's place, else the record's preparedTransactionOffset
        ("checks", "<i4"),  # TRANSACTION_CHECK_TIMES, 0 without one
        ("queueId", "<i4"),
        ("kind", "u1"),
        ("transaction", "u1"),  # sysFlag's bits 0xC
        ("sentOn", "u1"),  # 1: it has a REAL_TOPIC, or a TIMER_OUT_MS
        ("rolled", "u1"),  # 1: the timer wheel put it back (TIMER_ROLL_TIMES)
        ("flaws", "u1"),
        ("reserved", "u1", 3),
    ]
)
assert MARK.itemsize == 104

_TOPIC_BYTES = np.frombuffer(b"".join(_TOPICS), np.uint8)
_TOPIC_ENDS = np.cumsum([len(topic) for topic in _TOPICS])
_NAME_BYTES = np.frombuffer(b"".join(_NAMES), np.uint8)
_NAME_ENDS = np.cumsum([len(name) for name in _NAMES])
NAMED = len(_NAMES)
_SENT = (_NAMES[_REAL_TOPIC], _NAMES[_OUT])  # all that most records are asked for
_SENT_BYTES = np.frombuffer(b"".join(_SENT), np.uint8)
_SENT_ENDS = np.cumsum([len(name) for name in _SENT])
_PLUS = np.frombuffer(b"+", np.uint8)
_START, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


@inlined
def _among(buf: Bytes, at: int, end: int, texts: Bytes, ends: Any) -> int:
    """The number of the text that buf[at:end] is, or -1."""
    start = 0
    for number in range(len(ends)):
        stop = ends[number]
        if stop - start == end - at and same_bytes(buf, at, texts, start, end - at):
            return number
        start = stop
    return -1


@kernel
def _hashed(h: np.uint64, buf: Bytes, at: int, end: int) -> np.uint64:
    for i in range(at, end):
        h = (h ^ np.uint64(buf[i])) * _PRIME
    return h


@kernel
def _hashed_number(h: np.uint64, number: int) -> np.uint64:
    for _ in range(8):
        h = (h ^ np.uint64(number & 0xFF)) * _PRIME
        number >>= 8
    return h


def hash_text(text: bytes) -> int:
    """The hash that a mark has of a text; 0 for an empty one."""
    h = int(_START)
    for byte in text:
        h = (h ^ byte) * int(_PRIME) & 0xFFFFFFFFFFFFFFFF
    return h if text else 0


@inlined
def _text(buf: Bytes, spans: Any, name: int) -> np.uint64:
    if spans[name, 0] < 0:
        return np.uint64(0)
    return _hashed(_START, buf, spans[name, 0], spans[name, 1])


@inlined
def _number(buf: Bytes, spans: Any, name: int, bits: int) -> tuple[bool, int]:
    """(well-formed, value) of a property; a missing property is not well-formed."""
    if spans[name, 0] < 0:
        return False, 0
    return parse_integer(buf, spans[name, 0], spans[name, 1], bits)


@kernel
def mark_records(buf: Bytes, rows: Rows, split: bool, every: bool, spans: Any, marks: Any) -> int:
    """Fill `marks` (MARK) from rows of a walk (RECORD_ROW); returns how many.

    Marked are records of the broker's own topics, with a transaction type, with a REAL_TOPIC or
    with a TIMER_OUT_MS; `every`: all records. (A timer's delivery lacks REAL_TOPIC where its
    properties were written anew, as for multi-dispatch.) split: Profile.split_properties; spans:
    int64, (NAMED, 2).
    """
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        topic_end = row.topicAt + row.topicLength
        kind = 1 + _among(buf, row.topicAt, topic_end, _TOPIC_BYTES, _TOPIC_ENDS)
        transaction = row.sysFlag & SYS_TRANSACTION_MASK
        end = row.propertiesAt + row.propertiesLength
        find_named(buf, row.propertiesAt, end, split, _SENT_BYTES, _SENT_ENDS, spans)
        sent_on = spans[0, 0] >= 0 or spans[1, 0] >= 0
        if not (every or kind > 0 or transaction != 0 or sent_on):
            continue
        find_named(buf, row.propertiesAt, end, split, _NAME_BYTES, _NAME_ENDS, spans)
        mark = marks[count]
        count += 1
        middle = row.bodyAt - RECORD_MIDDLE_BYTES
        mark.physicalOffset, mark.queueOffset = row.physicalOffset, row.queueOffset
        mark.storeTimestamp, mark.queueId = row.storeTimestamp, row.queueId
        mark.kind, mark.transaction, mark.sentOn = kind, transaction, sent_on
        mark.key, mark.origin = _text(buf, spans, _UNIQ_KEY), _text(buf, spans, _ORIGIN)
        mark.deletes, mark.deletedBy = _text(buf, spans, _DELETES), 0
        mark.rolled = spans[_ROLLED, 0] >= 0
        mark.out, mark.checks, mark.flaws = NONE, 0, 0
        mark.size, mark.topicHash = row.size, 0
        mark.prepared = get_i64(buf, middle + MIDDLE_AT.preparedTransactionOffset)
        if kind in (SCHEDULE, WHEEL):
            home = _where_to(buf, spans, mark)
        else:
            home = _hashed_number(_hashed(_START, buf, row.topicAt, topic_end), row.queueId)
        if kind in (HALF, DISCARDED):
            _count_checks(buf, spans, mark)
        elif kind == ROCKSDB_OP:
            _name_half(buf, spans, mark)
        if spans[_UNIQ_KEY, 0] >= 0:
            home = _hashed(home, buf, spans[_UNIQ_KEY, 0], spans[_UNIQ_KEY, 1])
        home = _hashed_number(home, get_i64(buf, row.at + RECORD_AT.bornTimestamp))
        mark.home = _hashed_number(home, get_i32(buf, middle + MIDDLE_AT.reconsumeTimes))
    return count


@kernel
def _where_to(buf: Bytes, spans: Any, mark: Any) -> np.uint64:
    """The hash of REAL_TOPIC and REAL_QID; also fills in the fields of a timer message."""
    home = _text(buf, spans, _REAL_TOPIC)
    if spans[_REAL_TOPIC, 0] < 0:
        mark.flaws |= NO_REAL_TOPIC
    good, queue_id = _number(buf, spans, _REAL_QID, 32)
    if not good:
        mark.flaws |= BAD_REAL_QID
    if mark.kind == WHEEL:
        good, out = _number(buf, spans, _OUT, 64)
        mark.out = out
        if not good:
            mark.flaws |= BAD_OUT
        at, end = spans[_REAL_TOPIC, 0], spans[_REAL_TOPIC, 1]
        if at >= 0:
            mark.topicHash = hash_code(buf, at, end, np.int32(0))
        if at >= 0 and mark.key != 0:
            by = _hashed(home, _PLUS, 0, 1)
            mark.deletedBy = _hashed(by, buf, spans[_UNIQ_KEY, 0], spans[_UNIQ_KEY, 1])
    return _hashed_number(home, queue_id)


@kernel
def _name_half(buf: Bytes, spans: Any, mark: Any) -> None:
    """Which half message an op names: TransMessageRocksDBStore.makeOpMessageInner."""
    mark.key = _text(buf, spans, _TRANSACTION_ID)
    good, place = _number(buf, spans, _HALF_PLACE, 64)
    mark.prepared = place if good else NONE
    if not good:
        mark.flaws |= BAD_HALF_PLACE


@kernel
def _count_checks(buf: Bytes, spans: Any, mark: Any) -> None:
    """Fill in TRANSACTION_CHECK_TIMES and TRAN_PREPARED_QUEUE_OFFSET; most have neither."""
    good, checks = _number(buf, spans, _CHECKS, 32)
    mark.checks = checks
    if not good and spans[_CHECKS, 0] >= 0:
        mark.flaws |= BAD_CHECKS
    if mark.kind == HALF:
        good, offset = _number(buf, spans, _PREPARED, 64)
        mark.prepared = offset if good else NONE
        if not good and spans[_PREPARED, 0] >= 0:
            mark.flaws |= BAD_PREPARED


Marks = npt.NDArray[Any]
Keep = Callable[[Marks], npt.NDArray[np.bool_]]
Watch = Callable[[int], None]  # gets how far the walk has come, a physical offset

# One half message that an op message names.
ENDED = np.dtype([("halfOffset", "<i8"), ("physicalOffset", "<i8"), ("storeTimestamp", "<i8")])
SKIPPED_MOST = 1000
_LONG = re.compile(rb"[+-]?[0-9]{1,19}")
_REMOVE = b"\x02TAGS\x01d\x02"  # TransactionalMessageUtil.REMOVE_TAG
_PAIR_END = bytes([PROPERTY_END])


class Skipped(NamedTuple):
    """A value that cannot be what it should be; the value itself is not shown."""

    physical_offset: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"physical {self.physical_offset}: {self.field} {self.reason}"


class Gathered(NamedTuple):
    marks: Marks  # MARK, in the log's order
    ended: npt.NDArray[Any]  # ENDED, in the log's order
    skipped: list[Skipped]  # the first skipped values
    skips: int  # how many were skipped
    last_timestamp: int  # the store time of the log's last record, 0 without one
    breaks: list[NoRecord]  # where records break off
    # where the last segment ends that lost something, or a hole; 0 without one. What stands before
    # may have ended in what is lost.
    unread_to: int


class Taken:
    """The marks of the steps of a walk; see `gather`."""

    def __init__(self, keep: Keep, split: bool, every: bool = False) -> None:
        self._keep, self._split, self._every = keep, split, every
        self.marks, self.ended = [np.zeros(0, MARK)], [np.zeros(0, ENDED)]
        self.skipped: list[Skipped] = []
        self.skips = self.last = 0
        self._places = np.empty((NAMED, 2), np.int64)
        self._room = np.zeros(0, MARK)

    def add(self, step: Step) -> None:
        if len(step.rows) > len(self._room):
            self._room = np.zeros(len(step.rows), MARK)
        count = mark_records(
            step.window, step.rows, self._split, self._every, self._places, self._room
        )
        found = self._room[:count]
        kept = found[self._keep(found)] if count else found
        self.last = int(step.rows["storeTimestamp"][-1])
        if not len(kept):
            return
        named, wrong = _ended(step, kept[kept["kind"] == OP])
        wrong += [
            Skipped(int(mark["physicalOffset"]), *why)
            for mark in kept[kept["flaws"] != 0]
            for bit, why in FLAWS.items()
            if int(mark["flaws"]) & bit
        ]
        self.marks.append(kept)
        self.ended.append(named)
        self.skips += len(wrong)
        self.skipped += wrong[: SKIPPED_MOST - len(self.skipped)]

    def gathered(self, breaks: Sequence[NoRecord] = (), unread_to: int = 0) -> Gathered:
        return Gathered(
            np.concatenate(self.marks), np.concatenate(self.ended), self.skipped, self.skips,
            self.last, list(breaks), unread_to,
        )  # fmt: skip


def gather(
    log: LogReader, keep: Keep, split: bool, every: bool = False, seen: Watch | None = None,
    behind: LiveBehind | None = None, also: Callable[[Step], None] | None = None,
) -> Gathered:  # fmt: skip
    """Walk a log and hold the marks that `keep` chooses, 104 bytes each.

    split: Profile.split_properties; every: `keep` chooses among all records; seen: is called with
    the physical offset that the walk has reached. behind: as for `steps_past_damage`. also: gets
    each step that has records.
    """
    taken, breaks = Taken(keep, split, every), list[NoRecord]()
    for step in log.steps_past_damage(breaks.append, behind):
        if len(step.rows):
            taken.add(step)
            if also is not None:
                also(step)
        if seen is not None:
            seen(step.next)
    unread_to = max([log.hole_end(), *(log.next_start(each.place) for each in breaks)])
    return taken.gathered(breaks, unread_to)


def gather_segment(
    storage: InputStorage, segment: Segment, rules: RecordRules, keep: Keep, split: bool, end: int
) -> Gathered:
    """`gather` of one segment up to the log's end, a physical offset."""
    with LogReader(storage, [segment], rules) as log:
        return gather(log, lambda marks: keep(marks) & (marks["physicalOffset"] < end), split)


def joined(parts: Sequence[Gathered]) -> Gathered:
    """What segments gave, in the log's order, as one."""
    return Gathered(
        np.concatenate([np.zeros(0, MARK), *(each.marks for each in parts)]),
        np.concatenate([np.zeros(0, ENDED), *(each.ended for each in parts)]),
        [one for each in parts for one in each.skipped],
        sum(each.skips for each in parts),
        max((each.last_timestamp for each in parts), default=0),
        [one for each in parts for one in each.breaks],
        max((each.unread_to for each in parts), default=0),
    )


def gather_on_all_cores(
    log: LogReader, segments: Iterable[Segment], keep: Keep, split: bool, end: int
) -> Gathered:
    """`gather` of segments of a log, each in a thread: reads and kernels let others run."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = [
            pool.submit(gather_segment, log.storage, segment, log.rules, keep, split, end)
            for segment in segments
            if segment.start < end
        ]
        return joined([each.result() for each in tasks])


def _ended(step: Step, ops: Marks) -> tuple[Marks, list[Skipped]]:
    """The half messages that op messages of a step name, and the values that name none."""
    found, wrong = [np.zeros(0, ENDED)], []
    for mark in ops:
        place = int(mark["physicalOffset"])
        row = step.rows[int(np.searchsorted(step.rows["physicalOffset"], place))]
        at, body_at = int(row["propertiesAt"]), int(row["bodyAt"])
        properties = step.window[at : at + int(row["propertiesLength"])].tobytes()
        if row["bodyElided"]:
            wrong.append(Skipped(place, "body", "of an op message is longer than a window"))
            continue
        body = step.window[body_at : body_at + int(row["bodyLength"])].tobytes()
        named, bad = named_by_op(place, int(mark["storeTimestamp"]), properties, body)
        found.append(named)
        wrong += bad
    return np.concatenate(found), wrong


def named_by_op(
    place: int, store_timestamp: int, properties: bytes, body: bytes
) -> tuple[Marks, list[Skipped]]:
    """The half messages (ENDED) that one op message names, and the values that name none."""
    if _REMOVE not in _PAIR_END + properties + _PAIR_END:
        return np.zeros(0, ENDED), [Skipped(place, "TAGS", "of an op message is not d")]
    offsets, bad = op_offsets(body)
    named = np.zeros(len(offsets), ENDED)
    named["halfOffset"], named["physicalOffset"] = offsets, place
    named["storeTimestamp"] = store_timestamp
    reason = f"of an op message: {bad} of its parts are no numbers"
    return named, [Skipped(place, "body", reason)] if bad else []


def op_offsets(body: bytes) -> tuple[npt.NDArray[np.int64], int]:
    """The queue offsets of half messages in an op message's body, each once, and how many parts
    of the body are no numbers.

    Up to 5.0.0 the body is one number, from 5.1.0 on several, each with a comma after it
    (TransactionalMessageServiceImpl.fillOpRemoveMap).
    """
    parts = body.split(b",")
    while parts and not parts[-1]:
        parts.pop()  # Java's split drops empty parts at the end
    numbers = [int(part) for part in parts if _LONG.fullmatch(part)]
    offsets = [number for number in numbers if 0 <= number < 1 << 63]
    return np.unique(np.array(offsets, np.int64)), len(parts) - len(numbers) or int(not parts)
