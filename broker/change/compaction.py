"""Brings `compaction/` to the log, as a broker's dispatch would have done (CompactionLog).

What the log has lost is cut off, and kept; what `compaction/` lacks is written behind its last
message. A broker does neither where its queues are complete, see store_format/query/compacted.py.
What it holds already stays whole: older messages may have left the log.

A record is written before its entry, and the entry is what counts: a killed run leaves less than
all, and the next one goes on.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from reput.broker.writer.recovery import LogCutter
from reput.store_format import layouts, names
from reput.store_format.derived.queue_files import QueueEntry
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Files, OpenFile, read_small, replace_small
from reput.store_format.notes import Notes
from reput.store_format.query import compacted
from reput.store_format.query.reader import OpenedStore
from reput.store_format.release.settings import Settings, settings_from

_WINDOW_BYTES = 1 << 20
_POSITIONS_MOST = 64 << 20
_LEAST_QUEUES = 5  # a log's file is as long as so many of its queue files, at least
_KINDS = (names.COMPACTION_LOG, names.COMPACTION_QUEUE)
_END = (-1, 0, 0, 0, 0, 0, -1, 0)  # SparseConsumeQueue.putEndPositionInfo


class Settled(NamedTuple):
    """How many messages were written to `compaction/`, and cut off it."""

    written: int = 0
    cut: int = 0

    @property
    def lines(self) -> list[str]:
        """What was done, as lines for people."""
        cut = f"{self.cut:,} messages that the log lost are cut off {names.COMPACTION}/"
        written = f"{self.written:,} messages of the log written to {names.COMPACTION}/"
        return [text for text, n in ((cut, self.cut), (written, self.written)) if n]


def settle(
    files: Files, store: Folder, release: str, given: Mapping[str, str],
    notes: Notes,
) -> Settled:  # fmt: skip
    """Bring the queues of compacted topics to the log. The caller holds the store's lock.

    files: of the store, which `storage` has at `store`; given: settings as text. notes: gets what
    is left out. Raises OSError, BadQueue, StoreError for a link: run again.
    """
    topics = compacted.compacted_topics(store, settings_from(given, release=release), release)
    if not topics:
        return Settled()
    written = cut = 0
    with OpenedStore(store, release, given, notes) as opened:
        queues = list(compacted.compacted_queues(opened, topics))
        sizes = _sizes(opened, queues)
        for queue in queues:
            own = _OwnLog(files, opened, queue, sizes)
            if queue.ahead:
                cut += own.cut()
                own.queue = compacted.compacted_queue(opened, queue.topic, queue.queue_id)
            new = own.write(notes)
            if new and opened.log.start and not own.queue.starts:
                notes.note(
                    f"{queue.folder(names.COMPACTION_LOG)}: is made of a log that begins at "
                    f"{opened.log.start:,}: what the broker kept of older messages is in the old "
                    "store alone; copy its folder first, where there is one"
                )
            written += new
    return Settled(written, cut)


def _sizes(opened: OpenedStore, queues: list[compacted.CompactedQueue]) -> tuple[int, int]:
    """Bytes of a log's file and of its queue file: those of the files that there are. A broker
    refuses to start on files of another length (MappedFileQueue.load).
    """
    found = dict(zip(_KINDS, _by_settings(opened.settings), strict=True))
    for kind in _KINDS:
        for queue in queues:
            there = opened.folder.listed(queue.folder(kind))
            sizes = [state.size for _, state in there if state is not None and state.size]
            if sizes:
                found[kind] = max(sizes)
                break
    return found[names.COMPACTION_LOG], found[names.COMPACTION_QUEUE]


def _by_settings(settings: Settings) -> tuple[int, int]:
    """The same by CompactionLog.getCompactionLogSize."""
    entries = settings.compaction_cq_mapped_file_size // layouts.BATCH_QUEUE_ENTRY_BYTES
    queue = max(entries, 2) * layouts.BATCH_QUEUE_ENTRY_BYTES
    whole, rest = divmod(settings.compaction_mapped_file_size, queue)
    if whole < _LEAST_QUEUES:
        return _LEAST_QUEUES * queue, queue
    return (whole if 0 < rest < queue >> 1 else whole + 1) * queue, queue


class _OwnLog:
    """The log and the queue of one queue of a compacted topic."""

    def __init__(
        self,
        files: Files,
        opened: OpenedStore,
        queue: compacted.CompactedQueue,
        sizes: tuple[int, int],
    ) -> None:
        self.files, self.opened, self.queue = files, opened, queue
        self.log_bytes, self.queue_bytes = sizes
        self.folders = tuple(queue.folder(kind) for kind in _KINDS)

    def files_at(self, start: int) -> list[OpenFile]:
        """A log's file and its queue file, made where a run was killed between them: a broker
        refuses to start with one of them alone (TopicPartitionLog.sanityCheck).
        """
        found = []
        for folder, length in zip(self.folders, (self.log_bytes, self.queue_bytes), strict=True):
            path = f"{folder}/{names.segment_name(start)}"
            there = self.files.exists(path)
            if not there:
                self.files.make_folder(folder)
            file = self.files.open(path) if there else self.files.create(path, length)
            if not there or not file.length():
                file.set_length(length)
                file.sync()
                self.files.sync_folder(folder)
            found.append(file)
        return found

    # --- cutting -----------------------------------------------------------------------------

    def cut(self) -> int:
        """Leave no message past the queue's end, and keep what is cut; how many messages it was."""
        end, gone = self.queue.queue_end or 0, 0
        kept: list[tuple[int, compacted.Entries]] = []
        for start in self.queue.starts:
            entries = compacted.entries_of(self.opened.folder, self.queue, start)
            good = int(np.searchsorted(entries["baseOffset"], end))
            gone += len(entries) - good
            if good or (not len(entries) and not gone):
                kept.append((start, entries[:good]))
        self._lower_position(end - 1)
        last, entries = (
            kept[-1] if kept else (self.queue.starts[0], np.empty(0, layouts.BATCH_QUEUE_ENTRY))
        )
        places = _after(entries) if len(entries) else last, last + entries.nbytes
        sizes = self.log_bytes, self.queue_bytes
        # the entries last: as long as one is there, the next run cuts again
        for folder, place, size in zip(self.folders, places, sizes, strict=True):
            window = np.empty(min(_WINDOW_BYTES, size), np.uint8)
            starts = [s for s in self.queue.starts if self._there(folder, s)]
            cutter = LogCutter(
                self.files, list(starts), size, window, f"{names.CUT}/{folder}", folder
            )
            cutter.cut(place, after_blank=bool(kept))
            for start in starts:  # without a message, too: both kinds have one set of names
                if start > last and self._there(folder, start):
                    self.files.remove(f"{folder}/{names.segment_name(start)}")
            self.files.sync_folder(folder)
        return gone

    def _there(self, folder: str, start: int) -> bool:
        return self.files.exists(f"{folder}/{names.segment_name(start)}")

    def _lower_position(self, last: int) -> None:
        """No message after the cut counts as compacted already (CompactionPositionMgr)."""
        path = f"{names.COMPACTION}/{names.COMPACTION_POSITIONS}"
        name = f"{self.queue.topic}_{self.queue.queue_id}"
        try:
            noted: dict[str, Any] = json.loads(read_small(self.files, path, _POSITIONS_MOST))
            positions = noted["queueOffsetMap"]
            if int(positions[name]) <= last:
                return
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return
        positions[name] = last
        replace_small(self.files, path, json.dumps(noted).encode())
        self.files.sync_folder(names.COMPACTION)

    # --- writing -----------------------------------------------------------------------------

    def write(self, notes: Notes) -> int:
        """Write what the log has after the last message; how many messages it was."""
        count = 0
        with closing(_Tail(self)) as tail:
            for each in compacted.lacking(self.opened, self.queue, notes):
                size = each.record.size
                if size + layouts.BLANK_BYTES > self.log_bytes:
                    notes.note(f"{tail.folder}: has no room for a message of {size:,} bytes")
                    continue
                raw = np.empty(size, np.uint8)
                self.opened.log.read_into(each.record.physical_offset, raw)
                tail.put(raw, each.entry, each.record.store_timestamp)
                count += 1
        return count


