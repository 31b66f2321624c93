"""What the log decides of a broker's timers: timerlog, config/timercheck, config/delayOffset.json.

A broker that starts makes the wheel from its file and from the units of timerlog. It reads the
wheel from lastReadTimeMs on, and rmq_sys_wheel_timer from after the message of the last unit
(TimerMessageStore.recover, reviseQueueOffset). So a timerlog with one unit for each message that
still waits, no file of the wheel, and a timercheck have it deliver each of them once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.fate.delays import DelayState, Read, concerns, resolve
from reput.store_format.fate.gather import BAD_OUT, NONE, OTHER, SCHEDULE, WHEEL, Gathered, Marks
from reput.store_format.fate.known import (
    Places,
    Units,
    furthest_unit,
    gather_since,
    last_timestamp,
    read_timer_check,
    timer_log_names,
    timer_units,
)
from reput.store_format.files.folder import Folder
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.message.message import SCHEDULE_TOPIC
from reput.store_format.names import (
    CONFIG,
    DELAY_OFFSETS,
    TIMER_CHECK_FILE,
    TIMER_LOG,
    is_wheel,
    segment_name,
)
from reput.store_format.query.by_key import index_places
from reput.store_format.query.reader import OpenedStore, StoredMessage
from reput.store_format.rocksdb.database import RocksDBError

TIMER_CHECK_PATH = f"{CONFIG}/{TIMER_CHECK_FILE}"
DELAYS_PATH = f"{CONFIG}/{DELAY_OFFSETS}"
# bytes of a file for one unit
_UNIT_FILE_LEAST = layouts.TIMER_UNIT.itemsize + layouts.TIMER_BLANK_BYTES
# timerRollWindowSlot: a message due in more ticks is put back into the topic before that.
_ROLL_SLOTS = 2 * 24 * 3600
_DELAY_MAX = 0x7FFFFFFF  # a unit's delay is an int
_OUT_MAX = 1 << 62  # a message due later is rolled in any case
_UNIT = layouts.TIMER_UNIT.itemsize
Ends = Mapping[tuple[str, int], int]  # (topic, queue id) -> the log's next position there
_DAY_MS = 24 * 3600 * 1000

# ---
# The units of messages that wait, and the files of timerlog.


class Turned(NamedTuple):
    """How far the wheel was read, where a broker goes on. Times in milliseconds."""

    read_time: int  # lastReadTimeMs
    before: int  # the old lastReadTimeMs
    queue_offset: int  # of the next message of rmq_sys_wheel_timer
    now: int
    precision: int  # timerPrecisionMs


def timers_of(gathered: Gathered) -> Marks:
    """The marks of rmq_sys_wheel_timer, in the log's order."""
    marks = gathered.marks
    mine: Marks = marks[(marks["kind"] == WHEEL) & (marks["queueId"] == 0)]
    return mine


def that_stay(timers: Marks, waiting: Iterable[int], since: int) -> Marks:
    """Of the topic's marks those at physical offsets `waiting`, and those that recall a timer due
    at `since` (milliseconds) or later.
    """
    places = np.fromiter(waiting, np.int64)
    recalls = (timers["deletes"] != 0) & (timers["flaws"] & BAD_OUT == 0)
    stay: Marks = timers[
        np.isin(timers["physicalOffset"], places) | recalls & (timers["out"] >= since)
    ]
    return stay


