"""Judges by the log what a store has beside its queues and index, for `check` and `report`."""

from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import config_table, consumer_offsets
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.fate.known import Places, timer_units, timers_in_rocksdb
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import TIMER_CHECK
from reput.store_format.log.groups import BadEpochs, read_epochs
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.segments import Finding
from reput.store_format.message.message import TIMER_TOPIC
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMMIT_LOG,
    COMPACTION_LOG,
    CONFIG,
    CONSUME_QUEUE,
    CUT,
    DELAY_OFFSETS,
    DLEDGER,
    EPOCH_FILE,
    MANIFEST,
    OFFSETS,
    ORDER_INFO,
    POP_DB,
    QUEUE_EXT,
    QUEUE_MAPPING,
    REVIVE_TOPIC,
    STORE_DB,
    TIMER_LOG,
    is_queue_id,
)
from reput.store_format.notes import Notes
from reput.store_format.query.compacted import compacted_topics, compaction_faults, hole_faults
from reput.store_format.query.inventory import PAST_QUEUE
from reput.store_format.query.pop_leftovers import end_of_popped, kept_pops, ordered_rows
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import CURRENT, RocksDBError, open_database
from reput.store_format.rocksdb.rows import Timers
from reput.store_format.state.timers import TIMER_CHECK_PATH, Ends, delivery_of, wheel_from
from reput.store_format.state_table import FILES, Copies, row_of

# ---
# Positions in queues that the log does not have: of groups, delay levels, pops.

_SHOWN = 20


class _Read(NamedTuple):
    """A position up to which something has read a queue, and the file that says so."""

    path: str  # below the store
    topic: str
    queue_id: int
    offset: int
    who: str  # who reads
    then: str  # what comes of a position past the queue's end


def past_the_queues(store: Folder, ends: Ends, log_start: int = 0) -> list[Finding]:
    """Findings of positions past their queues' ends; queues that the log lacks do not count, but
    for those of `end_of_popped`. log_start: physical.
    """
    greatest: dict[tuple[str, str, int], _Read] = {}
    for each in _positions(store):
        key = each.path, each.topic, each.queue_id
        if key not in greatest or each.offset > greatest[key].offset:
            greatest[key] = each
    past = [
        (each, end) for each in greatest.values()
        if (end := _end(each, ends, log_start)) is not None and each.offset > end
    ]  # fmt: skip
    return [
        Finding(
            f"{store}/{each.path}",
            f"topic {each.topic!r}, queue {each.queue_id} was read up to {each.offset:,} by "
            f"{each.who}, the log has it up to {end:,}; {each.then}",
        )
        for each, end in sorted(past)[:_SHOWN]
    ]


def _end(read: _Read, ends: Ends, log_start: int) -> int | None:
    of_pop = read.path == POP_DB
    queue = read.topic, read.queue_id
    return end_of_popped(queue, ends, log_start) if of_pop else ends.get(queue)


def _positions(store: Folder) -> Iterator[_Read]:
    none = Notes()
    for (group, topic), offsets in consumer_offsets(store, none).items():
        for queue_id, offset in offsets.items():
            who = f"group {group!r}"
            yield _Read(f"{CONFIG}/{OFFSETS}", topic, queue_id, offset, who, PAST_QUEUE)
    for level, offset in (config_table(store, DELAY_OFFSETS, none) or {}).items():
        if is_queue_id(level) and isinstance(offset, int):
            yield _Read(f"{CONFIG}/{DELAY_OFFSETS}", SCHEDULE, int(level) - 1, offset,
                        f"delay level {level}", _LEVEL_WAITS)  # fmt: skip
    for pop in kept_pops(store, none):
        yield _Read(POP_DB, pop.topic, pop.queue_id, max(pop.offsets) + 1,
                    f"a pop of group {pop.group!r}", _NOT_AGAIN)  # fmt: skip
    yield from _static_queues(store, none)
    for row in ordered_rows(store, none):
        yield _Read(f"{CONFIG}/{ORDER_INFO}", row.topic, row.queue_id, row.offset + 1,
                    f"an ordered pop of group {row.group!r}", _POP_WAITS)  # fmt: skip


