"""The rows of `reput transactions`, `delayed` and `trace`, and the sums of fates by state."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import Queue
from reput.store_format.discover import delay_levels
from reput.store_format.fate import delays, transactions
from reput.store_format.fate.gather import NONE, Gathered, Keep, Skipped, gather
from reput.store_format.fate.known import (
    gather_few,
    half_position,
    half_rows,
    read_progress,
    with_timers,
)
from reput.store_format.fate.trace import Event, Follows, TraceSettings, events
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.walk import Step
from reput.store_format.message import message
from reput.store_format.names import LMQ_PREFIX
from reput.store_format.notes import Notes
from reput.store_format.query.log_scan import queue_gaps
from reput.store_format.query.reader import OpenedStore
from reput.store_format.rocksdb.rows import HalfRows

# ---
# The rows of `reput transactions`, `delayed` and `trace`: fates of messages, with their texts.
#
# Each answer walks the log once and then reads again the records that it shows.

_NAMED_MOST = 20  # skipped values that are named one by one


class _OpsMissingError(StoreError):
    """The queue of op messages does not have all of them."""


class TransactionRow(NamedTuple):
    """One transaction. Times in milliseconds; None: there is none."""

    state: str  # transactions.TransactionState
    topic: str | None  # REAL_TOPIC
    queue_id: str | None  # REAL_QID
    unique_key: str | None
    producer_group: str | None
    born_timestamp: int
    store_timestamp: int  # of the half message
    age: int  # from bornTimestamp to the log's last record
    checks: int
    copies: int  # how often the broker has appended the half message again
    half_offset: int  # queue offset of the newest copy in its topic of half messages
    physical_offset: int  # of the half message
    last_physical_offset: int  # of the newest copy
    end_physical_offset: int | None  # of what ended it: the committed record, an op, the discard
    end_timestamp: int | None
    op_physical_offset: int | None


class DelayedRow(NamedTuple):
    """One delayed message. Times in milliseconds; None: there is none."""

    state: str  # delays.DelayState
    by: str  # "level" or "timer"
    level: int | None
    due: int
    late: int | None  # how long before the log's last record it was due, if not delivered
    topic: str | None  # REAL_TOPIC
    queue_id: str | None  # REAL_QID
    unique_key: str | None
    reconsume_times: int
    born_timestamp: int
    store_timestamp: int
    queue_offset: int  # in its level's queue, or the timer topic's
    physical_offset: int
    delivery_physical_offset: int | None


OPEN = (
    transactions.TransactionState.PENDING,
    transactions.TransactionState.DISCARDED,
    transactions.TransactionState.ABANDONED,
)
ENDED = (delays.DelayState.DELIVERED, delays.DelayState.DELETED)
_HALF_TOPICS = (
    message.HALF_TOPIC,
    message.OP_TOPIC,
    message.ROCKSDB_HALF_TOPIC,
    message.ROCKSDB_OP_TOPIC,
)
_DELAY_TOPICS = (delay_levels.SCHEDULE, message.TIMER_TOPIC)


def transaction_rows(store: OpenedStore, everything: bool, notes: Notes) -> list[TransactionRow]:
    """Transactions that are pending, discarded or abandoned; `everything`: all of them.

    Raises StoreError where the store's files cannot be read.
    """
    rows, left = [], Counter[str]()
    if not everything and _has_none(store, _HALF_TOPICS):
        return []
    gathered, position, in_rocksdb = gathered_transactions(store, notes)
    asked = 0  # by RocksDB's rows
    for found in transactions.resolve(gathered, position, in_rocksdb):
        asked += found.in_rocksdb and found.state == transactions.TransactionState.PENDING
        if everything or found.state in OPEN:
            rows.append(transaction_row(store, found, gathered.last_timestamp))
        else:
            left[found.state] += 1
    _note_unlisted(left, notes)
    if asked and store.given and store.given.get("transRocksDBEnable") != "true":
        notes.note(
            f"{asked:,} of {message.ROCKSDB_HALF_TOPIC} pending: a broker asks about these with "
            "transRocksDBEnable=true alone"
        )
    return rows


def delayed_rows(store: OpenedStore, everything: bool, notes: Notes) -> list[DelayedRow]:
    """Delayed messages that are not delivered, or will be again; `everything`: all of them.

    Raises StoreError where the store's files cannot be read.
    """
    rows, left = [], Counter[str]()
    if not everything and _has_none(store, _DELAY_TOPICS):
        return []
    gathered, levels, read = gathered_delays(store, notes)
    for found in delays.resolve(gathered, levels, read):
        if everything or found.state not in ENDED:
            rows.append(delayed_row(store, found, gathered.last_timestamp))
        else:
            left[found.state] += 1
    if read.levels is None and any(row.by == "level" for row in rows):
        note_no_offsets(store, notes)
    _note_unlisted(left, notes)
    return rows


def _has_none(store: OpenedStore, topics: tuple[str, ...]) -> bool:
    """Whether a log has no message of these topics, as its queues tell.

    There is no queue of them, and the sizes in the other queues' entries add up to all of each
    segment's records. Else a message is in no queue: its queue is gone, or it has the prepared type
    in its own topic, as before 4.3.0; or it is in two. Then the log must be read.
    """
    log = store.log
    starts = np.array([each.start for each in log.segments])
    sums, ends = starts.astype(np.float64), starts.copy()
    try:
        if any(map(store.queues.of, topics)):
            return False
        # an LMQ's entries name what another queue has
        for topic in (each for each in store.queues.topics() if not each.startswith(LMQ_PREFIX)):
            for queue_id, batch in store.queues.of(topic):
                with closing(store.queues.open(topic, queue_id, batch)) as queue:
                    for some in queue.arrays(0):
                        places = some["physicalOffset"].astype(np.int64)
                        sizes = some["size"].astype(np.int64)
                        there = np.flatnonzero(places >= log.start)
                        which = np.searchsorted(starts, places[there], "right") - 1
                        sums += np.bincount(which, sizes[there], len(starts))
                        np.maximum.at(ends, which, (places + sizes)[there])
        return bool((sums == ends).all()) and not any(
            len(step.rows)
            for end, each in zip(ends.tolist(), log.segments, strict=True) if end != each.end
            for step in log.steps(end, each.end)
        )  # fmt: skip
    except (BadQueue, NoRecord, NotInLog):
        return False


def gathered_transactions(
    store: OpenedStore, notes: Notes
) -> tuple[Gathered, int, HalfRows | None]:
    """The arguments of `transactions.resolve`: marks, how far the broker has checked, and what
    RocksDB has of half messages, if the log has some in RocksDB's topic.
    """
    gathered = gather_noted(store, transactions.concerns, notes)
    position = half_position(store.folder, notes)
    return gathered, position, half_rows(store, gathered, notes)


def gathered_delays(
    store: OpenedStore, notes: Notes
) -> tuple[Gathered, Mapping[int, int], delays.Read]:
    """The arguments of `delays.resolve`: marks, each level's ms, how far the broker was."""
    read = read_progress(store.folder, notes)
    levels = level_delays(store, notes)
    gathered = gather_noted(store, delays.concerns, notes)
    note_skipped(delays.unread(gathered, levels), None, notes)
    return gathered, levels, with_timers(store, gathered, read, notes)


