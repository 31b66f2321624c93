"""What fates need beside a walk of the log: marks of records whose places are known, and what
RocksDB, timerlog and the services' small files say.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import cache, partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from reput.store_format import names
from reput.store_format.derived.queues import Queue
from reput.store_format.discover.config import config_table, consumer_offsets, has_rows
from reput.store_format.fate import gather
from reput.store_format.fate.delays import Read
from reput.store_format.files.folder import Folder
from reput.store_format.layouts import TIMER_CHECK, TIMER_UNIT
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.message.message import HALF_TOPIC, OP_TOPIC, ROCKSDB_OP_TOPIC
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.database import Database, RocksDBError, open_database
from reput.store_format.rocksdb.rows import HalfRows, Timers, read_half_rows, read_timers

# ---
# The marks of records whose places are known, by index and queue, without a walk of the log.


def gather_few(
    log: LogReader,
    places: Iterable[int],
    op_queue: Callable[[str], Queue],
    split: bool,
    near_end: int,
) -> gather.Gathered:
    """Gather the marks of one message's records, whose places are known, without a walk.

    op_queue: opens a topic's queue of op messages, if there is a half message; op messages after
    the first half message are read until each is named. near_end: a place near the log's end where
    a record is, 0 if not known. Raises NoRecord, NotInLog, BadQueue.
    """
    marks = [_mark(log, place, split) for place in sorted(set(places))]
    halves = [each for each in marks if each["kind"][0] == gather.HALF]
    ended = [np.zeros(0, gather.ENDED)]
    wanted = {int(half["queueOffset"][0]): int(half["physicalOffset"][0]) for half in halves}
    if halves:
        first = int(halves[0]["physicalOffset"][0])
        ops = op_queue(OP_TOPIC)
        for entry in ops.entries(_position_after(ops, first)):
            if not wanted:
                break
            record = log.record_at(entry.physical_offset)
            named, _ = gather.named_by_op(
                record.physical_offset, record.store_timestamp, record.properties, log.body(record)
            )
            at = record.physical_offset  # an op stands behind its half message
            named = named[[wanted.get(half, at) < at for half in named["halfOffset"].tolist()]]
            if len(named):
                for half in named["halfOffset"].tolist():
                    wanted.pop(half, None)
                ended.append(named)
                op = np.zeros(1, gather.MARK)
                op["kind"], op["physicalOffset"] = gather.OP, record.physical_offset
                marks.append(op)
    marks += _ops_of_places(log, marks, op_queue, split)
    found = np.concatenate([np.zeros(0, gather.MARK), *marks])
    found = found[np.argsort(found["physicalOffset"], kind="stable")]
    return gather.Gathered(
        found, np.concatenate(ended), [], 0, last_timestamp(log, near_end), [], 0
    )


def gather_since(
    log: LogReader, places: Iterable[int], since: int, keep: gather.Keep, split: bool, end: int
) -> gather.Gathered:
    """Gather the marks at known places, and of all records from `since` on, which is read on all
    cores. Raises NoRecord, NotInLog.
    """
    segments = [segment for segment in log.segments if segment.end > since]
    late = gather.gather_on_all_cores(log, segments, keep, split, end)
    known = [
        _mark(log, place, split)
        for place in sorted(places)
        if log.start <= place < segments[0].start
    ]
    return late._replace(marks=np.concatenate([np.zeros(0, gather.MARK), *known, late.marks]))


def _ops_of_places(
    log: LogReader, marks: list[gather.Marks], op_queue: Callable[[str], Queue], split: bool
) -> list[gather.Marks]:
    """The marks of op messages that name half messages in RocksDB's topic, by their places."""
    wanted = {
        int(each["physicalOffset"][0]) for each in marks if each["kind"][0] == gather.ROCKSDB_HALF
    }
    found: list[gather.Marks] = []
    if wanted:
        ops = op_queue(ROCKSDB_OP_TOPIC)
        for entry in ops.entries(_position_after(ops, min(wanted))):
            op = _mark(log, entry.physical_offset, split)
            if op["kind"][0] == gather.ROCKSDB_OP and int(op["prepared"][0]) in wanted:
                wanted.discard(int(op["prepared"][0]))
                found.append(op)
            if not wanted:
                break
    return found


