"""Judges by the log what a store has beside its queues and index, for `check` and `report`."""

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import config_table, consumer_offsets
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.fate.known import (
    Places,
    Units,
    timer_log_names,
    timer_rows,
    timers_in_rocksdb,
)
from reput.store_format.files.folder import Folder
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
    TIMER_WHEEL,
    is_queue_id,
)
from reput.store_format.notes import Notes
from reput.store_format.query.compacted import compacted_topics, compaction_faults, hole_faults
from reput.store_format.query.inventory import PAST_QUEUE
from reput.store_format.query.pop_leftovers import end_of_popped, kept_pops, ordered_rows
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import CURRENT, RocksDBError, open_database
from reput.store_format.rocksdb.rows import Timers
from reput.store_format.state import timers
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


def past_the_queues(store: Folder, ends: timers.Ends, log_start: int = 0) -> list[Finding]:
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


def _end(read: _Read, ends: timers.Ends, log_start: int) -> int | None:
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
_NAME = 1 << 24  # times a place, plus a size: a number for both
# A message that is due at once is delivered without a unit, at most so long (milliseconds) after
# the time in timercheck, which is written each second.
_AT_ONCE_MS = 10_000


def timer_faults(
    opened: OpenedStore, log_end: int, last_time: int = 0, crashed: bool = False
) -> Iterator[Finding]:
    """What is wrong with a store's timer files, or with the rows of timers in RocksDB. Raises
    BadQueue. log_end, last_time, crashed: as for `state_faults`.
    """
    try:
        rows = timers_in_rocksdb(opened.folder)
    except RocksDBError:
        return
    if rows is not None:
        yield from _rows_past(opened, rows, log_end, crashed)
        return
    yield from _of_other_lengths(opened.folder)
    if TIMER_TOPIC not in opened.queues.topics():
        return
    queue = opened.queue(TIMER_TOPIC, 0, False)
    end = queue.end_within(log_end)
    path = f"{opened.path}/{timers.TIMER_CHECK_PATH}"
    head = opened.folder.head(timers.TIMER_CHECK_PATH, layouts.TIMER_CHECK.itemsize)
    if not any(head or b""):
        first = queue.minimum(opened.log.start, opened.profile)
        if found := _delivered(opened, _some_places(queue, first, end)):
            what = "is missing" if head is None else "is empty"
            yield Finding(path, f"{what}, and timers were delivered {found}")
        return
    # a broker maps the whole file, so that it reads a short one as if zeros followed
    check = np.frombuffer(
        (head or b"").ljust(layouts.TIMER_CHECK.itemsize, b"\0"), layouts.TIMER_CHECK
    )[0]
    wheel = _wheel_of(opened, check)
    if past := int(np.count_nonzero(wheel.units["physicalOffset"] >= log_end)):
        yield Finding(
            f"{opened.path}/{TIMER_LOG}",
            f"{past:,} of {len(wheel.units):,} timers are of messages past the log's end, "
            f"{log_end:,}: a broker does not find them, and 5.5.0 may look for them for ever",
        )
    own, master = int(check["lastTimerQueueOffset"]), int(check["masterTimerQueueOffset"])
    goes_on = min(_after(opened, wheel.last, own), master)
    if goes_on > end and not crashed:
        yield Finding(
            path,
            f"{_HAS_READ} {TIMER_TOPIC} up to {goes_on:,}, the log has it up to {end:,}: a broker "
            "before 5.3.2 takes no timer until the queue is that long, a later one goes on at its "
            "end",
        )
    yield from _lost(opened, queue, min(goes_on, end), int(check["lastReadTimeMs"]), wheel.units)
    if not crashed:
        yield from _read_wrong(opened, wheel.units, int(check["lastReadTimeMs"]), last_time)
        gone = 0 <= wheel.end < int(check["lastTimerLogFlushPos"])
        cut = goes_on < master and (gone or wheel.newest > wheel.last)
        # up to where it has taken messages, by units that it does not come to, too
        taken = max(_after(opened, wheel.newest, end), own if gone else 0)
        if found := _delivered(opened, _some_places(queue, goes_on, min(taken, end))):
            yield Finding(
                f"{opened.path}/{TIMER_LOG}" if cut else path,
                f"has no unit at {wheel.end:,}, where a broker cuts it: it " * cut
                + f"reads {TIMER_TOPIC} from {goes_on:,} on, and timers were delivered {found}",
            )


