"""One message's life: each record that the log has of it, and what that record says.

A message is followed by its UNIQ_KEY, which delays, retries, dead letters and transactions keep;
one without a UNIQ_KEY by ORIGIN_MESSAGE_ID, which a retry has. Op messages are followed by the
queue offsets that they name.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derive.queue_table import RETRY_PREFIX
from reput.store_format.fate import delays, transactions
from reput.store_format.fate.delays import Read
from reput.store_format.fate.gather import Gathered, Marks, Told, gather
from reput.store_format.fate.marks import (
    DISCARDED,
    HALF,
    OP,
    OTHER,
    SCHEDULE,
    WHEEL,
    hash_text,
)
from reput.store_format.layouts import (
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_PREPARED,
    SYS_TRANSACTION_ROLLBACK,
)
from reput.store_format.log.reader import LogReader, Record
from reput.store_format.message.property_text import parse_properties

_RETRY = RETRY_PREFIX.tobytes().decode()
_DLQ_PREFIX = "%DLQ%"  # MixAll.DLQ_GROUP_TOPIC_PREFIX


class Event(NamedTuple):
    """One step of a message's life, and the record that tells it. Times in milliseconds."""

    event: str  # see docs/fate.md
    store_timestamp: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    real_topic: str | None  # where it is to be: of one that waits, or is a half message
    real_queue_id: str | None
    due: int | None
    level: int | None
    reconsume_times: int
    checks: int | None
    state: str | None  # how a wait or a transaction that began here has ended


class Followed(NamedTuple):
    """What is looked for: texts, and their hashes."""

    unique_key: str
    origin_id: str  # hex in capitals, as clients and brokers write it; "" for none


def trace(
    log: LogReader, followed: Followed, split: bool, delay_levels: tuple[int, ...], read: Read,
    half_position: int, stop: int | None = None, told: Told | None = None,
) -> list[Event]:  # fmt: skip
    """The steps of a message's life in the log's order; none where the log does not have it.

    Holds the records' marks, and what op messages name after its first half message. Raises
    NoRecord.
    """
    looked_for = _Marks(followed)
    gathered = gather(log, looked_for, split, stop, every=True, told=told)
    return events(log, gathered, followed, split, delay_levels, read, half_position)


class _Marks:
    """Which marks may be of the message; op messages count once it has been a half message."""

    def __init__(self, followed: Followed) -> None:
        self._key = np.uint64(hash_text(followed.unique_key.encode()))
        self._origin = np.uint64(hash_text(followed.origin_id.encode()))
        self._half = False

    def __call__(self, marks: Marks) -> npt.NDArray[np.bool_]:
        own: npt.NDArray[np.bool_] = np.zeros(len(marks), np.bool_)
        if self._key:
            own |= marks["key"] == self._key
        if self._origin:
            own |= marks["origin"] == self._origin
        self._half = self._half or bool(np.any(own & (marks["kind"] == HALF)))
        if self._half:
            own |= marks["kind"] == OP
        return own


def events(
    log: LogReader, gathered: Gathered, followed: Followed, split: bool,
    delay_levels: tuple[int, ...], read: Read, half_position: int,
) -> list[Event]:  # fmt: skip
    """The steps that the marks of one message tell; the records are read again, one by one."""
    marks, records = gathered.marks, {}
    for i, mark in enumerate(marks):
        if mark["kind"] != OP:
            record = log.record_at(int(mark["physicalOffset"]))
            properties = parse_properties(record.properties, split)
            if _is_of(followed, properties):
                records[i] = record, properties
    half = {int(marks["queueOffset"][i]) for i in records if marks["kind"][i] == HALF}
    named = gathered.ended[np.isin(gathered.ended["halfOffset"], list(half))]
    ops = np.isin(marks["physicalOffset"], named["physicalOffset"])
    chosen = np.array([i in records or bool(ops[i]) for i in range(len(marks))], np.bool_)
    own = gathered._replace(marks=marks[chosen], ended=named)
    states: dict[int, str] = {}
    for transaction in transactions.resolve(own, half_position):
        states[transaction.first] = transaction.state
    for delayed in delays.resolve(own, delay_levels, read):
        states[delayed.physical_offset] = delayed.state
    found: list[Event] = []
    waiting: dict[int, deque[int]] = {}
    for i in np.flatnonzero(chosen).tolist():
        mark = marks[i]
        if i in records:
            record, properties = records[i]
            found += _events(mark, record, properties, waiting, delay_levels, states)
        elif mark["kind"] == OP:
            record = log.record_at(int(mark["physicalOffset"]))
            found.append(_event("op", record, {}, None, None, None, None))
    return found


def _is_of(followed: Followed, properties: dict[str, str]) -> bool:
    if followed.unique_key:
        return properties.get("UNIQ_KEY") == followed.unique_key
    return properties.get("ORIGIN_MESSAGE_ID") == followed.origin_id


def _events(
    mark: Any, record: Record, properties: dict[str, str], waiting: dict[int, deque[int]],
    delay_levels: tuple[int, ...], states: dict[int, str],
) -> list[Event]:  # fmt: skip
    kind, home = int(mark["kind"]), int(mark["home"])
    state = states.get(record.physical_offset)
    level = due = checks = None
    names = []
    if record.transaction == SYS_TRANSACTION_ROLLBACK:
        names.append("rolled back")
    elif record.transaction == SYS_TRANSACTION_PREPARED:
        names.append("half")
    elif record.transaction == SYS_TRANSACTION_COMMIT and not waiting.get(home):
        names.append("committed")
    if kind == HALF:
        checks = int(mark["checks"])
        names.append("checked" if checks else "half")
    elif kind == DISCARDED:
        checks = int(mark["checks"])
        names.append("discarded")
    elif kind == SCHEDULE:
        level = record.queue_id + 1
        if 0 < level <= len(delay_levels):
            due = record.store_timestamp + delay_levels[level - 1]
        names.append("delayed")
        waiting.setdefault(home, deque()).append(record.physical_offset)
    elif kind == WHEEL:
        due = int(mark["out"])
        names.append("rolled" if mark["rolled"] else "timed")
        if mark["deletes"]:
            names = ["recalled"]
        elif not (mark["rolled"] and waiting.get(home)):
            waiting.setdefault(home, deque()).append(record.physical_offset)
    elif kind == OTHER and not names:
        names.append(_at_home(record, waiting.get(home)))
    if waiting.get(home) and kind == OTHER:
        waiting[home].popleft()
    return [_event(name, record, properties, level, due, checks, state) for name in names]


def _at_home(record: Record, waiting: deque[int] | None) -> str:
    """What a record in a topic that is none of the broker's own services tells."""
    if record.topic.startswith(_RETRY):
        return "retried"
    if record.topic.startswith(_DLQ_PREFIX):
        return "dead-lettered"
    return "delivered" if waiting else "put"


def _event(
    name: str, record: Record, properties: dict[str, str], level: int | None, due: int | None,
    checks: int | None, state: str | None,
) -> Event:  # fmt: skip
    waits = level is not None or due is not None or checks is not None
    return Event(
        name, record.store_timestamp, record.topic, record.queue_id, record.queue_offset,
        record.physical_offset, properties.get("REAL_TOPIC") if waits else None,
        properties.get("REAL_QID") if waits else None, due, level, record.reconsume_times, checks,
        state,
    )  # fmt: skip