def _mark(log: LogReader, place: int, split: bool) -> gather.Marks:
    """The mark (MARK, one) of the record at a place."""
    mark: gather.Marks = np.zeros(1, gather.MARK)
    start = log.start_of(place)
    for step in log.steps(start, start + 1):
        gather.mark_records(
            step.window, step.rows, split, True, np.empty((gather.NAMED, 2), np.int64), mark
        )
    return mark


def last_timestamp(log: LogReader, near_end: int = 0) -> int:
    """The store time of the log's last record, 0 without one.

    The log is walked from `near_end` on, or through the last segment that has a record.
    """
    for place in (near_end, *(segment.start for segment in reversed(log.segments))):
        last = 0
        with suppress(NoRecord, NotInLog):  # what stands before damage counts
            for step in log.steps(log.start_of(place) if place == near_end else place):
                last = int(step.rows["storeTimestamp"][-1])
        if last:
            return last
    return 0


def _position_after(queue: Queue, place: int) -> int:
    """The first position of a queue whose message stands after a place in the log."""

    def is_after(position: int) -> bool:
        entry = next(queue.entries(position), None)  # the first that the queue still has
        return entry is None or entry.physical_offset > place

    return bisect_left(range(queue.maximum()), True, key=is_after)


# ---
# What RocksDB has of the messages that were gathered: timers, and half messages of its topic.
#
# RocksDB is opened only where the log has such messages. What cannot be read is noted.

_Rows = TypeVar("_Rows")


def half_rows(store: OpenedStore, gathered: gather.Gathered, notes: Notes) -> HalfRows | None:
    """RocksDB's rows of half messages; None where the log has none, or they cannot be read."""
    if not np.any(gathered.marks["kind"] == gather.ROCKSDB_HALF):
        return None
    unread = "which half messages of transRocksDBEnable were checked or given up is not known"
    return _read(store, read_half_rows, unread, notes)


def timers_in_rocksdb(store: Folder) -> Timers | None:
    """RocksDB's rows of timers (timerRocksDBEnable); None without any. Raises RocksDBError."""
    if not has_rows(store / names.STORE_DB):
        return None
    with closing(open_database(store / names.STORE_DB)) as database:
        return _in_use(store, database)


def _in_use(store: Folder, database: Database) -> Timers | None:
    """None also if timerRocksDBEnable is off again: the wheel has read further than the rows. While
    it is on, TimerMessageStore.recover begins no further than where the rows end.
    """
    rows, check = read_timers(database), read_timer_check(store)
    if rows is None or check is None or check["lastTimerQueueOffset"] <= rows.position:
        return rows
    return None


def with_timers(store: OpenedStore, gathered: gather.Gathered, read: Read, notes: Notes) -> Read:
    """`read`, with RocksDB's rows of timers where the log has timers."""
    if not np.any(gathered.marks["kind"] == gather.WHEEL):
        return read
    unread = "which timers of timerRocksDBEnable are delivered for good is not known"
    rows = _read(store, partial(_in_use, store.folder), unread, notes)
    return read._replace(timers=rows)


def _read(
    store: OpenedStore, rows: Callable[[Database], _Rows], unread: str, notes: Notes
) -> _Rows | None:
    folder = store.folder / names.STORE_DB
    if not has_rows(folder):
        return None
    try:
        with closing(open_database(folder)) as database:
            return rows(database)
    except RocksDBError as error:
        notes.lacks(f"{error}: {unread}")
        return None


# ---
# The units of timerlog: which timers stand in the wheel, and since when.

_READ_UNITS = 1 << 16
_UNIT = TIMER_UNIT.itemsize

Units = npt.NDArray[np.void]
Places = npt.NDArray[np.int64]


