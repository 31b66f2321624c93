"""What became of delayed messages: those of the delay levels, and those of the timer wheel.

A delayed message waits in SCHEDULE_TOPIC_XXXX, in the queue of its level, until the broker appends
it to its real queue (ScheduleMessageService). The broker has read each level's queue up to the
offset in config/delayOffset.json. 5.0.0 to 5.3.2 skip a message whose delivery fails (#9248), and
every release skips a message that cannot be delivered. Only the missing delivered record shows it.

A timer message stands in rmq_sys_wheel_timer (TimerMessageStore). The broker has read that queue
up to config/timercheck's lastTimerQueueOffset, and has delivered what was due before its
lastReadTimeMs. A message due only in some days is put back into the topic now and then (a roll).
With timerRocksDBEnable (5.4.0) RocksDB has both, and a row of each waiting message (Timeline).

A delivered record has the topic, queue id, UNIQ_KEY, bornTimestamp and reconsumeTimes that the
waiting message was to get (a mark's `home`). If several have the same `home`, the oldest is the
delivered one.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.discover.delay_levels import LevelDelays
from reput.store_format.fate import gather
from reput.store_format.fate.transactions import concerns as of_transactions
from reput.store_format.rocksdb.rows import Timers

# For this long after a message was due its delivery may be on its way.
_ON_ITS_WAY_MS = 10_000
_UNDELIVERABLE = gather.BAD_REAL_QID | gather.NO_REAL_TOPIC | gather.BAD_OUT


class DelayState(StrEnum):
    """How a delayed message stands where the log ends."""

    WAITING = "waiting"
    LATE = "late"  # due before the log's last record, and not yet read by the broker
    DELIVERED = "delivered"
    REPEATED = "delivered, will be again"  # the broker's offset was not saved after the delivery
    DELETED = "deleted"  # a timer message that a producer recalled (TIMER_DEL_UNIQKEY)
    NEVER = "never delivered"  # the broker has gone past it
    # As NEVER, but the log ends about when it was due, or damage follows the message: the delivered
    # record may be lost, or was not yet there when a running broker's store was copied.
    UNSURE = "not delivered in this log"


STATES = tuple(DelayState)
WAITING, LATE, DELIVERED, REPEATED, DELETED, NEVER, UNSURE = range(len(STATES))


class Delayed(NamedTuple):
    """One delayed message by its place in the log."""

    state: DelayState
    physical_offset: int
    level: int  # 0: of the timer wheel
    queue_offset: int
    due: int  # milliseconds
    delivery: int  # physical offset of the delivered record, NONE without one
    recalled: bool = False  # a timer that a producer has recalled, due or not


# The same as a row; state: its number in STATES.
DELAYED = np.dtype(
    [
        ("state", "u1"), ("physicalOffset", "<i8"), ("level", "<i8"), ("queueOffset", "<i8"),
        ("due", "<i8"), ("delivery", "<i8"), ("recalled", "?"),
    ]
)  # fmt: skip


class Read(NamedTuple):
    """How far a broker has gone, by its own files. None: there is no such file."""

    levels: Mapping[int, int] | None  # delayOffset.json: by level the next queue offset
    timer_position: int | None  # timercheck's lastTimerQueueOffset
    timer_read: int  # timercheck's lastReadTimeMs
    stopped: bool  # there is no file `abort`: what is in these files belongs to this log's end
    # Which messages, by physical offsets, are in slots of the wheel that are still to be read.
    # None: not known; then all messages that are due at timer_read or later count as being there.
    in_wheel: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]] | None = None
    timers: Timers | None = None  # of a broker that keeps them in RocksDB


def concerns(marks: gather.Marks) -> npt.NDArray[np.bool_]:
    """Which marks are of delayed messages and of deliveries."""
    waits = _waits(marks)
    waits |= (marks["kind"] == gather.OTHER) & (marks["sentOn"] == 1)
    return waits


def any_fate(marks: gather.Marks) -> npt.NDArray[np.bool_]:
    """Which marks are of delayed messages, of deliveries or of transactions."""
    return concerns(marks) | of_transactions(marks)


def resolve(gathered: gather.Gathered, delays: Mapping[int, int], read: Read) -> Iterator[Delayed]:
    """All delayed messages that the log has and a broker can deliver, by their places.

    delays: each level's milliseconds. Holds what was gathered, and some numbers a message.
    """
    for state, *numbers in judged(gathered, delays, read).tolist():
        yield Delayed(STATES[state], *numbers)


def judged(gathered: gather.Gathered, delays: Mapping[int, int], read: Read) -> npt.NDArray[Any]:
    """What `resolve` gives, as rows (DELAYED)."""
    marks, last = gathered.marks, gathered.last_timestamp
    waits = _waits(marks)
    deletes = waits & (marks["deletes"] != 0)
    asks = marks[deletes]
    marks = marks[~(deletes | waits & (marks["flaws"] & _UNDELIVERABLE != 0))]
    deliveries, superseded = _deliveries(marks)
    levels = np.where(marks["kind"] == gather.WHEEL, 0, marks["queueId"].astype(np.int64) + 1)
    chosen = _waits(marks) & ~superseded
    chosen &= (marks["kind"] == gather.WHEEL) | np.isin(levels, list(delays))
    marks, found = marks[chosen], np.zeros(np.count_nonzero(chosen), DELAYED)
    for name in ("physicalOffset", "queueOffset"):
        found[name] = marks[name]
    found["level"], found["delivery"], found["due"] = (
        levels[chosen], deliveries[chosen], marks["out"]
    )  # fmt: skip
    level, due, delivered = found["level"], found["due"], found["delivery"] != gather.NONE
    passed = _timers_passed(read, found, delivered)
    for each in np.unique(level[level > 0]).tolist():
        mine = np.flatnonzero(level == each)
        places = marks["physicalOffset"][mine]
        delay = delays.at(each, places) if isinstance(delays, LevelDelays) else delays[each]
        due[mine] = marks["storeTimestamp"][mine] + delay
        passed[mine] = found["queueOffset"][mine] < (read.levels or {}).get(each, 0)
    sure = marks["physicalOffset"] >= gathered.unread_to
    sure &= read.stopped | (due < last - _ON_ITS_WAY_MS)
    recalled = found["recalled"] = (level == 0) & ~delivered & _recalled(marks, asks)
    found["state"] = np.select(
        [delivered & passed, delivered, recalled & passed, passed & sure, passed, due < last],
        [DELIVERED, REPEATED, DELETED, NEVER, UNSURE, LATE], WAITING,
    )  # fmt: skip
    return found


def _timers_passed(
    read: Read, found: npt.NDArray[Any], delivered: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether a broker has nothing more to do with a timer message, by RocksDB or by its wheel.

    A broker that begins with RocksDB reads the topic from where its wheel was
    (TimerMessageRocksDBStore.start). Rows of levels get any answer.
    """
    places, offsets, from_ = found["physicalOffset"], found["queueOffset"], read.timer_position or 0
    passed: npt.NDArray[np.bool_] = (found["due"] < read.timer_read) & (offsets < from_)
    if read.in_wheel is not None:
        # one delivered before its time is taken out of the wheel (`reput deliver-delayed`)
        passed |= delivered & (offsets < from_)
        asked = np.flatnonzero(passed & (found["level"] == 0))
        passed[asked] &= ~read.in_wheel(places[asked]) if len(asked) else True
    if read.timers is not None:
        passed |= (from_ <= offsets) & (offsets < read.timers.position)
        passed &= ~read.timers.waits(places)
    return passed


