"""Delivers what is due, as ScheduleMessageService and TimerMessageStore put it.

The messages are put first, then made durable. Only then the broker's own files are changed
(config/delayOffset.json, timerlog and timercheck). After a kill in between, the next run finds in
the log what was delivered, and goes on there (services.due_messages).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from reput.broker.services.broker_json import integer_key, read_offsets, write_json
from reput.broker.services.due_messages import DeliveryPlan, Due, Until, Waiting
from reput.broker.services.timer_log import (
    UNIT_FILE_LEAST,
    InWheel,
    Turned,
    check_can_replace,
    replace_timer_files,
    units_of,
)
from reput.broker.writer.copies import properties_of, put_again, stored_at, text_of
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.fate.known import timer_log_names, write_times
from reput.store_format.faults import StoreError
from reput.store_format.java import hash_text
from reput.store_format.log.record import Record
from reput.store_format.message.message import HALF_TOPIC, QUEUE_ID_MAX, SCHEDULE_TOPIC, TIMER_TOPIC
from reput.store_format.message.refusals import FieldRange, Refused, Unavailable
from reput.store_format.names import CONFIG
from reput.store_format.query.reader import OpenedStore

DELAY_OFFSETS = f"{CONFIG}/delayOffset.json"
_NEVER_IN_WHEEL = (1 << 63) - 1  # Long.MAX_VALUE: TIMER_ENQUEUE_MS of what was due at once


class Delivered(NamedTuple):
    """What was done."""

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
        check_can_replace(writer.store.files)
    timers = [each.physical_offset for each in plan.due if each.level == 0]
    timers += [each.physical_offset for each in plan.wheel or ()]
    written = write_times(store.storage, store.path, np.array(timers, np.int64))
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
    if plan.wheel is not None and plan.wheel_last is not None:
        waits = [*plan.wheel, *_still_waiting(left)]
        _tell_wheel(writer, store, sorted(waits), plan.wheel_last, written, until, read_before)
    return Delivered(counts[0], counts[1], counts[2], refused)


class Discarded(Refused):
    """A message that no broker ever delivers (ScheduleMessageService.executeOnTimeUp)."""


def _still_waiting(left: Sequence[Due]) -> list[Waiting]:
    return [
        Waiting(each.physical_offset, each.due, False)
        for each in left
        if each.level == 0 and not each.missed
    ]


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
        raise FieldRange(f"REAL_QID: 0 to {QUEUE_ID_MAX} is wanted")
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
    whole["offsetTable"] = {integer_key(level): table[level] for level in sorted(table)}
    write_json(writer.store.files, DELAY_OFFSETS, whole, writer.profile)


def _level_offsets(writer: CommitLogWriter) -> tuple[dict[str, Any], dict[int, Any]]:
    """The JSON object of config/delayOffset.json, and its offsets by level. Raises StoreError."""
    whole, table = read_offsets(writer.store.files, DELAY_OFFSETS)
    try:
        return whole, {int(key.removeprefix(integer_key(""))): at for key, at in table.items()}
    except ValueError:
        raise StoreError(
            f"{DELAY_OFFSETS}: offsetTable: a key is no delay level; it is left as it is"
        ) from None


def _tell_wheel(
    writer: CommitLogWriter, store: OpenedStore, waits: Sequence[Waiting], last: int,
    written: dict[int, int], until: Until, read_before: int,
) -> None:  # fmt: skip
    """Write timerlog anew with the messages that still wait, and timercheck."""

    def in_wheel(place: int, out: int, recalls: bool) -> InWheel:
        record = store.log.record_at(place)
        topic = properties_of(writer, record).get("REAL_TOPIC", "")
        return InWheel(place, record.size, out, recalls, hash_text(topic), written.get(place))

    turned = Turned(
        max(until.read_to, read_before), read_before,
        writer.store.positions().get((TIMER_TOPIC, 0), 0), until.now, until.precision,
    )  # fmt: skip
    units = units_of([in_wheel(*each) for each in waits], in_wheel(last, 0, False), turned)
    lengths = [length for _, length in timer_log_names(store.storage, store.path)]
    lengths = [length for length in lengths if length >= UNIT_FILE_LEAST]
    file_bytes = lengths[0] if lengths else writer.settings.mapped_file_size_timer_log
    replace_timer_files(writer.store.files, units, file_bytes, turned)