def message_events(
    store: OpenedStore, unique_key: str, origin_id: str, places: Iterable[int] | None, notes: Notes
) -> list[Event]:
    """The steps of a message's life in the log's order; none where the log does not have it.

    origin_id: the broker's id that its retries name; "" for none. places: where the index has
    records with the UNIQ_KEY; None: the log is read. Raises StoreError where the store's files
    cannot be read.
    """
    follows = Follows(unique_key, origin_id)
    levels = level_delays(store, notes)
    gathered = None if places is None else _gathered_few(store, places, notes)
    if gathered is None:
        gathered = gather_noted(store, follows, notes, every=True)
    read = read_progress(store.folder, notes)
    known = TraceSettings(
        store.profile.split_properties, levels, with_timers(store, gathered, read, notes),
        half_position(store.folder, notes), half_rows(store, gathered, notes),
    )  # fmt: skip
    return events(store.log, gathered, follows, known)


def _gathered_few(store: OpenedStore, places: Iterable[int], notes: Notes) -> Gathered | None:
    """The marks at these places and the ops that name them; None: the log must be walked."""

    def op_queue(topic: str) -> Queue:
        queue = store.queue(topic, 0, False)
        if queue_gaps(store, [queue], notes).gaps:
            raise _OpsMissingError(f"{queue.folder}: does not have all of the log")
        return queue

    split = store.profile.split_properties
    try:
        return gather_few(store.log, places, op_queue, split, _near_end(store))
    except (_OpsMissingError, BadQueue, NoRecord, NotInLog) as error:
        notes.note(f"{error}; the log is read instead")
        return None