def write_times(store: Folder, wanted: Places) -> dict[int, int]:
    """When messages were put into the wheel (milliseconds), by their physical offsets.

    wanted: physical offsets. Those without a unit in timerlog are left out.
    """
    found: dict[int, int] = {}
    if len(wanted):
        for units in timer_units(store):
            mine = units[np.isin(units["physicalOffset"], wanted)]
            offsets, times = mine["physicalOffset"].tolist(), mine["writeTime"].tolist()
            found |= dict(zip(offsets, times, strict=True))
    return found


def waiting_units(store: Folder, read_time: int) -> Places:
    """The physical offsets, sorted, of messages in slots that are still to be read.

    read_time: lastReadTimeMs. 8 bytes a unit are held.
    """
    found = [np.zeros(0, np.int64)]
    for units in timer_units(store):
        late = units["writeTime"] + units["delay"] >= read_time
        found.append(units["physicalOffset"][late].astype(np.int64))
    return np.unique(np.concatenate(found))


def furthest_unit(store: Folder) -> int:
    """The greatest physical offset that a unit of timerlog names; -1 without a unit."""
    return max((int(units["physicalOffset"].max()) for units in timer_units(store)), default=-1)


def timer_log_names(store: Folder) -> list[tuple[str, int]]:
    """The files of timerlog, with their lengths in bytes; other names are left out."""
    found = []
    for name, state in store.listed(names.TIMER_LOG):
        try:
            names.parse_segment_name(name)
        except ValueError:
            continue
        if state is not None:
            found.append((name, state.size))
    return sorted(found)


def timer_units(store: Folder) -> Iterator[Units]:
    """The units of timerlog, many at a time."""
    for _, units in timer_rows(store):
        units = units[units["size"] == _UNIT]
        if len(units):
            yield units


def timer_rows(store: Folder) -> Iterator[tuple[int, Units]]:
    """(place in timerlog, what stands there as units, good or not), many at a time; of each file up
    to the zeros after its last unit, and some of these.
    """
    for name, length in timer_log_names(store):
        with closing(store.open(f"{names.TIMER_LOG}/{name}")) as reader:
            for start in range(0, length // _UNIT, _READ_UNITS):
                raw = np.zeros(min(_READ_UNITS, length // _UNIT - start) * _UNIT, np.uint8)
                reader.read_into(start * _UNIT, raw)
                units = raw.view(TIMER_UNIT)
                yield int(name) + start * _UNIT, units
                if not units["size"].any():
                    break


# ---
# How far a broker has come with its services, by the small files in which it notes that.

_CHECKER = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS, the group that checks


def read_timer_check(store: Folder) -> np.void | None:
    """The fields (TIMER_CHECK) of timercheck; None without one."""
    head = store.head(f"{names.CONFIG}/{names.TIMER_CHECK_FILE}", TIMER_CHECK.itemsize)
    if head is None or len(head) < TIMER_CHECK.itemsize:
        return None
    check: np.void = np.frombuffer(head, TIMER_CHECK)[0]
    return check


def read_progress(store: Folder, notes: Notes) -> Read:
    """How far the broker has delivered. What cannot be read is noted, and counts as missing."""
    table = config_table(store, names.DELAY_OFFSETS, notes)
    levels = None
    if table is not None:
        levels = {
            int(level): offset
            for level, offset in table.items()
            if level.isdecimal() and isinstance(offset, int)
        }
    check, position, read = read_timer_check(store), None, 0
    if check is not None:
        position, read = int(check["lastTimerQueueOffset"]), int(check["lastReadTimeMs"])
    stopped = store.head(names.ABORT, 0) is None
    waiting = cache(lambda: waiting_units(store, read))  # timerlog, once it is asked for

    return Read(levels, position, read, stopped, lambda places: np.isin(places, waiting()))


def half_position(store: Folder, notes: Notes) -> int:
    """The queue offset up to which the broker has checked half messages; 0 where none is named."""
    return consumer_offsets(store, notes).get((_CHECKER, HALF_TOPIC), {}).get(0, 0)