def units_of(waiting: Marks, last: Marks, written: Mapping[int, int], turned: Turned) -> Units:
    """The units of the marks of all messages that wait, in their order; `previous` is not yet set.

    last: the topic's last mark (an array of one). It gets the last unit, by which a broker knows
    where to go on; if it does not wait itself, in a slot that has been read. written: when messages
    were put into the wheel, by physical offset. (TimerMessageStore.doEnqueue)
    """
    ticks = turned.now - turned.now % turned.precision
    window = _ROLL_SLOTS * turned.precision
    ahead = np.clip(waiting["out"], 0, _OUT_MAX) - ticks
    rolls = ahead >= window
    # enough time is left for the next roll
    rolled = np.where(ahead - window < window // 3, window // 2, window)
    slot = np.maximum(ticks + np.where(rolls, rolled, ahead), turned.read_time)
    write = np.array(
        [written.get(place, ticks) for place in waiting["physicalOffset"].tolist()], np.int64
    )
    # the message was due long ago but is not delivered yet, or a later clock read the wheel
    odd = (slot < write) | (slot - write > _DELAY_MAX)
    write[odd] = np.maximum(np.minimum(ticks, slot), slot - _DELAY_MAX)[odd]
    units = np.zeros(len(waiting) + 1, layouts.TIMER_UNIT)
    units["magic"], units["size"] = layouts.TIMER_DEFAULT, _UNIT
    for name, mark in (
        ("physicalOffset", "physicalOffset"), ("messageSize", "size"), ("topicHash", "topicHash"),
    ):  # fmt: skip
        units[name] = np.concatenate([waiting[mark], last[mark]])
    units["magic"][:-1] |= np.where(rolls, layouts.TIMER_ROLL, 0)
    units["magic"][:-1] |= np.where(waiting["deletes"] != 0, layouts.TIMER_DELETE, 0)
    units["writeTime"][:-1], units["delay"][:-1] = write, slot - write
    if np.isin(last["physicalOffset"], waiting["physicalOffset"][-1:])[0]:
        return units[:-1]
    read = max(min(turned.read_time, turned.before), turned.precision) - turned.precision
    units["writeTime"][-1] = read
    return units


def timer_log_files(units: Units, file_bytes: int, precision: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of a timerlog's files, without the zeros at the end (TimerLog.append)."""
    each = (file_bytes - layouts.TIMER_BLANK_BYTES) // _UNIT
    positions = np.arange(len(units)) // each * file_bytes + np.arange(len(units)) % each * _UNIT
    slots = (units["writeTime"] + units["delay"]) // precision
    latest: dict[int, int] = {}
    for unit, slot, position in zip(units, slots.tolist(), positions.tolist(), strict=True):
        unit["previous"] = latest.get(slot, -1)
        latest[slot] = position
    for number, start in enumerate(range(0, len(units), each)):
        part = units[start : start + each].tobytes()
        if start + each < len(units):
            blank = (file_bytes - len(part)).to_bytes(4, "big") + bytes(8)
            part += blank + layouts.MAGIC_TIMER_BLANK.to_bytes(4, "big", signed=True)
        yield segment_name(number * file_bytes), part


def timer_file_bytes(store: Folder, setting: int) -> int:
    """Bytes of a file of timerlog: of the store's, else mappedFileSizeTimerLog."""
    lengths = [length for _, length in timer_log_names(store)]
    return next((length for length in lengths if length >= _UNIT_FILE_LEAST), setting)


def timer_check(old: bytes, **fields: int) -> bytes:
    """A timercheck with other values in fields of TIMER_CHECK; the data version after them stays.

    old: the file before, or b"".
    """
    raw = np.zeros(layouts.TIMER_CHECK_FILE_BYTES, np.uint8)
    raw[: len(old)] = np.frombuffer(old[: len(raw)], np.uint8)
    check = raw[: layouts.TIMER_CHECK.itemsize].view(layouts.TIMER_CHECK)
    for name, value in fields.items():
        check[name] = value
    return raw.tobytes()


# ---
# What a log decides, where a store's own files do not tell it.


class Timers(NamedTuple):
    """The units of a whole timerlog, and what goes with them."""

    units: Units
    turned: Turned
    waiting: int  # messages that wait

    @property
    def check(self) -> dict[str, int]:
        """The fields of timercheck: a broker makes the wheel from the whole timerlog."""
        at = self.turned.queue_offset
        return {
            "lastReadTimeMs": self.turned.read_time, "lastTimerLogFlushPos": 0,
            "lastTimerQueueOffset": at, "masterTimerQueueOffset": at,
        }  # fmt: skip

    def moved(self, found: Callable[[Places], tuple[Places, Places]]) -> "Timers":
        """The same where a log is written anew. found: the new physical offsets of old ones, and
        the sizes of the records there, 0 where there is none.
        """
        units = self.units.copy()
        places, sizes = found(units["physicalOffset"].astype(np.int64))
        there = sizes > 0
        units["physicalOffset"] = places
        units["messageSize"][there] = sizes[there]
        there[-1:] = True  # a broker goes on from the last unit's queueOffset
        return self._replace(units=units[there])


def derived_timers(
    gathered: Gathered, read: Read, written: Callable[[Places], Mapping[int, int]], now: int,
    precision: int,
) -> Timers | None:  # fmt: skip
    """The timers of a whole log (marks of timers and of deliveries); None if it never had any.

    read: how far a broker was, as far as its files still tell it. What it has passed and the log
    does not show as delivered waits again if the delivery may be lost with a part of the log.
    written: when messages were put into the wheel. now: milliseconds.

    A broker reads the last seven days of the wheel. Of a store that was stopped for longer it is
    read from five whole days ago on, so that what was due before is not lost.
    """
    timers = timers_of(gathered)
    if not len(timers):
        return None
    before = read.timer_read
    if read.timer_position is None:
        before = gathered.last_timestamp - gathered.last_timestamp % precision
    still = (DelayState.WAITING, DelayState.LATE, DelayState.UNSURE)
    marks = gathered.marks
    of_timers = gathered._replace(marks=marks[np.isin(marks["kind"], (WHEEL, OTHER))])
    places = [
        each.physical_offset
        for each in resolve(of_timers, {}, read._replace(stopped=False))
        if each.state in still and not (each.recalled and each.due < before)
    ]
    read_time = _read_from(before, now)
    stay = that_stay(timers, places, before)
    turned = Turned(read_time, before, int(timers["queueOffset"][-1]) + 1, now, precision)
    units = units_of(stay, timers[-1:], written(stay["physicalOffset"]), turned)
    return Timers(units, turned, len(places))


def carried_timers(store: Folder, now: int, precision: int) -> Timers | None:
    """The timers of a store whose files tell all (`why_lost`): the units of timerlog in slots that
    are still to be read, and the last one. None without a unit. Holds timerlog.
    """
    parts = [np.zeros(0, layouts.TIMER_UNIT), *timer_units(store)]
    # numpy joins them in the machine's order
    units = np.concatenate(parts).astype(layouts.TIMER_UNIT)
    check = read_timer_check(store)
    if not len(units) or check is None:
        return None
    before = int(check["lastReadTimeMs"])
    read_time = _read_from(before, now)
    slot = units["writeTime"] + units["delay"]
    late = slot >= before
    slot[late] = np.maximum(slot[late], read_time)
    units["delay"] = np.minimum(slot - units["writeTime"], _DELAY_MAX)
    waiting = int(np.sum(late & (units["magic"] & layouts.TIMER_DELETE == 0)))
    late[-1] = True
    turned = Turned(read_time, before, int(check["lastTimerQueueOffset"]), now, precision)
    return Timers(units[late], turned, waiting)


def _read_from(before: int, now: int) -> int:
    return max(before, (now // _DAY_MS - 5) * _DAY_MS)


def derived_levels(gathered: Gathered) -> dict[int, int]:
    """By delay level the queue offset up to which its queue is delivered; empty if the log has
    nothing of delay levels.

    A level's queue is read in order, so that what stands before a delivered message is done.
    """
    marks = gathered.marks
    levels = marks[marks["kind"] == SCHEDULE]
    waits = gathered._replace(marks=marks[np.isin(marks["kind"], (SCHEDULE, OTHER))])
    ids = np.unique(levels["queueId"]).tolist()
    found = {
        queue_id + 1: int(levels["queueOffset"][levels["queueId"] == queue_id][0])
        for queue_id in ids
    }
    unread = Read(None, None, 0, False)
    for each in resolve(waits, dict.fromkeys(found, 0), unread):
        if each.delivery != NONE:
            found[each.level] = max(found[each.level], each.queue_offset + 1)
    return found


def why_lost(store: Folder, log_end: int) -> str:
    """Why a broker would lose timers, or deliver them again, of a store whose log has some; "" if
    its files tell all. log_end: physical offset.
    """
    check = read_timer_check(store)
    if check is None:
        return f"there is no {TIMER_CHECK_PATH}"
    last = furthest_unit(store)
    if last >= log_end:
        return f"{TIMER_LOG} points past the log's end"
    if last < 0:  # even if nothing was taken: a broker with RocksDB had its timers there
        return f"{TIMER_LOG} is not there"
    if read_from(store, int(check["lastTimerLogFlushPos"])) > 0 and not len(wheel_slots(store)):
        return "timerwheel is not there, and only the last files of timerlog are read in its place"
    return ""


def read_from(store: Folder, flushed: int) -> int:
    """The place of the file of timerlog from which a broker that starts reads units: the last one
    that is a file's length before lastTimerLogFlushPos (`flushed`). (TimerMessageStore.recover)
    """
    names = timer_log_names(store)
    since = max(flushed - names[-1][1], 0) if names else 0
    return max((int(name) for name, _ in names if int(name) <= since), default=0)


def wheel_slots(store: Folder) -> Units:
    """The slots (TIMER_SLOT) in use of the wheel's file, and of its snapshots."""
    found = [np.zeros(0, layouts.TIMER_SLOT)]
    for name, state in store.listed():
        if is_wheel(name) and state is not None and state.size == layouts.TIMER_WHEEL_FILE_BYTES:
            slots = np.frombuffer(store.read(name), layouts.TIMER_SLOT)
            found.append(slots[slots["time"] > 0])
    # numpy joins them in the machine's order
    return np.concatenate(found).astype(layouts.TIMER_SLOT)


# ---
# Deliveries that the log lost with its end, where a machine went down: the files that tell how far
# a broker was are written at other times, and such a broker passes over what waits.

_LATE_MS = 60_000  # a delivery is at most so late, unless the broker was down when it was due
_ASKED_MOST = 16  # of timers of one slot
_SLICE = 1 << 12  # entries of a queue that are read at a time


def lost_with_the_end(opened: OpenedStore, read: Read, log_end: int) -> tuple[bool, bool]:
    """Whether a timer, and whether a message of a delay level, is passed and has no delivery in the
    log, of those due in its last minute and of those passed last, as a broker that was down
    delivers late what was due, but in order. Of the log the segments since they were due are read.

    Queues may lack their last entries: what they do not name is not looked for.
    """
    since = last_timestamp(opened.log) - _LATE_MS
    levels = _passed_levels(opened, read.levels or {}, since)
    timers = _passed_timers(opened, since, read.timer_read)
    known = {
        place: due for place, due in (levels | timers).items()
        if opened.log.start <= place < log_end
        and (due >= since or not _is_delivered(opened, place))
    }  # fmt: skip
    if not known:
        return False, False
    start = _place_by(opened.log, min(*known.values(), since), log_end)
    gathered = gather_since(
        opened.log, known, start, concerns, opened.profile.split_properties, log_end
    )
    delays = dict.fromkeys(read.levels or {}, 0)
    lacking = {
        each.physical_offset
        for each in resolve(gathered, delays, Read(None, None, 0, False))
        if each.delivery == NONE and not each.recalled and each.physical_offset in known
    }
    return not lacking.isdisjoint(timers), not lacking.isdisjoint(levels)


def _is_delivered(opened: OpenedStore, place: int) -> bool:
    """Whether the index has the delivery of the message at a place."""
    with suppress(NoRecord, NotInLog, BadQueue, BadIndex, RocksDBError):
        return delivery_of(opened, opened.message(opened.log.record_at(place))) >= 0
    return False


def delivery_of(opened: OpenedStore, waits: StoredMessage) -> int:
    """The place of a delayed message's delivery, by the index; -1 if that has none.

    Raises NoRecord, NotInLog, BadIndex, RocksDBError.
    """
    topic, key = waits.properties.get("REAL_TOPIC", ""), waits.unique_key
    if not key:
        return -1
    for place in index_places(opened, topic, key, None, None):
        if place > waits.physical_offset:
            found = opened.message(opened.log.record_at(place))
            if found.topic == topic and found.unique_key == key:
                return place
    return -1


def _place_by(log: LogReader, time: int, log_end: int) -> int:
    """The start of a segment before which nothing was stored at `time` or later."""
    for segment in reversed(log.segments):
        if log.start <= segment.start < log_end:
            with suppress(NoRecord, NotInLog):
                if log.record_at(segment.start).store_timestamp < time:
                    return segment.start
    return log.start


def _passed_levels(opened: OpenedStore, levels: Mapping[int, int], since: int) -> dict[int, int]:
    """When (milliseconds) messages at places before the levels' positions were due: at `since` or
    later, and the last of each level. A queue of the schedule topic has that time as tagsCode.
    """
    found: dict[int, int] = {}
    for level, stop in levels.items():
        with suppress(BadQueue):
            queue, last = opened.queue(SCHEDULE_TOPIC, level - 1, False), stop
            while stop > 0:
                some = list(queue.entries(first := max(stop - _SLICE, 0), stop))
                found |= {
                    each.physical_offset: each.tags_code for each in some
                    if each.tags_code >= since or each.position == last - 1
                }  # fmt: skip
                stop = first if some and some[0].tags_code >= since else 0
    return found


def _passed_timers(opened: OpenedStore, since: int, read: int) -> dict[int, int]:
    """When messages with units, not to be rolled, are due in slots before `read`: at `since` or
    later, and some of the last slot.
    """
    found: dict[int, int] = {}
    last: list[tuple[int, int]] = []
    for units in timer_units(opened.folder):
        slot = units["writeTime"] + units["delay"]
        passed = (slot < read) & (units["magic"] & (layouts.TIMER_ROLL | layouts.TIMER_DELETE) == 0)
        of_slot, places = slot[passed], units["physicalOffset"][passed]
        late = of_slot >= since
        found |= dict(zip(places[late].tolist(), of_slot[late].tolist(), strict=True))
        if len(of_slot):
            there = of_slot == of_slot.max()
            last += zip(of_slot[there].tolist(), places[there].tolist(), strict=True)
    newest = max(last, default=(0, 0))[0]
    of_newest = [(place, slot) for slot, place in last if slot == newest]
    return found | dict(of_newest[-_ASKED_MOST:])