def _static_queues(store: Folder, notes: Notes) -> Iterator[_Read]:
    """Where the queues of static topics begin and end in this broker's own (LogicQueueMappingItem).

    What is of another form is passed over.
    """
    for topic, about in (config_table(store, QUEUE_MAPPING, notes) or {}).items():
        with suppress(AttributeError, KeyError, TypeError):
            for number, items in about["hostedQueues"].items():
                for item in (each for each in items if each["bname"] == about["bname"]):
                    yield _Read(
                        f"{CONFIG}/{QUEUE_MAPPING}", topic, int(item["queueId"]),
                        max(int(item["startOffset"]), int(item["endOffset"])),
                        f"queue {number} of the static topic", _NOT_THERE,
                    )  # fmt: skip


# ScheduleMessageService.correctDelayOffset
_LEVEL_WAITS = (
    "a broker before 4.9.2 delivers nothing of this level until the queue is that long, a later "
    "one goes on at its end"
)
# PopConsumerService.revive: seen with 5.3.3 and 5.5.1.
_NOT_AGAIN = (
    "what was popped there does not come again, and a new message in its place may come twice"
)
_NOT_THERE = "its readers are sent to positions that are not there"
_POP_WAITS = "nothing of the queue is popped until that pop's time is over"

# ---
# Timers: whether timerlog and timercheck are those of the messages of rmq_sys_wheel_timer.
#
# A broker goes on after the message of timerlog's last unit, or where timercheck says; from there
# on it reads the topic, and of messages before it has what timerlog's units say
# (TimerMessageStore.recover). The topic's queue names the messages: the log is not walked.

_SLICE = 1 << 16  # entries read at a time
_LOOKED_MOST = 10_000  # records that are read of messages without a unit
_ASKED_MOST = 64  # messages of which the delivery is looked for
_HAS_READ = "has read"
# A message that is due at once is delivered without a unit, at most so long (milliseconds) after
# the time in timercheck, which is written each second.
_AT_ONCE_MS = 10_000


def timer_faults(opened: OpenedStore, log_end: int) -> Iterator[Finding]:
    """What is wrong with a store's timer files, or with the rows of timers in RocksDB: whether they
    are past the log's end. log_end: physical. Raises BadQueue.
    """
    try:
        rows = timers_in_rocksdb(opened.folder)
    except RocksDBError:
        return
    if rows is not None:
        yield from _rows_past(opened, rows, log_end)
        return
    if TIMER_TOPIC not in opened.queues.topics():
        return
    queue = opened.queue(TIMER_TOPIC, 0, False)
    head = opened.folder.head(TIMER_CHECK_PATH, TIMER_CHECK.itemsize)
    if not any(head or b""):
        yield from _no_check(opened, queue, log_end, "is missing" if head is None else "is empty")
        return
    # a broker maps the whole file, so that it reads a short one as if zeros followed
    check = np.frombuffer((head or b"").ljust(TIMER_CHECK.itemsize, b"\0"), TIMER_CHECK)[0]
    units = _units(opened, int(check["lastTimerLogFlushPos"]))
    past = int(np.count_nonzero(units.places >= log_end))
    if past:
        yield Finding(
            f"{opened.path}/{TIMER_LOG}",
            f"{past:,} of {len(units.places):,} timers are of messages past the log's end, "
            f"{log_end:,}: a broker does not find them, and 5.5.0 may look for them for ever",
        )
    goes_on = min(_goes_on(opened, queue, check, units), int(check["masterTimerQueueOffset"]))
    end = queue.end_within(log_end)
    if goes_on > end:
        yield Finding(
            f"{opened.path}/{TIMER_CHECK_PATH}",
            f"{_HAS_READ} {TIMER_TOPIC} up to {goes_on:,}, the log has it up to {end:,}: a broker "
            "before 5.3.2 takes no timer until the queue is that long, a later one goes on at its "
            "end",
        )
    yield from _lost(opened, queue, min(goes_on, end), int(check["lastReadTimeMs"]), units)


