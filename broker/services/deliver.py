"""Which delayed messages and timers are due, and their delivery as ScheduleMessageService and
TimerMessageStore put them.

The messages are put first, then made durable. Only then the broker's own files are changed
(config/delayOffset.json, timerlog and timercheck). After a kill in between, the next run finds in
the log what was delivered, and goes on there (`plan_delivery`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from reput.broker.services import files
from reput.broker.writer.copies import properties_of, put_again, stored_at, text_of
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.fate.delays import Delayed, DelayState
from reput.store_format.fate.gather import Gathered, Marks
from reput.store_format.fate.known import write_times
from reput.store_format.faults import StoreError
from reput.store_format.log.record import Record
from reput.store_format.message.message import HALF_TOPIC, QUEUE_ID_MAX, SCHEDULE_TOPIC, TIMER_TOPIC
from reput.store_format.message.refusals import FieldRange, Refused, Unavailable
from reput.store_format.query.reader import OpenedStore
from reput.store_format.state.timers import (
    DELAYS_PATH,
    Timers,
    Turned,
    that_stay,
    timer_file_bytes,
    timers_of,
    units_of,
)

# ---
# Which delayed messages and timers are due, in which order, and which stay.
#
# ScheduleMessageService reads each level's queue in order and stops at the first message that is
# not due. TimerMessageStore reads the slots of its wheel in the order of time; a slot is read once
# its tick is over. The log (fate.delays), not the broker's files, shows what was delivered already:
# so a message is delivered once, however often deliveries are planned.

# a broker has gone past these, and no record is there
_SKIPPED = (DelayState.NEVER, DelayState.UNSURE)


class Until(NamedTuple):
    """Which messages are to be delivered. Times in milliseconds since 1970."""

    time: int  # messages that were due at this time
    now: int  # the clock of the broker that would deliver
    missed: bool  # also messages that a broker has skipped
    precision: int  # timerPrecisionMs

    @property
    def tick(self) -> int:
        """The first slot of the wheel that has not been read at `time`."""
        return self.time - self.time % self.precision

    @property
    def read_to(self) -> int:
        """The time up to which a broker may take the wheel as read: never beyond its clock."""
        return min(self.tick, self.now - self.now % self.precision)


class Due(NamedTuple):
    physical_offset: int
    queue_offset: int  # in its level's queue, or the timer topic's
    due: int  # milliseconds
    level: int  # 0: a timer
    missed: bool


class DeliveryPlan(NamedTuple):
    """What is to be done, and counts of the other messages found."""

    due: list[Due]  # in the order of delivery
    # By level: where its queue is read from afterwards, as (physical offset, queueOffset) of the
    # first message that stays; None: the queue's end. Only levels that deliver a message.
    levels: dict[int, tuple[int, int] | None]
    timers: Marks  # of rmq_sys_wheel_timer, in the log's order
    wheel: list[int] | None  # physical offsets of those that wait; None: the wheel delivers nothing
    waiting: int  # neither due nor skipped
    skipped: int  # skipped by a broker, and not delivered here
    unsure: int  # those of `skipped` that may have been delivered: the log does not show it
    done: int  # delivered already, though a broker would deliver them again


def plan_delivery(
    gathered: Gathered, found: Iterable[Delayed], delays: Mapping[int, int], until: Until
) -> DeliveryPlan:
    """The plan for the delayed messages that `fate.delays.resolve` found in the gathered marks.

    delays: each level's delay in milliseconds.
    """
    due: list[Due] = []
    levels: dict[int, tuple[int, int] | None] = {}
    last: dict[int, int] = {}  # by level: the latest due time so far, as a queue is read in order
    wheel: list[int] = []
    waiting = skipped = unsure = done = 0
    turns = False  # whether the wheel has messages that are or were delivered
    for each in found:
        place, level = each.physical_offset, each.level
        if each.state in _SKIPPED:
            if until.missed and each.state == DelayState.NEVER:
                due.append(Due(place, each.queue_offset, each.due, level, True))
            else:
                skipped += 1
                unsure += each.state == DelayState.UNSURE
            continue
        if each.state in (DelayState.DELIVERED, DelayState.DELETED):
            continue
        over = each.state == DelayState.REPEATED
        done += over
        if level == 0:
            if over or each.due < until.tick:
                turns = True
                if not over and not each.recalled:
                    due.append(Due(place, each.queue_offset, each.due, 0, False))
            else:
                waiting += 1
                wheel.append(place)
        elif levels.get(level) is not None or not (
            over or _corrected(each.due, delays[level], until.now) <= until.time
        ):
            waiting += 1
            if levels.get(level) is None:
                levels[level] = (place, each.queue_offset)
        else:
            levels.setdefault(level, None)
            last[level] = max(each.due, last.get(level, each.due))
            if not over:
                due.append(Due(place, each.queue_offset, last[level], level, False))
    # levels without a delivered message stay as they are
    moved = {level: levels[level] for level in last}
    due.sort(key=lambda each: (not each.missed, each.due, each.physical_offset))
    return DeliveryPlan(
        due, moved, timers_of(gathered), wheel if turns else None, waiting, skipped, unsure, done
    )


def _corrected(due: int, delay: int, now: int) -> int:
    """DeliverDelayedMessageTimerTask.correctDeliverTimestamp: a due time later than the level's
    delay allows, as after a change of messageDelayLevel, counts as now.
    """
    return now if due > now + delay else due


_NEVER_IN_WHEEL = (1 << 63) - 1  # Long.MAX_VALUE: TIMER_ENQUEUE_MS of what was due at once


class Delivered(NamedTuple):
    levels: int  # messages of delay levels
    timers: int
    missed: int  # messages of either kind that a broker had skipped
    refused: list[str]  # for each message that could not be put: where it is, and why


def deliver(
    writer: CommitLogWriter, store: OpenedStore, plan: DeliveryPlan, until: Until, read_before: int,
    go_on: Callable[[], bool],
) -> Delivered:  # fmt: skip
    """Deliver as planned, and note it in the broker's files.

    store: the writer's, open for reading. read_before: the old lastReadTimeMs. go_on: called after
    each message; False ends the delivery, and the files note how far it came. A refused message
    stays where it is, and its level's queue stops there, as a broker's does. Raises StoreError
    (WriterFailed), OSError.
    """
    # a file that cannot be written at the end is to be found before anything is put
    _level_offsets(writer)
    if plan.wheel is not None:
        files.check_can_replace(writer.store.files)
    written = write_times(store.folder, plan.timers["physicalOffset"])
    stays, counts = dict(plan.levels), [0, 0, 0]
    held: set[int] = set()  # levels whose queue stops at a message that was refused
    refused: list[str] = []
    left: list[Due] = []
    stopped = False
    for each in plan.due:
        if stopped or each.level in held:
            left.append(each)
            continue
        record = stored_at(store.log, each.physical_offset)
        try:
            _put(writer, record, written.get(each.physical_offset), until, each.level == 0)
        except Unavailable as error:
            refused.append(f"physical {each.physical_offset}: {error} ({error.status})")
            stopped = True
            left.append(each)
            continue
        except Refused as error:
            where = "timer" if each.level == 0 else f"level {each.level}"
            refused.append(
                f"physical {each.physical_offset} ({where}): {error} ({type(error).__name__})"
            )
            if each.level and not each.missed and not isinstance(error, Discarded):
                held.add(each.level)
                left.append(each)
            continue
        counts[2 if each.missed else 0 if each.level else 1] += 1
        stopped = not go_on()
    for each in reversed(left):  # so that each level keeps its first message
        if each.level and not each.missed:
            stays[each.level] = (each.physical_offset, each.queue_offset)
    writer.flush()
    writer.dispatch()
    _tell_levels(writer, stays)
    if plan.wheel is not None:
        timers = [each.physical_offset for each in left if each.level == 0 and not each.missed]
        waits = [*plan.wheel, *timers]
        stay = that_stay(plan.timers, waits, max(until.read_to, read_before))
        turned = Turned(
            max(until.read_to, read_before), read_before,
            writer.store.positions().get((TIMER_TOPIC, 0), 0), until.now, until.precision,
        )  # fmt: skip
        units = units_of(stay, plan.timers[-1:], written, turned)
        least = writer.settings.mapped_file_size_timer_log
        size = timer_file_bytes(store.folder, least)
        files.replace_timer_files(writer.store.files, Timers(units, turned, len(waits)), size)
    return Delivered(counts[0], counts[1], counts[2], refused)


class Discarded(Refused):
    """A message that no broker ever delivers (ScheduleMessageService.executeOnTimeUp)."""


def _put(
    writer: CommitLogWriter, record: Record, written: int | None, until: Until, timer: bool
) -> None:
    """Put one message into its real queue. Raises Refused.

    DELAY, REAL_TOPIC and the like stay in the properties: the broker makes the text before it
    clears them (ScheduleMessageService.messageTimeUp, TimerMessageStore.convertMessage).
    """
    properties = properties_of(writer, record)
    if timer:
        properties["TIMER_ENQUEUE_MS"] = str(_NEVER_IN_WHEEL if written is None else written)
        properties["TIMER_DEQUEUE_MS"] = str(until.now)
    topic = properties["REAL_TOPIC"]
    if topic == HALF_TOPIC:
        raise Discarded("REAL_TOPIC is the topic of half messages")
    queue_id = int(properties["REAL_QID"])
    if not 0 <= queue_id <= QUEUE_ID_MAX:
        raise FieldRange(f"REAL_QID: expected 0 to {QUEUE_ID_MAX}")
    put_again(writer, record, topic, queue_id, text_of(writer, properties), record.transaction)


def _tell_levels(writer: CommitLogWriter, stays: dict[int, tuple[int, int] | None]) -> None:
    """Write config/delayOffset.json, if a level has moved."""
    if not stays:
        return
    whole, table = _level_offsets(writer)
    ends = writer.store.positions()
    for level, first in stays.items():
        end = ends.get((SCHEDULE_TOPIC, level - 1), 0)
        table[level] = end if first is None else first[1]
    whole["offsetTable"] = {files.integer_key(level): table[level] for level in sorted(table)}
    files.write_json(writer.store.files, DELAYS_PATH, whole, writer.profile)


def _level_offsets(writer: CommitLogWriter) -> tuple[dict[str, Any], dict[int, Any]]:
    """The JSON object of config/delayOffset.json, and its offsets by level. Raises StoreError."""
    whole, table = files.read_offsets(writer.store.files, DELAYS_PATH)
    try:
        return whole, {
            int(key.removeprefix(files.integer_key(""))): at for key, at in table.items()
        }
    except ValueError:
        raise StoreError(
            f"{DELAYS_PATH}: offsetTable: a key is not a delay level; it is left as it is"
        ) from None