def _after(entries: compacted.Entries) -> int:
    """Where the record of the last entry ends in the queue's own log."""
    return int(entries[-1]["physicalOffset"]) + int(entries[-1]["size"])


class _Tail:
    """The end of a queue's own log, for appending (CompactionAppendMessageCallback)."""

    def __init__(self, own: _OwnLog) -> None:
        self._own, self.folder = own, own.queue.folder(names.COMPACTION_LOG)
        self._files: list[OpenFile] = []
        self._start = self._at = self._count = -1
        self._records, self._entries = bytearray(), bytearray()

    def put(self, raw: np.ndarray, message: QueueEntry, store_timestamp: int) -> None:
        if not self._files:
            self._open_last()
        own, size = self._own, len(raw)
        full = (self._count + 1) * layouts.BATCH_QUEUE_ENTRY_BYTES >= own.queue_bytes
        if full or size + layouts.BLANK_BYTES > own.log_bytes - self._at:
            self._end_file()
            self._roll(self._start + own.log_bytes)
        place = self._start + self._at
        raw[layouts.RECORD_AT.physicalOffset : layouts.RECORD_AT.physicalOffset + 8] = (
            np.frombuffer(place.to_bytes(8, "big"), np.uint8)
        )
        self._records += raw.tobytes()
        fields = (place, size, message.tags_code, store_timestamp, message.position, 1, -1, 0)
        self._entries += np.array([fields], layouts.BATCH_QUEUE_ENTRY).tobytes()
        self._at, self._count = self._at + size, self._count + 1
        if len(self._records) >= _WINDOW_BYTES:
            self._flush()

    def _open_last(self) -> None:
        own = self._own
        if not own.queue.starts:
            self._roll(0)
            return
        start = own.queue.starts[-1]
        entries = compacted.entries_of(own.opened.folder, own.queue, start)
        self._use(start, _after(entries) - start if len(entries) else 0, len(entries))

    def _roll(self, start: int) -> None:
        """Go on in a new file (TopicPartitionLog.roll)."""
        self.close()
        self._use(start, 0, 0)

    def _use(self, start: int, at: int, count: int) -> None:
        self._files = self._own.files_at(start)
        self._start, self._at, self._count = start, at, count

    def _end_file(self) -> None:
        """A full file ends in a BLANK, and its queue file in an entry of no message."""
        left = self._own.log_bytes - self._at
        self._records += np.array([(left, layouts.MAGIC_BLANK)], layouts.BLANK).tobytes()
        self._entries += np.array([_END], layouts.BATCH_QUEUE_ENTRY).tobytes()
        self._at, self._count = self._at + layouts.BLANK_BYTES, self._count + 1
        self._flush()

    def _flush(self) -> None:
        if not self._files:
            return
        ends = (self._at, self._count * layouts.BATCH_QUEUE_ENTRY_BYTES)
        for file, end, held in zip(self._files, ends, (self._records, self._entries), strict=True):
            if held:
                file.write_at(end - len(held), bytes(held))
                file.sync()
            held.clear()

    def close(self) -> None:
        """Write what is left, durably, and close the files."""
        self._flush()
        for file in self._files:
            file.close()
        self._files = []