def _rows_past(opened: OpenedStore, rows: Timers, log_end: int) -> Iterator[Finding]:
    path = f"{opened.path}/{STORE_DB}"
    if past := int(np.count_nonzero(rows.waiting >= log_end)):
        yield Finding(
            path,
            f"{past:,} of {len(rows.waiting):,} timers are of messages past the log's end, "
            f"{log_end:,}: what a broker writes there it delivers at their time",
        )
    there = TIMER_TOPIC in opened.queues.topics()
    end = opened.queue(TIMER_TOPIC, 0, False).end_within(log_end) if there else 0
    if rows.position > end:
        yield Finding(
            path,
            f"{_HAS_READ} {TIMER_TOPIC} up to {rows.position:,}, the log has it up to {end:,}: a "
            "broker goes on at its end",
        )


class _Units(NamedTuple):
    """timerlog's units that a broker would find, by the physical offsets of their messages."""

    places: Places  # sorted, each once
    last: int  # that of the last unit; -1 without one


def _units(opened: OpenedStore, flushed: int) -> _Units:
    """flushed: lastTimerLogFlushPos."""
    first = wheel_from(opened.folder, flushed)
    found, last = [np.zeros(0, np.int64)], -1
    for units in timer_units(opened.folder, first):
        places = units["physicalOffset"].astype(np.int64)
        last = int(places[-1])
        found.append(places)
    return _Units(np.unique(np.concatenate(found)), last)


def _goes_on(opened: OpenedStore, queue: Queue, check: Any, units: _Units) -> int:
    """The position of the topic from which a broker reads (reviseQueueOffset)."""
    if units.last >= 0:
        with suppress(NoRecord, NotInLog, BadQueue):
            record = opened.log.record_at(units.last)
            if record.topic == TIMER_TOPIC:
                return record.queue_offset + 1
    return int(check["lastTimerQueueOffset"])


def _lost(
    opened: OpenedStore, queue: Queue, goes_on: int, read_time: int, units: _Units
) -> Iterator[Finding]:
    """A finding of messages that wait, that a broker does not read again, and without a unit."""
    first = queue.minimum(opened.log.start, opened.profile)
    missing = 0
    waiting, of_pop = 0, 0
    example = -1
    while first < goes_on:
        some = queue.some(first, min(_SLICE, goes_on - first))
        if not len(some):
            break
        first = int(some.positions[-1]) + 1
        for place in some.places[~np.isin(some.places, units.places)].tolist():
            missing += 1
            if missing > _LOOKED_MOST:
                continue
            with suppress(NoRecord, NotInLog, ValueError):
                properties = opened.message(opened.log.record_at(place)).properties
                out = int(properties.get("TIMER_OUT_MS", ""))
                if out > read_time + _AT_ONCE_MS and "TIMER_DEL_UNIQKEY" not in properties:
                    waiting, example = waiting + 1, place if example < 0 else example
                    of_pop += properties.get("REAL_TOPIC", "").startswith(REVIVE_TOPIC)
    if not waiting:
        return
    least = "at least " if missing > _LOOKED_MOST else ""
    pops = f" ({of_pop:,} are pop's, so that messages in flight do not come again)" * bool(of_pop)
    yield Finding(
        f"{opened.path}/{TIMER_LOG}",
        f"has nothing of {least}{waiting:,} timers that wait, from physical {example:,} on, which "
        f"{TIMER_CHECK_PATH} has as taken: no broker will ever deliver them{pops}",
    )