def unread(gathered: gather.Gathered, delays: Mapping[int, int]) -> list[gather.Skipped]:
    """Messages in queues of the schedule topic that are no level's, which brokers do not read."""
    marks = gathered.marks
    level = marks["queueId"].astype(np.int64) + 1
    wrong = (marks["kind"] == gather.SCHEDULE) & ~np.isin(level, list(delays))
    reason = f"is none of the {len(delays)} levels of messageDelayLevel: brokers do not read it"
    return [
        gather.Skipped(int(mark["physicalOffset"]), "queueId", reason)
        for mark in marks[wrong][: gather.SKIPPED_MOST]
    ]


def _waits(marks: gather.Marks) -> npt.NDArray[np.bool_]:
    waits: npt.NDArray[np.bool_] = (marks["kind"] == gather.SCHEDULE) | (
        marks["kind"] == gather.WHEEL
    )
    return waits


def _recalled(marks: gather.Marks, asks: gather.Marks) -> npt.NDArray[np.bool_]:
    """Which messages of the timer wheel were recalled.

    The message that recalls it names its UNIQ_KEY, from 5.3.2 on with the topic before it, and is
    due at the same time (TimerMessageStore.buildDeleteKey).
    """
    found = np.zeros(len(marks), np.bool_)
    if len(asks):
        asked = set(asks[["deletes", "out"]].tolist())
        for name in ("key", "deletedBy"):
            some = np.flatnonzero((marks["key"] != 0) & np.isin(marks[name], asks["deletes"]))
            pairs = marks[some][[name, "out"]].tolist()
            found[some] |= np.fromiter((each in asked for each in pairs), np.bool_, len(some))
    return found


def _deliveries(marks: gather.Marks) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For each mark the place of its delivered record, or NONE; and whether the message was put
    back into the timer topic, so that a later mark stands for it.
    """
    found = np.full(len(marks), gather.NONE, np.int64)
    superseded = np.zeros(len(marks), np.bool_)
    if not len(marks):
        return found, superseded
    order = np.lexsort((marks["physicalOffset"], marks["home"]))
    homes, delivered = marks["home"][order], ~_waits(marks)[order]
    starts = np.flatnonzero(np.append(True, homes[1:] != homes[:-1]))
    stops = np.append(starts[1:], len(homes))
    # Nearly all groups are a pair: a message that waited, and its delivery.
    two = stops - starts == 2
    pairs = starts[two][~delivered[starts[two]] & delivered[starts[two] + 1]]
    found[order[pairs]] = marks["physicalOffset"][order[pairs + 1]]
    more = (stops - starts > 1) & ~np.isin(starts, pairs)
    for start, stop in zip(starts[more].tolist(), stops[more].tolist(), strict=True):
        waiting: deque[int] = deque()
        for i in order[start:stop].tolist():
            if marks["kind"][i] == gather.OTHER:
                if waiting:
                    found[waiting.popleft()] = marks["physicalOffset"][i]
                continue
            if marks["rolled"][i] and waiting:
                superseded[waiting.popleft()] = True
            waiting.append(i)
    return found, superseded