def _of_other_lengths(store: Folder) -> Iterator[Finding]:
    """Findings of files of timerlog of another length than the others, and of the wheel's
    (MappedFileQueue.load, TimerWheel).
    """
    wanted = max((length for _, length in timer_log_names(store)), default=0)
    files = [(TIMER_LOG, f"{name} ", size, wanted) for name, size in timer_log_names(store)]
    wheels = [state.size for name, state in store.listed() if name == TIMER_WHEEL and state]
    files += [(TIMER_WHEEL, "", size, layouts.TIMER_WHEEL_FILE_BYTES) for size in wheels if size]
    for path, name, size, wanted in files:
        if size != wanted:
            reason = f"has {size:,} bytes, expected {wanted:,}: no broker with timers starts"
            yield Finding(f"{store}/{path}", f"{name}{reason}")


def _rows_past(opened: OpenedStore, rows: Timers, log_end: int, crashed: bool) -> Iterator[Finding]:
    path = f"{opened.path}/{STORE_DB}"
    if past := int(np.count_nonzero(rows.waiting >= log_end)):
        yield Finding(
            path,
            f"{past:,} of {len(rows.waiting):,} timers are of messages past the log's end, "
            f"{log_end:,}: what a broker writes there it delivers at their time",
        )
    there = TIMER_TOPIC in opened.queues.topics()
    end = opened.queue(TIMER_TOPIC, 0, False).end_within(log_end) if there else 0
    if rows.position > end and not crashed:
        yield Finding(
            path,
            f"{_HAS_READ} {TIMER_TOPIC} up to {rows.position:,}, the log has it up to {end:,}: a "
            "broker goes on at its end",
        )


class _Wheel(NamedTuple):
    """What a broker that starts makes of timerlog and the wheel's file. Messages: physical."""

    units: Units  # that it comes to, and that it has passed, by their messages
    last: int  # the message of the last unit before `end`; -1 without one
    newest: int  # the last message of all units
    end: int  # where it cuts timerlog; -1: nowhere


def _wheel_of(opened: OpenedStore, check: Any) -> _Wheel:
    """It reads units of the last files, up to the first that is none, and sets the last unit of
    each slot by them; from there it goes by `previous` (TimerMessageStore.recover, dequeue).
    """
    first = timers.read_from(opened.folder, int(check["lastTimerLogFlushPos"]))
    read = int(check["lastReadTimeMs"])
    none = np.zeros(0, layouts.TIMER_UNIT)
    found, waiting, passed = [np.zeros(0, np.int64)], [none], [none]
    end, last, newest = -1, -1, -1
    for start, units in timer_rows(opened.folder):
        positions = start + np.arange(len(units)) * layouts.TIMER_UNIT.itemsize
        good = (units["size"] == layouts.TIMER_UNIT.itemsize) & (units["magic"] & ~0xF == 0)
        newest = max(newest, int(units["physicalOffset"][good].max(initial=-1)))
        bad = ~good & (units["magic"] != layouts.MAGIC_TIMER_BLANK) & (positions >= first)
        if end < 0 and bad.any():
            end = int(positions[np.argmax(bad)])
        if end >= 0:
            good &= positions < end
        if good.any():
            last = int(units["physicalOffset"][good][-1])
        waits = good & (_due(units) >= read)
        found.append(positions[waits])
        waiting.append(units[waits])
        passed.append(units[good & ~waits])
    places, units = np.concatenate(found), np.concatenate(waiting).astype(layouts.TIMER_UNIT)
    due, before = _due(units).tolist(), units["previous"].tolist()
    number = {place: i for i, place in enumerate(places.tolist())}
    lasts: dict[int, int] = {}  # due -> the last unit's place
    for slot in timers.wheel_slots(opened.folder) if first else ():
        at = number.get(int(slot["last"]), -1)
        if at >= 0 and due[at] % int(slot["time"]) == 0:  # times timerPrecisionMs
            lasts[due[at]] = int(slot["last"])
    lasts |= {due[at]: place for place, at in number.items() if place >= first}
    seen = np.zeros(len(units), np.bool_)
    for place in lasts.values():
        while place in number and not seen[number[place]]:
            seen[number[place]] = True
            place = before[number[place]]
    return _Wheel(np.concatenate([*passed, units[seen]]), last, newest, end)


