"""Where dispatch goes on: how far a set of derived files goes, and whether it is of this log.

ReputMessageService begins where the queues end (DefaultMessageStore.start), and never checks from
which log they were derived. Here the last entry of each queue, and of the newest index file, must
be the entry that its record gives.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from reput.store_format.derived import queue_files
from reput.store_format.derived.extent import IndexTail, QueueTail, tail
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader
from reput.store_format.dispatch.dispatch import key_hashes
from reput.store_format.dispatch.scan import (
    Buffers,
    End,
    IndexPuts,
    NamedQueue,
    Read,
    Runs,
    ScanRules,
    scan,
)
from reput.store_format.faults import Fault
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.segments import Stretch
from reput.store_format.message.message import SCHEDULE_TOPIC
from reput.store_format.release.settings import Settings

_WINDOW_BYTES = 16 << 10  # most records are shorter; longer records are read too
_OTHER_LOG = "the derived files are not of this log, or hold more than it does"


@dataclass(frozen=True)
class DispatchedLog:
    """A log to be dispatched: how it is read, and where it is. Offsets are physical.

    stop: where its last segment ends, or where a log in use ended.
    there: in a log that is being copied, where the bytes end that were copied.
    """

    read: Read
    start: int  # of the first segment
    stop: int
    segment_bytes: int
    there: int = 1 << 63

    def segment_of(self, at: int) -> int:
        return at - at % self.segment_bytes


class QueueEnd(NamedTuple):
    """Where one queue ends: its next entry's position, and its last record's physical end."""

    entries: int
    offset: int


class Position(NamedTuple):
    """What derived files hold. Offsets are physical."""

    ends: dict[NamedQueue, QueueEnd]  # of the queues that have an entry
    queues: int  # no queue has an entry of a record from here on
    index_from: int  # the index may lack keys of records after this one; see `indexed`
    indexed: bool  # whether the index has the keys of the record at `index_from`
    index_full: bool  # whether the next message opens an index file, as no file has room
    timestamp: int  # storeTimestamp of the last record that queues or index have; 0 for none
    doubtful: frozenset[NamedQueue] = frozenset()  # queues whose end may have been lost

    @property
    def first(self) -> int:
        """The first record to be dispatched, for queues or index."""
        return min(self.queues, self.index_from)


class Dispatched(NamedTuple):
    """What one record gives: its queues' entries, its keys' hashes, its storeTimestamp."""

    entries: dict[NamedQueue, queue_files.Entries]
    hashes: frozenset[int]
    timestamp: int


def find_position(
    store: Folder, log: DispatchedLog, settings: Settings, rules: ScanRules
) -> Position:
    """Where dispatch goes on for the derived files at `store`.

    Reads the ends of the queues and of the newest index file, and the records they point to.
    Raises BadQueue and BadIndex (StoreErrors) where a queue or index file is not this log's.
    """
    ends = tail(store, settings)
    asked = _Asked(log, rules)
    timestamp = 0
    for queue in ends.queues:
        timestamp = max(timestamp, _check_queue(store.path, queue, log, asked))
    queues = min(max(ends.end, log.start), log.stop)
    index, indexed, newest = queues, False, ends.newest_index
    if settings.builds_index:
        index = log.start
        if newest is not None:
            at, time = _check_index(store.storage, newest, log, settings, asked)
            index, indexed = max(at, log.start), at >= log.start
            timestamp = max(timestamp, time)
    of_queues = {NamedQueue(t.topic, t.queue_id, t.batch): t for t in ends.queues}
    known = {
        key: QueueEnd(t.entries_end, t.end)
        for key, t in of_queues.items()
        if t.greatest_offset >= 0
    }
    doubtful = frozenset(key for key, t in of_queues.items() if t.may_be_cut)
    full = settings.builds_index and (newest is None or newest.full)
    return Position(known, queues, index, indexed, full, timestamp, doubtful)


class _Asked:
    def __init__(self, log: DispatchedLog, rules: ScanRules) -> None:
        self._log, self._rules = log, rules
        self._buffers = Buffers(1, window_bytes=_WINDOW_BYTES)

    def record(self, at: int) -> Dispatched | None:
        """What the record at an offset gives; None where no sound record is."""
        log = self._log
        if not log.start <= at < log.stop:
            return None
        segment = log.segment_of(at)
        stretch = Stretch(segment, segment + log.segment_bytes, at, at + 1, at)
        entries: dict[NamedQueue, queue_files.Entries] = {}
        hashes: set[int] = set()
        end = End()
        for out in scan(log.read, stretch, self._rules, self._buffers):
            if isinstance(out, Runs):
                entries |= _entries(out)
            elif isinstance(out, IndexPuts):
                hashes |= set(key_hashes(out.hashes).tolist())
            else:
                end = out
        if not end.records:
            return None
        return Dispatched(entries, frozenset(hashes), end.last_timestamp)


def _entries(out: Runs) -> dict[NamedQueue, queue_files.Entries]:
    runs, found = out.runs, {}
    for number, key in enumerate(out.queues):
        at, count = int(runs.entries_at[number]), int(runs.count[number])
        raw = runs.entries[at : at + count * queue_files.entry_bytes(key.batch)].copy()
        found[key] = queue_files.decode_entries(raw, key.batch)
    return found


def _check_queue(store: str, queue: QueueTail, log: DispatchedLog, asked: _Asked) -> int:
    """The storeTimestamp of a queue's last record; 0 where it has expired or there is none."""
    if queue.greatest_offset < log.start:
        return 0
    path = queue_files.queue_folder(store, queue.topic, queue.queue_id, queue.batch)
    record = asked.record(queue.greatest_offset)

    def bad(field: str, value: int, reason: str) -> queue_files.BadQueue:
        at = (queue.entries_end - 1) * queue_files.entry_bytes(queue.batch)
        return queue_files.BadQueue(
            path, at, field, value, f"of the last entry: {reason}: {_OTHER_LOG}"
        )

    if record is None:
        raise bad("physicalOffset", queue.greatest_offset, "no sound record stands there")
    entries = record.entries.get(NamedQueue(queue.topic, queue.queue_id, queue.batch))
    if entries is None or not len(entries):
        raise bad("physicalOffset", queue.greatest_offset, "that record is in other queues")
    size = queue.end - queue.greatest_offset
    if size != int(entries[0]["size"]):
        raise bad("size", size, f"that record has {int(entries[0]['size'])} bytes")
    if queue.tags_code not in entries["tagsCode"].tolist():
        said = f"that record has {int(entries[0]['tagsCode'])}"
        if queue.topic == SCHEDULE_TOPIC:  # tagsCode: storeTimestamp plus the level's delay
            said += " by messageDelayLevel (give the broker's with --set)"
        raise bad("tagsCode", queue.tags_code, said)
    return record.timestamp