def _near_end(store: OpenedStore) -> int:
    """A place near the log's end where a record is: the index's last, 0 where it has none."""
    try:
        index = store.index()
        if not index.files:
            return 0
        with index.open(0) as file:
            return file.header.end_offset
    except BadIndex:
        return 0


def level_delays(store: OpenedStore, notes: Notes) -> delay_levels.LevelDelays:
    """Each level's milliseconds: of messageDelayLevel, or what the schedule topic's queues show.

    A queue entry there has the time of delivery in place of a tagsCode.
    """
    found = delay_levels.LevelDelays(dict(enumerate(store.settings.delays, 1)))
    for queue_id, batch in store.queues.of(delay_levels.SCHEDULE)[: delay_levels.LEVELS_MOST]:
        level = queue_id + 1
        try:
            queue = None if batch else store.queue(delay_levels.SCHEDULE, queue_id, False)
            shown = None if queue is None else delay_levels.last_delay(queue, store.log, level)
            found.keep(level, delay_levels.shown_in(queue, store.log) if queue is not None else ())
        except BadQueue as error:
            notes.note(f"{error}; messageDelayLevel counts")
            continue
        if shown is not None and shown != found.get(level):
            notes.note(
                f"level {level} is {shown} ms by its queue; messageDelayLevel says "
                f"{found.get(level, 'nothing of it')}"
            )
            found[level] = shown
    return found


def gather_noted(store: OpenedStore, keep: Keep, notes: Notes, every: bool = False) -> Gathered:
    """`gather_shown`, with notes of what was skipped or not read."""
    return _noted(store, gather_shown(store, keep, notes, every), notes)


def gather_shown(
    store: OpenedStore, keep: Keep, notes: Notes, every: bool = False,
    also: Callable[[Step], None] | None = None,
) -> Gathered:  # fmt: skip
    log = store.log
    notes.to_scan += log.end - log.start
    before = notes.scanned

    def walked(at: int) -> None:
        notes.scanned = before + at - log.start

    with notes.watching():
        split = store.profile.split_properties
        gathered = gather(log, keep, split, every, walked, store.behind, also)
        notes.scanned = before + log.end - log.start
    return gathered


def _noted(store: OpenedStore, gathered: Gathered, notes: Notes) -> Gathered:
    log = store.log
    for error in gathered.breaks:
        store.note_break(notes, error)
    if gathered.unread_to > log.start and not log.is_zero_from(gathered.unread_to):
        notes.note(
            f"before physical {gathered.unread_to} the log has lost records: what began before "
            "them may have ended in them"
        )
    note_skipped(gathered.skipped, gathered.skips, notes)
    return gathered


def note_no_offsets(store: OpenedStore, notes: Notes) -> None:
    """Note that the broker will not know how far it had come with its delay levels."""
    notes.note(f"{store.path}/config/delayOffset.json is missing: what is delivered will be again")


def note_skipped(skipped: list[Skipped], many: int | None, notes: Notes) -> None:
    """Note the first skipped values, and how many more there are; many: of all, if known."""
    many = len(skipped) if many is None else many
    for each in skipped[:_NAMED_MOST]:
        notes.note(f"{each}; skipped")
    if many > _NAMED_MOST:
        notes.note(f"{many - _NAMED_MOST} more like that")