def _due(units: Units) -> Places:  # their slots' times, in milliseconds
    due: Places = units["writeTime"].astype(np.int64) + units["delay"]
    return due


def _after(opened: OpenedStore, place: int, otherwise: int) -> int:
    """The position of the topic after the message at a place; `otherwise` where none is there."""
    with suppress(NoRecord, NotInLog, BadQueue):
        if place >= 0 and (record := opened.log.record_at(place)).topic == TIMER_TOPIC:
            return record.queue_offset + 1
    return otherwise


def _read_wrong(opened: OpenedStore, units: Units, read: int, last_time: int) -> Iterator[Finding]:
    """A finding where the log does not go with lastReadTimeMs (`read`)."""
    once = units[units["magic"] & layouts.TIMER_ROLL == 0]  # delivered in their slot
    due = _due(once)
    # with these, what they recall is not delivered
    recalls = once["magic"] & layouts.TIMER_DELETE != 0
    known = np.isin(due, due[recalls]) | (once["delay"] == 0)  # a mark of derived timers
    early = (due < read) & (due > last_time + _AT_ONCE_MS) & ~known
    path = f"{opened.path}/{timers.TIMER_CHECK_PATH}"
    if last_time and early.any():
        yield Finding(
            path,
            f"{_HAS_READ} all timers that were due up to {read:,} ms, the log's last record is of "
            f"{last_time:,}: no broker will ever deliver {np.count_nonzero(early):,} that are due "
            "between",
        )
    late = once["physicalOffset"][(due >= read + _AT_ONCE_MS) & (due < last_time) & ~recalls]
    if found := _delivered(opened, late[:: len(late) // _ASKED_MOST + 1].tolist()):
        reason = f"{_HAS_READ} timers up to {read:,} ms, later ones were delivered {found}"
        yield Finding(path, reason)


def _some_places(queue: Queue, first: int, end: int) -> Iterator[int]:
    for position in range(first, end, max((end - first) // _ASKED_MOST, 1)):
        with suppress(BadQueue):
            yield queue.entry(position).physical_offset


def _delivered(opened: OpenedStore, places: Iterable[int]) -> str:
    """The first of some messages that the index has as delivered; "" if none is."""
    for place in places:
        with suppress(NoRecord, NotInLog, BadQueue, BadIndex, RocksDBError):
            delivery = timers.delivery_of(opened, opened.message(opened.log.record_at(place)))
            if delivery >= 0:
                return f"(that at physical {place:,} as {delivery:,}): a broker delivers them again"
    return ""


def _lost(
    opened: OpenedStore, queue: Queue, goes_on: int, read_time: int, units: Units
) -> Iterator[Finding]:
    """A finding of messages that wait, that a broker does not read again, and without a unit."""
    first = queue.minimum(opened.log.start, opened.profile)
    known = units["physicalOffset"].astype(np.int64) * _NAME + units["messageSize"]
    missing = 0
    waiting, of_pop = 0, 0
    example = -1
    while first < goes_on:
        some = queue.some(first, min(_SLICE, goes_on - first))
        if not len(some):
            break
        first = int(some.positions[-1]) + 1
        for place in some.places[~np.isin(some.places * _NAME + some.sizes, known)].tolist():
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
        f"{timers.TIMER_CHECK_PATH} has as taken: no broker will ever deliver them{pops}",
    )


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
                    database.check(folder)
                except RocksDBError as error:
                    then = ": no broker that uses it starts" * bool(error.remedy)
                    todo = f"restore {folder} from a backup, while no broker runs"
                    yield Finding(folder.path, f"{error.reason}{then}", todo=todo)
        elif CURRENT not in names and any(name.endswith(".sst") for name in names):
            yield Finding(
                folder.path, f"has tables and no {CURRENT}: a broker begins with an empty one"
            )


def state_faults(
    opened: OpenedStore, log_end: int, last_time: int = 0, crashed: bool = False
) -> Iterator[Finding]:
    """What is wrong with the state of a store, as far as queues and files tell it. What cannot be
    read is left to those who judge queues.

    log_end: the physical offset where its log ends. last_time: the newest storeTimestamp in it, 0:
    not known. crashed: the broker was killed, so that its start, or `recover`, dispatches more.
    """
    with suppress(BadQueue):
        yield from timer_faults(opened, log_end, last_time, crashed)
    topics = compacted_topics(opened.folder, opened.settings, opened.profile.release)
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