def _check_index(
    storage: InputStorage, newest: IndexTail, log: DispatchedLog, settings: Settings, asked: _Asked
) -> tuple[int, int]:
    """(physical offset, storeTimestamp) of the last indexed message; (-1, 0) if there is none."""
    header = newest.header
    if not header.entries:  # the header holds the end values of the file before
        return (header.end_offset if header.end_timestamp > 0 else -1), header.end_timestamp
    slots, most = settings.max_hash_slot_num, settings.max_index_num
    with IndexFileReader(storage, newest.path, slots, most) as file:
        last = file.entry(header.entries)
    if last.physical_offset < log.start:
        return last.physical_offset, header.end_timestamp

    def bad(field: str, value: int, reason: str) -> BadIndex:
        return BadIndex(newest.path, 0, field, value, f"{reason}: {_OTHER_LOG}")

    # endPhyOffset is one more: the mark of a writer that was killed (writer/index_folder)
    if header.end_offset - last.physical_offset not in (0, 1):
        raise bad("endPhyOffset", header.end_offset, f"the last entry has {last.physical_offset}")
    record = asked.record(last.physical_offset)
    if record is None:
        raise bad("endPhyOffset", header.end_offset, "no sound record stands there")
    if last.key_hash not in record.hashes:
        raise bad("keyHash", last.key_hash, f"no key of the record at {last.physical_offset}")
    if header.end_timestamp != record.timestamp:
        raise bad("endTimestamp", header.end_timestamp, f"that record has {record.timestamp}")
    return last.physical_offset, record.timestamp


@dataclass
class LogRest:
    """The log after a position, up to its end. Offsets are physical."""

    start: int
    end: int
    fault: Fault = Fault.NONE  # why the log ends there
    records: int = 0
    entries: int = 0  # how many the queues lack
    index_puts: int = 0  # how many the index lacks
    opens_index: bool = False  # whether a message opens an index file, as no file has room
    last_record: int = -1
    last_timestamp: int = 0  # milliseconds
    last_dispatched: int = -1  # storeTimestamp of the last record with a queue entry

    @property
    def nothing_new(self) -> bool:
        """Whether the derived files hold all of the log already."""
        return not (self.entries or self.index_puts or self.opens_index)


def look_ahead(
    log: DispatchedLog,
    position: Position,
    rules: ScanRules,
    seen: Callable[[Runs], None],
    stretch_bytes: int,
) -> LogRest:
    """Scan the log from a position on to its end, or its first fault; keeps nothing.

    seen: called with the runs of entries that the queues lack; may raise.
    """
    buffers = Buffers(min(stretch_bytes, log.segment_bytes))
    ahead = LogRest(position.first, position.first)
    while ahead.end < log.stop:
        at, segment = ahead.end, log.segment_of(ahead.end)
        # a segment that is being copied ends at `there`: a record that goes on is not whole yet
        segment_end = min(segment + log.segment_bytes, log.there)
        of_queues = at >= position.queues
        of_index = at > position.index_from or (at == position.index_from and not position.indexed)
        stop = min(at + stretch_bytes, segment_end, log.stop)
        if not of_index:  # the record that the index has already, alone
            stop = min(stop, position.index_from + 1)
        if not of_queues:
            stop = min(stop, position.queues)
        for out in scan(log.read, Stretch(segment, segment_end, at, stop, at), rules, buffers):
            if isinstance(out, Runs) and of_queues:
                seen(out)
                ahead.entries += int(out.runs.count.sum())
            elif isinstance(out, IndexPuts) and of_index:
                ahead.index_puts += len(out.hashes)
            elif isinstance(out, End):
                ahead.end, ahead.fault = out.next, out.fault
                ahead.records += out.records
                if out.records:
                    ahead.last_record, ahead.last_timestamp = out.last_record, out.last_timestamp
                if out.last_dispatched >= 0:
                    ahead.last_dispatched = out.last_dispatched
                ahead.opens_index |= of_index and position.index_full and out.records > 0
        if ahead.fault not in (Fault.NONE, Fault.BLANK):
            break
    return ahead
