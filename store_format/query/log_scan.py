"""Reads the log for messages that queues and index lack, after finding what they lack."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.store_format.derived.index_header import IndexHeader
from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queues import Queue
from reput.store_format.faults import Fault
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog, record_of, records_of
from reput.store_format.log.rules import reaches_index, reaches_queue
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore, StoredMessage
from reput.store_format.rocksdb.database import RocksDBError
from reput.store_format.rocksdb.rows import RocksDBIndex

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter
    from reput.store_format.filter.rows import Verdicts
    from reput.store_format.log.walk import Step

_REPLACED = "\ufffd"  # Java's text for malformed bytes, which the text does not tell


def needle_of(text: str) -> bytes:
    """The bytes of this text in any record; empty if they are not known."""
    return b"" if _REPLACED in text else text.encode("utf-8", "surrogatepass")


def scan(
    store: OpenedStore, start: int, stop: int, needle: bytes, notes: Notes,
    chosen: "Filter | None" = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages in [start, stop) whose records contain `needle`, in the log's order.

    chosen: only messages that this filter wants. Damage is noted. What follows it, up to the
    segment's end, is not read: it may be stale.
    """
    notes.to_scan += max(stop - start, 0)
    with notes.watching():
        at = start
        while at < stop:
            try:
                for step, verdicts in _steps(store, at, stop, chosen):
                    yield from _messages(store, step, verdicts, needle, chosen)
                    notes.scanned += step.next - at
                    at = step.next
                return
            except NoRecord as error:
                notes.lacks(
                    f"{error}; what follows in this segment is not read: `reput check` shows it"
                )
                at = store.log.next_start(error.place)
            except NotInLog:
                return


def _steps(
    store: OpenedStore, at: int, stop: int, chosen: "Filter | None"
) -> Iterator[tuple["Step", "Verdicts | None"]]:
    """The log's steps, with the filter's verdicts on their rows."""
    if chosen is None:
        for step in store.log.steps(at, stop):
            yield step, None
        return
    from reput.store_format.query.all_cores import judged_steps

    judge = partial(chosen.judge, split_properties=store.profile.split_properties)
    yield from judged_steps(store.log, at, stop, judge)


def _messages(
    store: OpenedStore, step: "Step", verdicts: "Verdicts | None", needle: bytes,
    chosen: "Filter | None",
) -> Iterator[StoredMessage]:  # fmt: skip
    if verdicts is None or chosen is None:
        for number in _rows_with(step, needle):
            yield store.message(record_of(step, number, store.log.rules))
        return
    from reput.store_format.filter.rows import Match

    numbers = np.flatnonzero(verdicts != Match.NO)
    if needle:
        numbers = np.intersect1d(numbers, np.array(list(_rows_with(step, needle)), np.int64))
    sure = (verdicts[numbers] == Match.YES).tolist()
    messages = map(store.message, records_of(step, numbers, store.log.rules))
    for message, yes in zip(messages, sure, strict=True):
        if yes or message.wanted_by(chosen):
            yield message


def _rows_with(step: "Step", needle: bytes) -> Iterator[int]:
    """The numbers of the rows whose records contain these bytes."""
    if not needle:
        yield from range(len(step.rows))
        return
    starts, raw = step.rows["at"], step.window.tobytes()
    found = raw.find(needle, int(starts[0]))
    while found >= 0:
        number = int(np.searchsorted(starts, found, side="right")) - 1
        yield number
        if number + 1 == len(starts):
            return
        found = raw.find(needle, int(starts[number + 1]))


# ---
# The parts of the log that derived files lack: there a query reads the log itself.

_LOOKED_AT = 256  # records after the end of derived files that are read one by one

Gap = tuple[int, int]  # physical offsets [start, stop)


def index_gaps(store: OpenedStore, notes: Notes) -> list[Gap]:
    """The stretches of the log with messages with keys that no index file covers.

    Only a file's first and last message are compared with the log. If the next file does not begin
    with the next message with a key after a file's last one, that message is missing.
    """
    if store.index_gaps is None:
        store.index_gaps = _index_gaps(store, notes)
    for start, _ in store.index_gaps:
        notes.note(f"the index does not have the log from {start} on: it is read there")
    return store.index_gaps


