"""Which delayed messages and timers are due, in which order, and which stay.

ScheduleMessageService reads each level's queue in order and stops at the first message that is not
due. TimerMessageStore reads the slots of its wheel in the order of time; a slot is read once its
tick is over. The log (fate.delays), not the broker's files, shows what was delivered already: so a
message is delivered once, however often deliveries are planned.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from reput.store_format.fate.delays import Delayed, DelayState, Read
from reput.store_format.fate.gather import BAD_OUT, WHEEL, Gathered

_SKIPPED = (
    DelayState.NEVER,
    DelayState.UNSURE,
)  # a broker has gone past them, and no record is there


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
    """One message to be delivered."""

    physical_offset: int
    queue_offset: int  # in its level's queue, or the timer topic's
    due: int  # milliseconds
    level: int  # 0: a timer
    missed: bool


class Waiting(NamedTuple):
    """One message of rmq_sys_wheel_timer that stays in the wheel."""

    physical_offset: int
    out: int  # its TIMER_OUT_MS
    recalls: bool  # whether it recalls another message


class DeliveryPlan(NamedTuple):
    """What is to be done, and counts of the other messages found."""

    due: list[Due]  # in the order of delivery
    # By level: where its queue is read from afterwards, as (physical offset, queueOffset) of the
    # first message that stays; None: the queue's end. Only levels that deliver a message.
    levels: dict[int, tuple[int, int] | None]
    wheel: list[Waiting] | None  # in the log's order; None: the wheel delivers nothing
    wheel_last: int | None  # physical offset of the last message of rmq_sys_wheel_timer
    waiting: int  # neither due nor skipped
    skipped: int  # skipped by a broker, and not delivered here
    unsure: int  # those of `skipped` that may have been delivered: the log does not show it
    done: int  # delivered already, though a broker would deliver them again


def plan_delivery(
    gathered: Gathered, found: Iterable[Delayed], delays: Mapping[int, int], read: Read,
    until: Until,
) -> DeliveryPlan:  # fmt: skip
    """The plan for the delayed messages that `fate.delays.resolve` found in the gathered marks.

    delays: each level's delay in milliseconds. read: how far the broker has read.
    """
    due: list[Due] = []
    levels: dict[int, tuple[int, int] | None] = {}
    last: dict[int, int] = {}  # by level: the latest due time so far, as a queue is read in order
    wheel: list[Waiting] = []
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
                wheel.append(Waiting(place, each.due, False))
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
    if turns:
        wheel += _recalls(gathered, read, until)
        wheel.sort()
    return DeliveryPlan(
        due, moved, wheel if turns else None, _last_of_wheel(gathered), waiting, skipped, unsure,
        done,
    )  # fmt: skip


def _corrected(due: int, delay: int, now: int) -> int:
    """DeliverDelayedMessageTimerTask.correctDeliverTimestamp: a due time later than the level's
    delay allows, as after a change of messageDelayLevel, counts as now.
    """
    return now if due > now + delay else due


def _last_of_wheel(gathered: Gathered) -> int | None:
    marks = gathered.marks
    places = marks["physicalOffset"][(marks["kind"] == WHEEL) & (marks["queueId"] == 0)]
    return int(places[-1]) if len(places) else None


def _recalls(gathered: Gathered, read: Read, until: Until) -> list[Waiting]:
    """The messages that recall timers which are not due yet."""
    marks = gathered.marks
    mine = (marks["kind"] == WHEEL) & (marks["deletes"] != 0) & (marks["flaws"] & BAD_OUT == 0)
    mine &= marks["out"] >= max(until.read_to, read.timer_read)
    places = marks["physicalOffset"][np.flatnonzero(mine)].tolist()
    outs = marks["out"][np.flatnonzero(mine)].tolist()
    return [Waiting(place, out, True) for place, out in zip(places, outs, strict=True)]
