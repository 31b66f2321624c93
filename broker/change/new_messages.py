"""What the log has that the derived files lack, found before anything is written.

The log is read once from where the files end: what is new, into which queues it goes, and where the
log ends. A store that cannot be continued is refused here: live records after a fault, a queue that
has lost its last entries, an impossible queueOffset.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from reput.broker.change.position import DispatchedLog, LogRest, Position, QueueEnd, look_ahead
from reput.broker.writer.recovery import LogEnd, LogRecovery
from reput.store_format import names
from reput.store_format.derived.queue_files import decode_entries, entry_bytes
from reput.store_format.dispatch.runs import PositionRules, start_position
from reput.store_format.dispatch.scan import Buffers, NamedQueue, Runs, ScanRules, scan
from reput.store_format.faults import Fault, StoreError
from reput.store_format.layouts import RECORD_HEAD_BYTES
from reput.store_format.log.segments import FIND_FIRST, Stretch
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings

_STRETCH_BYTES = 64 << 20
_LEFT_OUT_SHOWN = 20


@dataclass
class New:
    """What the log has that the derived files lack."""

    position: Position
    ahead: LogRest
    queues: set[NamedQueue] = field(default_factory=set)  # those that get entries
    left_out: list[str] = field(default_factory=list)  # why a topic can be no folder's name
    unsafe: set[NamedQueue] = field(default_factory=set)
    lacking: list[str] = field(default_factory=list)  # what queues lack that the log has


@dataclass(frozen=True)
class Rules:
    profile: Profile
    settings: Settings
    scan: ScanRules
    places: PositionRules


class _Sorting:
    """Takes the runs of a scan, and notes which queues are new and which cannot be written."""

    def __init__(self, new: New) -> None:
        self.new = new
        self.gaps: dict[NamedQueue, QueueEnd] = {}  # queues with a next queueOffset past their end
        self.firsts: dict[NamedQueue, int] = {}  # the first queueOffset of queues without an entry
        self._known = set(new.position.ends)

    def __call__(self, out: Runs) -> None:
        for number, key in enumerate(out.queues):
            if not out.runs.count[number] or key in self.new.unsafe:
                continue
            at = int(out.runs.entries_at[number])
            place = int(decode_entries(out.runs.entries[at : at + 20])[0]["physicalOffset"])
            if key not in self._known:
                self._first(key, int(out.runs.first[number]), place)
            elif key not in self.new.queues and not key.batch:
                end = self.new.position.ends.get(key)
                if end is not None and int(out.runs.first[number]) > end.entries:
                    self.gaps[key] = end
            if key not in self.new.unsafe:
                self.new.queues.add(key)

    def _first(self, key: NamedQueue, first: int, place: int) -> None:
        """Note a queue without an entry. Raises StoreError for an impossible queueOffset."""
        try:
            names.check_queue_topic(key.topic)
        except names.UnsafeName as error:
            self.new.unsafe.add(key)
            if len(self.new.left_out) < _LEFT_OUT_SHOWN and str(error) not in self.new.left_out:
                self.new.left_out.append(str(error))
            return
        try:
            start_position(first, key.batch)
        except ValueError as error:
            raise StoreError(
                f"topic {key.topic!r}, queue {key.queue_id}: the record at physical offset "
                f"{place}: {error}; `reput rebuild` has ways to go on"
            ) from None
        self._known.add(key)
        self.firsts[key] = first


def find_new(
    log: DispatchedLog, recovery: LogRecovery, position: Position, rules: Rules,
    growing: bool = False, settled: bool = True, topics: Collection[str] | None = None,
) -> New:  # fmt: skip
    """Read once what is new in the log, and where the log ends.

    growing: the log's end may be about to be written, and is not judged.
    settled: False where the last record may be there in part. No CRC finds zeros in its
    properties, so that record waits until something follows it.
    topics: those of the broker's list, if there is one; all other topics were deleted.

    Raises DamageFound where live records follow a fault; StoreError for an impossible queueOffset,
    and for a queue that has lost entries before the new ones.
    """
    new = New(position, LogRest(position.first, position.first))
    sorting = _Sorting(new)
    new.ahead = look_ahead(log, position, rules.scan, sorting, _STRETCH_BYTES)
    missing = set() if growing else _without_files(log, position, rules.scan)
    missing = {key for key in missing if topics is None or key.topic in topics}
    lost = _find_lost(log, position, rules.scan, sorting, missing)
    refused = [(each.place, key) for key, each in lost.items() if key in sorting.gaps]
    if refused:
        place, key = min(refused)
        raise StoreError(
            f"{_folder(key)}: ends before its record at physical offset {place}, which other "
            "queues are past: it has lost a file or entries; `reput rebuild` has all"
        )
    ahead = new.ahead
    if not settled and ahead.fault not in (Fault.NONE, Fault.BLANK) and ahead.last_record >= 0:
        before = replace(log, stop=max(ahead.last_record, position.first))
        new = New(position, LogRest(position.first, position.first))
        new.ahead = look_ahead(before, position, rules.scan, _Sorting(new), _STRETCH_BYTES)
    new.lacking = [
        f"{_folder(key)}: {each.count:,} messages, the first at physical offset {each.place}, are "
        "in the log and not in the queue; `reput rebuild` has all"
        + _or_deleted(key, position, topics)
        for key, each in sorted(lost.items())
    ]
    if not growing and not _ends_in_zeros(log, new.ahead):
        ahead = new.ahead
        last = max(position.timestamp, ahead.last_timestamp)
        recovery.refuse_damage(LogEnd(log.start, ahead.end, position.first, last, ahead.fault))
    return new


def _or_deleted(key: NamedQueue, position: Position, topics: Collection[str] | None) -> str:
    """What a message adds where no list of topics tells whether a topic lost its queues or was
    deleted with them (TopicConfigManager.deleteTopicConfig).
    """
    if topics is not None or any(each.topic == key.topic for each in position.ends):
        return ""
    return " (unless the topic was deleted: config/topics.json, which would show it, is missing)"


@dataclass
class _Lost:
    """The records of the log whose entries a queue has lost."""

    place: int = -1  # physical offset of the first such record
    count: int = 0


def _without_files(log: DispatchedLog, position: Position, rules: ScanRules) -> set[NamedQueue]:
    """Queues without an entry that have messages in the last stretch before `position.queues`."""
    found: set[NamedQueue] = set()
    buffers = Buffers(min(_STRETCH_BYTES, log.segment_bytes))
    at = max(log.start, position.queues - _STRETCH_BYTES)
    while at < position.queues:
        segment = log.segment_of(at)
        segment_end = segment + log.segment_bytes
        stop = min(segment_end, position.queues)
        first = at if at == segment else FIND_FIRST
        for out in scan(log.read, Stretch(segment, segment_end, at, stop, first), rules, buffers):
            if isinstance(out, Runs):
                found.update(key for n, key in enumerate(out.queues) if out.runs.count[n])
        at = segment_end
    return {key for key in found - set(position.ends) if names.is_queue_topic(key.topic)}


def _find_lost(
    log: DispatchedLog,
    position: Position,
    rules: ScanRules,
    sorting: _Sorting,
    missing: set[NamedQueue],
) -> dict[NamedQueue, _Lost]:
    """The queues in doubt that lack entries of records before `position.queues`.

    In doubt are queues whose next record has a queueOffset beyond their end, those that may be
    cut, and those that are missing without a new record. Only for them the log is read again.
    If the log has no record for a gap, the gap is the log's own, and the queue goes on as in
    RocketMQ. A record whose queueOffset is below the queue's end is not lost: RocketMQ skips it.
    In a queue without an entry, records before one with queueOffset 0 are a deleted topic's.
    """
    none = QueueEnd(0, log.start)
    doubtful = {key: position.ends.get(key, none) for key in position.doubtful}
    doubtful |= dict.fromkeys(missing - set(sorting.firsts), none)
    doubtful |= {key: none for key, first in sorting.firsts.items() if first > 0}
    doubtful |= sorting.gaps
    lost: dict[NamedQueue, _Lost] = {}

    def seen(out: Runs) -> None:
        for number, key in enumerate(out.queues):
            end, count = doubtful.get(key), int(out.runs.count[number])
            if end is None or not count:
                continue
            at = int(out.runs.entries_at[number])
            raw = out.runs.entries[at : at + count * entry_bytes(key.batch)]
            places = decode_entries(raw, key.batch)["physicalOffset"]
            offsets_at, first = int(out.runs.offsets_at[number]), int(out.runs.first[number])
            offsets = (
                np.arange(first, first + count) if offsets_at < 0
                else out.runs.offsets[offsets_at : offsets_at + count]
            )  # fmt: skip
            if key not in position.ends and (offsets == 0).any():
                lost.pop(key, None)
                begin = int(np.flatnonzero(offsets == 0)[-1])
                places, offsets = places[begin:], offsets[begin:]
            before = sorting.firsts.get(key, 1 << 63)
            mine = places[(places >= end.offset) & (offsets >= end.entries) & (offsets < before)]
            if len(mine):
                found = lost.setdefault(key, _Lost(int(mine[0])))
                found.count += len(mine)

    start = min((max(end.offset, log.start) for end in doubtful.values()), default=log.stop)
    if start < position.queues:
        before = replace(log, stop=position.queues)
        look_ahead(
            before, Position({}, start, position.queues, False, False, 0), rules, seen,
            _STRETCH_BYTES,
        )  # fmt: skip
    return lost


def _folder(key: NamedQueue) -> names.QueuePath:
    kind = names.BATCH_CONSUME_QUEUE if key.batch else names.CONSUME_QUEUE
    return names.QueuePath(kind, key.topic, key.queue_id)


def _ends_in_zeros(log: DispatchedLog, ahead: LogRest) -> bool:
    """Whether the log ends where zeros begin, and all later segments begin with zeros too.

    A broker prepares a segment ahead: reading all its zeros would take as long as all else.
    """
    if ahead.fault != Fault.ZEROS:
        return False
    head = np.empty(RECORD_HEAD_BYTES, np.uint8)
    for segment in range(
        log.segment_of(ahead.end) + log.segment_bytes, log.stop, log.segment_bytes
    ):
        log.read(segment, head)
        if head.any():
            return False
    return True