def _index_gaps(store: OpenedStore, notes: Notes) -> list[Gap]:
    log, in_rocksdb = store.log, store.rocksdb_index()
    if in_rocksdb is not None:
        return _rocksdb_gaps(store, in_rocksdb, notes)
    try:
        headers = _headers(store)
    except BadIndex as error:
        notes.note(f"{error}; the log is read instead")
        return [(log.start, log.end)]
    gaps, covered = [], log.start
    last = log.start  # last message of the file before, of which a full file may lack keys
    for header in headers:
        if header.end_offset < log.start:
            continue
        begin = header.begin_offset
        if begin > covered:
            first, end = _extent(log, begin)
            start = _first(store, covered, _is_indexed, notes)
            if start is not None and start < first:
                gaps.append((last, end))  # a file that is gone may have had some of its keys
        try:
            record = log.record_at(header.end_offset)
            last, covered = log.start_of(header.end_offset), record.physical_offset + record.size
        except (NoRecord, NotInLog) as error:
            notes.note(f"the index ends at a message that the log does not have: {error}")
            return [(log.start, log.end)]
    if headers and headers[-1].next_entry >= store.settings.max_index_num:
        covered = max(last, log.start)
    start = _first(store, covered, _is_indexed, notes)
    return gaps if start is None else [*gaps, (start, log.end)]


def _extent(log: LogReader, place: int) -> Gap:
    """[start, stop) of the record at a physical offset, or nothing where the log has none."""
    try:
        start = log.start_of(place)
    except NotInLog:
        return place, place
    try:
        return start, place + log.record_at(place).size
    except NoRecord:
        return start, start


def _rocksdb_gaps(store: OpenedStore, index: RocksDBIndex, notes: Notes) -> list[Gap]:
    """The parts of the log that an index in RocksDB lacks.

    It is compared with the log at the log's first message with a UNIQ_KEY, and at the index's last.
    """
    log = store.log
    try:
        start = _first(store, log.start, lambda message: message.unique_key is not None, notes)
        if start is not None and start < index.last_offset:
            first = store.message(log.record_from(start))
            key, place = first.unique_key or "", first.record.physical_offset
            if not index.has(first.topic, key, first.store_timestamp, place):
                notes.note(f"{index.database.folder}: does not have the log's first messages")
                return [(log.start, log.end)]
        last = max(index.last_offset, log.start)
        covered = last + log.record_at(last).size
    except (NoRecord, NotInLog, RocksDBError) as error:
        notes.note(f"{error}; the log is read instead of the index in RocksDB")
        return [(log.start, log.end)]
    start = _first(store, covered, _is_indexed, notes)
    return [] if start is None else [(start, log.end)]


def _headers(store: OpenedStore) -> list[IndexHeader]:
    headers = []
    index = store.index()
    for number in reversed(range(len(index.files))):
        with index.open(number) as file:
            if file.header.entries:
                headers.append(file.header)
    return headers


def _next(store: OpenedStore, at: int, notes: Notes) -> tuple[int | None, StoredMessage | None]:
    """(offset of the next record: None at the log's end, `at` at damage; the message at `at`)."""
    log = store.log
    if at >= log.end:
        return None, None
    try:
        record = log.record_from(at)
    except NotInLog:  # a hole
        return next((each.start for each in log.segments if each.start > at), None), None
    except NoRecord as error:
        end = log.segment_at(at).end
        if error.fault == Fault.BLANK:
            return (None if end >= log.end else end), None
        if end >= log.end:
            if error.fault != Fault.ZEROS:
                notes.note(f"the log ends there: {error}")
            return None, None
        return (None if error.fault == Fault.ZEROS and log.is_zero_from(end) else at), None
    return record.physical_offset + record.size, store.message(record)


def _is_indexed(message: StoredMessage) -> bool:
    return reaches_index(message.record.sys_flag) and bool(message.unique_key or message.keys)