def _note_unlisted(many: Counter[str], notes: Notes) -> None:
    for state, count in many.items():
        notes.note(f"{count} {state}: not listed without --all")


def transaction_row(
    store: OpenedStore, found: transactions.Transaction, now: int
) -> TransactionRow:
    """A transaction with its records' fields; now: milliseconds. Raises NoRecord, NotInLog."""
    half = store.log.record_at(found.first)
    properties = message.parse_properties(half.properties, store.profile.split_properties)
    ended = None if found.end == NONE else store.log.record_at(found.end).store_timestamp
    return TransactionRow(
        str(found.state), properties.get("REAL_TOPIC"), properties.get("REAL_QID"),
        properties.get("UNIQ_KEY"), properties.get("PGROUP"), half.born_timestamp,
        half.store_timestamp, now - half.born_timestamp, found.checks, found.copies,
        found.half_offset, found.first, found.last, _or_none(found.end), ended, _or_none(found.op),
    )  # fmt: skip


def delayed_row(store: OpenedStore, found: delays.Delayed, now: int) -> DelayedRow:
    """A delayed message with its record's fields; now: milliseconds. Raises NoRecord, NotInLog."""
    record = store.log.record_at(found.physical_offset)
    properties = message.parse_properties(record.properties, store.profile.split_properties)
    is_late = found.due < now and found.delivery == NONE
    return DelayedRow(
        str(found.state), "level" if found.level else "timer", found.level or None, found.due,
        now - found.due if is_late else None, properties.get("REAL_TOPIC"),
        properties.get("REAL_QID"), properties.get("UNIQ_KEY"), record.reconsume_times,
        record.born_timestamp, record.store_timestamp, found.queue_offset, found.physical_offset,
        _or_none(found.delivery),
    )  # fmt: skip


def _or_none(offset: int) -> int | None:
    return None if offset == NONE else offset


# ---
# Counts transactions and delayed messages by their state at the log's end, in one pass over it.


class FateSums(NamedTuple):
    """Counts by state, and the first that have not ended well.

    delayed: by ("level" or "timer", state). last_timestamp: of the log's last record, milliseconds.
    """

    transactions: dict[str, int]
    open_transactions: list[TransactionRow]
    delayed: dict[tuple[str, str], int]
    open_delayed: list[DelayedRow]
    last_timestamp: int


def fate_sums(store: OpenedStore, most: int, notes: Notes, gathered: Gathered) -> FateSums:
    """Count all, and list at most `most` of each kind that are open.

    Open are those that `reput transactions` and `reput delayed` list without --all. gathered: of
    `any_fate`. Raises StoreError where the store's files cannot be read.
    """
    read, levels = read_progress(store.folder, notes), level_delays(store, notes)
    position = half_position(store.folder, notes)
    _noted(store, gathered, notes)
    read = with_timers(store, gathered, read, notes)
    rows = half_rows(store, gathered, notes)
    of_delays = _only(gathered, delays.concerns(gathered.marks))
    note_skipped(delays.unread(of_delays, levels), None, notes)
    now = gathered.last_timestamp
    states = Counter[str]()
    open_transactions: list[TransactionRow] = []
    for found in transactions.resolve(
        _only(gathered, transactions.concerns(gathered.marks)), position, rows
    ):
        states[found.state] += 1
        if found.state in OPEN and len(open_transactions) < most:
            open_transactions.append(transaction_row(store, found, now))
    delayed = Counter[tuple[str, str]]()
    open_delayed: list[DelayedRow] = []
    for each in delays.resolve(of_delays, levels, read):
        by = "level" if each.level else "timer"
        delayed[by, each.state] += 1
        if each.state not in ENDED and len(open_delayed) < most:
            open_delayed.append(delayed_row(store, each, now))
    if read.levels is None and any(by == "level" and state not in ENDED for by, state in delayed):
        note_no_offsets(store, notes)
    return FateSums(states, open_transactions, delayed, open_delayed, now)


def _only(gathered: Gathered, wanted: npt.NDArray[np.bool_]) -> Gathered:
    return gathered._replace(marks=gathered.marks[wanted])