def _no_check(
    opened: OpenedStore, queue: Queue, log_end: int, what: str
) -> Iterator[Finding]:  # fmt: skip
    """A finding where timers were delivered and timercheck does not tell that; what: it is."""
    first = queue.minimum(opened.log.start, opened.profile)
    end = queue.end_within(log_end)
    for position in range(first, end, max((end - first) // _ASKED_MOST, 1)):
        with suppress(NoRecord, NotInLog, BadQueue, BadIndex, RocksDBError):
            place = queue.entry(position).physical_offset
            delivery = delivery_of(opened, opened.message(opened.log.record_at(place)))
            if delivery >= 0:
                yield Finding(
                    f"{opened.path}/{TIMER_CHECK_PATH}",
                    f"{what}, and timers were delivered (that at physical {place:,} as "
                    f"{delivery:,}): a broker delivers them again",
                )
                return


# ---
# All of it.


def database_faults(store: Folder) -> Iterator[Finding]:
    """The broker's own RocksDBs of which a row cannot be read, as far as the library is there; and
    those, and STORE_DB, that lost the file by which they are opened. Others: config_faults.
    """
    for row in FILES:
        folder = store / row.path.rpartition("/")[0]
        own = row.copies == Copies.CARRY
        if row.name != "<rocksdb>" or not (own or row.path.startswith(STORE_DB)):
            continue
        names = [name for name, _ in folder.listed()]
        if CURRENT in names and own:
            with suppress(RocksDBError), closing(open_database(folder)) as database:
                try:
                    for family in database.families:
                        deque(database.rows(family), 0)  # checks each block
                except RocksDBError as error:
                    yield Finding(folder.path, f"{error.reason}: no broker that uses it starts")
        elif CURRENT not in names and any(name.endswith(".sst") for name in names):
            yield Finding(
                folder.path, f"has tables and no {CURRENT}: a broker begins with an empty one"
            )


def state_faults(opened: OpenedStore, log_end: int, crashed: bool = False) -> Iterator[Finding]:
    """What is wrong with the state of a store, as far as queues and files tell it. What cannot be
    read is left to those who judge queues.

    log_end: the physical offset where its log ends. crashed: the broker was killed, so that its
    start, or `recover`, dispatches more.
    """
    with suppress(BadQueue):
        for each in timer_faults(opened, log_end):
            if not (crashed and each.reason.startswith(_HAS_READ)):
                yield each
    topics = compacted_topics(
        opened.folder, opened.settings, opened.profile.release
    )  # fmt: skip
    topics = [] if crashed else topics
    for fault in (*compaction_faults(opened, topics), *hole_faults(opened, topics)):
        yield Finding(f"{opened.path}/{fault.queue.folder(COMPACTION_LOG)}", fault.why)
    yield from database_faults(opened.folder)
    try:
        read_epochs(opened.folder)
    except BadEpochs as error:
        yield Finding(
            f"{opened.path}/{EPOCH_FILE}",
            f"no epochs can be read ({error}): a broker in controller mode does not know whose log "
            "it has, or does not start",
        )


# ---
# Files that the table of a store's state does not have: a newer release's, or an operator's.

# The walk of queues and of the log names what is wrong there; what begins so is of reput.
_NOT_HERE = {COMMIT_LOG, CONSUME_QUEUE, BATCH_CONSUME_QUEUE, QUEUE_EXT, CUT, MANIFEST}
_OURS = (".reput-", "reput-", DLEDGER)


def unknown_files(store: Folder) -> list[str]:
    """The paths, below a store, of files and folders (with a slash) that the table lacks. Each
    command keeps them as they are.
    """
    return sorted(_unknown(store, ""))


def _unknown(store: Folder, below: str) -> Iterator[str]:
    for name, state in store.listed(below.rstrip("/")):
        path = f"{below}{name}"
        if not below and (name in _NOT_HERE or name.startswith(_OURS)):
            continue
        if state is None and f"{path}/" in _FOLDERS:
            yield from _unknown(store, f"{path}/")
        elif not (state is None and below in _OF_TOPICS) and row_of(path) is None:
            yield f"{path}/" if state is None else path


def _folders() -> Iterator[tuple[str, bool]]:
    """Each folder of the table, with a slash, and whether folders of topics are in it."""
    for row in FILES:
        parts = row.path.split("/")[:-1]
        for number, part in enumerate(parts):
            if "<" in part:
                break
            topics = number + 1 < len(parts) and "<" in parts[number + 1]
            yield "/".join((*parts[: number + 1], "")), topics


_FOLDERS = {folder for folder, _ in _folders()}
_OF_TOPICS = {folder for folder, topics in _folders() if topics}