class Lacking(NamedTuple):
    """What of the log queues may lack: the stretches to look in, and which messages it is there."""

    gaps: list[Gap]
    lacks: Callable[[StoredMessage], bool]

    def note(self, notes: Notes) -> None:
        for start, _ in self.gaps:
            notes.note(f"the queues may not have the log from {start} on: it is read there")

    def messages(self, store: OpenedStore, notes: Notes) -> Iterator[StoredMessage]:
        for start, stop in self.gaps:
            yield from filter(self.lacks, scan(store, start, stop, b"", notes))


def queue_gaps(store: OpenedStore, queues: Sequence[Queue], notes: Notes) -> Lacking:
    """What of the log these queues may lack of their messages."""
    reached = _queued_to(store, queues)
    if not all(queue.may_be_cut() for queue in queues):
        try:
            headers = _headers(store)
        except BadIndex:
            headers = []
        for header in headers[-1:]:  # a message gets into its queue before it gets into the index
            if reached <= header.end_offset < store.log.end:
                with suppress(NoRecord):
                    reached = header.end_offset + store.log.record_at(header.end_offset).size
    return _lacking(store, queues, reached, (store.log.start, store.log.end), notes)


def log_gaps(store: OpenedStore, queues: Sequence[Queue], notes: Notes) -> Lacking:
    """What of the log no queue has. queues: all that the store has."""
    reached = _queued_to(store, queues)
    return _lacking(store, queues, reached, (store.log.start, reached), notes)


def _lacking(
    store: OpenedStore, queues: Sequence[Queue], reached: int, others: Gap, notes: Notes
) -> Lacking:
    """What queues lack of which all that keep their ends go as far as `reached`.

    others: of which stretch messages of other queues are not looked for.
    """
    log = store.log
    held = {tuple(q.folder.split("/")[-2:]): _held(store, q, reached) for q in queues}
    begun = max((each.start for each in held.values()), default=log.start)
    ended = min((each.stop for each in held.values()), default=reached)
    elsewhere = _HeldStretch(*others, 0)

    def lacks(message: StoredMessage) -> bool:
        own = held.get((message.topic, str(message.queue_id)), elsewhere)
        at, position = message.physical_offset, message.queue_offset
        return in_queue(message) and (at < own.start or (at >= own.stop and position >= own.end))

    gaps = list[Gap]()
    if begun > log.start:
        first = _first(store, log.start, lacks, notes)
        if first is not None and first < begun:
            gaps.append((first, begun))
            ended = max(ended, begun)
    first = _first(store, ended, lacks, notes)
    return Lacking(gaps if first is None else [*gaps, (first, log.end)], lacks)


class _HeldStretch(NamedTuple):
    """The stretch [start, stop) of the log of which a queue has its messages, at least."""

    start: int
    stop: int
    end: int  # behind `stop`, dispatch skips a message with a lower queueOffset


def _held(store: OpenedStore, queue: Queue, reached: int) -> _HeldStretch:
    """What a queue has of the log.

    Messages are dispatched in the log's order, so what another queue has reached all have; but not
    if files of this queue may be missing.
    """
    log, first = store.log, queue.first_if_cut()
    start = log.start if first is None else min(first.physical_offset, log.end)
    if queue.may_be_cut():
        return _HeldStretch(start, _queued_to(store, [queue]), queue.maximum())
    return _HeldStretch(start, reached, 0)


def _queued_to(store: OpenedStore, queues: Iterable[Queue]) -> int:
    lasts = (queue.last() for queue in queues)
    ends = [last.physical_offset + last.size for last in lasts if last is not None]
    return min(max([store.log.start, store.queues.dispatched_to(), *ends]), store.log.end)


def _first(
    store: OpenedStore, at: int, wanted: Callable[[StoredMessage], bool], notes: Notes
) -> int | None:
    """The offset of the first wanted message from `at` on; None without such a message.

    After many unwanted messages, or at damage, it is where the search ended.
    """
    for _ in range(_LOOKED_AT):
        following, message = _next(store, at, notes)
        if message is not None and wanted(message):
            return at
        if following is None:
            return None
        if following == at:
            return at
        at = following
    return at


def in_queue(message: StoredMessage) -> bool:
    """Whether a message is dispatched to its queue (CommitLogDispatcherBuildConsumeQueue)."""
    return reaches_queue(message.record.sys_flag)
