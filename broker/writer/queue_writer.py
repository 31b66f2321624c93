"""The ConsumeQueues of an open store: each queue's next position, and its files."""

from collections import OrderedDict
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived import queue_files
from reput.store_format.dispatch.runs import (
    NO_POSITION,
    REPEATED,
    PositionRules,
    QueueRuns,
    number_run,
    start_position,
)
from reput.store_format.dispatch.scan import NamedQueue
from reput.store_format.files.protocol import Bytes, Files, OpenFile
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, QUEUE_ENTRY
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE,
    QueuePath,
    check_queue_topic,
    queue_paths,
    segment_name,
    segments_among,
)
from reput.store_format.release.settings import OS_PAGE_BYTES, Settings

_OPEN_FILES = 256
_ANY_PLACE = 1 << 63  # past every physical offset
_NO_OFFSETS = np.empty(0, np.int64)


@dataclass
class QueueState:
    position: int  # of the next entry
    end: int  # the greatest physicalOffset + size among its entries, -1 for none


class _Found(NamedTuple):
    """The files of a queue as they were found; the first `kept` hold entries that stay."""

    path: str
    batch: bool
    starts: list[int]
    kept: int
    used: int  # bytes of entries that stay, in the last of these


class QueueWriter:
    """All queues of a store. With `writes` False only their positions are kept."""

    def __init__(
        self, files: Files, settings: Settings, rules: PositionRules, writes: bool = True
    ) -> None:
        self.files, self.rules, self.writes = files, rules, writes
        self.states: dict[NamedQueue, QueueState] = {}
        self.ignored: frozenset[NamedQueue] = frozenset()  # queues that `append` leaves out
        self._sizes = {
            False: queue_files.segment_bytes(settings.mapped_file_size_consume_queue, False),
            True: queue_files.segment_bytes(settings.mapper_file_size_batch_consume_queue, True),
        }
        self._open: OrderedDict[str, OpenFile] = OrderedDict()
        self._dirty: dict[str, tuple[int, int]] = {}  # by file: [from, to) that is not durable
        self._new_folders: set[str] = set()
        self._found: list[_Found] = []  # by `load`, for `cut_off`

    # --- as the store is opened -----------------------------------------------------------

    def load(self, cut: int, log_end: int) -> int:
        """Find every queue's end before the physical offset `cut`; changes nothing (`cut_off`).

        Entries for records before `cut` are sound: the caller knows them durable. Returns how many
        entries are of records at or past the log's end.
        """
        past = 0
        for folder, batch in ((CONSUME_QUEUE, False), (BATCH_CONSUME_QUEUE, True)):
            for _, topic, queue_id in queue_paths(folder, self.files.names, self.files.is_folder):
                past += self._load_queue(NamedQueue(topic, queue_id, batch), cut, log_end)
        return past

    def _load_queue(self, key: NamedQueue, cut: int, log_end: int) -> int:
        path, size = self._folder(key), queue_files.entry_bytes(key.batch)
        names = segments_among(self.files.names(path))
        # a broker passes folders over; a link is refused, as what it leads to would be changed
        starts = [int(name) for name in names if not self.files.is_folder(f"{path}/{name}")]
        kept = 0  # the number of files up to the last one with an entry before the cut
        entries = 0  # how many such entries the last of these files holds
        for number in range(len(starts) - 1, -1, -1):
            entries = self._entries_before(path, starts[number], key.batch, cut)
            if entries:
                kept = number + 1
                break
        self._found.append(_Found(path, key.batch, starts, kept, entries * size))
        past = 0
        for start in starts[max(kept - 1, 0) :]:
            used = self._entries_before(path, start, key.batch, _ANY_PLACE)
            past += used - (used and self._entries_before(path, start, key.batch, log_end))
        if not kept:
            return past
        with closing(self.files.open(f"{path}/{segment_name(starts[kept - 1])}")) as file:
            last = _read_entry(file, entries - 1, key.batch)
        self.states[key] = QueueState(
            starts[kept - 1] // size + entries, int(last["physicalOffset"]) + int(last["size"])
        )
        return past

    def cut_off(self) -> None:
        """Cut what `load` found of records at or past its `cut` off the queues."""
        for each in self._found if self.writes else ():
            self._cut(each)
        self._found = []

    def _entries_before(self, path: str, start: int, batch: bool, cut: int) -> int:
        """How many entries at a file's start are for records before the cut, by bisection."""
        with closing(self.files.open(f"{path}/{segment_name(start)}")) as file:
            low, high = 0, file.length() // queue_files.entry_bytes(batch)
            while low < high:
                middle = (low + high) // 2
                entry = _read_entry(file, middle, batch)
                if entry["size"] > 0 and 0 <= entry["physicalOffset"] < cut:
                    low = middle + 1
                else:
                    high = middle
            if low and _read_entry(file, low - 1, batch)["size"] == 0x7FFFFFFF:
                return 0  # only the entries that fill a first file up to its first message
            return low

    def _cut(self, found: "_Found") -> None:
        """Remove the files after the kept ones, and the last kept file's bytes from `used` on."""
        path, batch, starts, kept, used = found
        for start in reversed(starts[kept:]):
            self.files.remove(f"{path}/{segment_name(start)}")
        if kept:
            file = self.files.open(f"{path}/{segment_name(starts[kept - 1])}")
            rest = np.zeros(max(file.length() - used, 0), np.uint8)
            if len(rest):
                file.read_at(used, rest)
            if rest.any():
                self._zero(file, used, rest, batch)
            if file.length() != self._sizes[batch]:
                file.set_length(self._sizes[batch])
                file.sync()
            file.close()
        if starts:
            self.files.sync_folder(path)

    def _zero(self, file: OpenFile, at: int, rest: Bytes, batch: bool) -> None:
        """Overwrite a file with zeros from a place on, durably. rest: what is there now.

        The file never becomes shorter meanwhile: from its length the next open takes the size.
        Sizes go first: what a crash leaves of an entry has size 0, or its offset past the cut.
        """
        rest = rest[: int(np.flatnonzero(rest)[-1]) + 1]
        layout = BATCH_QUEUE_ENTRY if batch else QUEUE_ENTRY
        whole = np.zeros(-(-len(rest) // layout.itemsize) * layout.itemsize, np.uint8)
        whole[: len(rest)] = rest
        whole.view(layout)["size"] = 0
        for data in (whole[: len(rest)], np.zeros(len(rest), np.uint8)):
            file.write_at(at, data)
            file.sync()

    def take_up(self, key: NamedQueue, entries_end: int, end: int) -> None:
        """Go on with a queue that others wrote.

        entries_end: position of the next entry. end: physical offset after its last entry's record.
        """
        self.states[key] = QueueState(entries_end, end)

    # --- as records are dispatched ---------------------------------------------------------

    def append(self, keys: list[NamedQueue], runs: QueueRuns) -> None:
        """Append each queue's run, in physical order, at its next positions."""
        for number, key in enumerate(keys):
            count = int(runs.count[number])
            if count and key not in self.ignored:
                at = int(runs.entries_at[number])
                entries = runs.entries[at : at + count * queue_files.entry_bytes(key.batch)]
                offsets_at = int(runs.offsets_at[number])
                offsets = (
                    _NO_OFFSETS if offsets_at < 0 else runs.offsets[offsets_at : offsets_at + count]
                )
                self._append_run(key, entries, offsets, int(runs.first[number]), count)

    def _append_run(
        self,
        key: NamedQueue,
        entries: Bytes,
        offsets: npt.NDArray[np.int64],
        first: int,
        count: int,
    ) -> None:
        rows = entries.reshape(count, queue_files.entry_bytes(key.batch))
        state = self.states.get(key)
        if state is not None and _end_of(rows[0]) <= state.end:
            # the queue holds some of the run: recovery starts before the end of some queues
            new = [number for number in range(count) if _end_of(rows[number]) > state.end]
            if not new:
                return
            offsets = offsets if len(offsets) else np.arange(first, first + count)
            offsets, rows, count = offsets[new], rows[new], len(new)
            first = int(offsets[0])
        if state is None:
            state = QueueState(start_position(first, key.batch), -1)
            self.states[key] = state
            if self.writes and not key.batch:
                self._fill_before(key, state.position)
        skipped_last = False
        if key.batch:
            position, taken = state.position + count, rows
        else:
            positions = np.empty(count, np.int64)
            flat = rows.reshape(-1)
            position = number_run(
                flat, offsets, first, count, state.position, self.rules, positions
            )
            taken = rows
            if position - state.position != count:
                placed = positions > REPEATED
                taken = rows[placed]
                after = int(np.flatnonzero(placed)[-1]) + 1 if len(taken) else 0
                skipped_last = bool((positions[after:] == NO_POSITION).any())
        if len(taken):
            if self.writes:
                self._write(key, state.position, taken.reshape(-1))
            state.end = _end_of(taken[-1])
        state.position = position
        at, file_size = position * queue_files.entry_bytes(False), self._sizes[False]
        if skipped_last and self.writes and at % file_size == 0:
            # RocketMQ makes the next file before it skips an entry
            # (ConsumeQueue.putMessagePositionInfo)
            self._file(f"{self._folder(key)}/{segment_name(at)}", file_size)

    def _fill_before(self, key: NamedQueue, position: int) -> None:
        """Fill a queue's first file up to its first entry (ConsumeQueue.fillPreBlank)."""
        size = queue_files.entry_bytes(False)
        blanks = position % (self._sizes[False] // size)
        if blanks:
            data = np.frombuffer(queue_files.pre_blank(blanks), np.uint8)
            self._write(key, position - blanks, data)

    def _write(self, key: NamedQueue, position: int, data: Bytes) -> None:
        file_size = self._sizes[key.batch]
        at = position * queue_files.entry_bytes(key.batch)
        while len(data):
            start = at - at % file_size
            part = data[: start + file_size - at]
            path = f"{self._folder(key)}/{segment_name(start)}"
            self._file(path, file_size).write_at(at - start, part)
            low, high = self._dirty.get(path, (at - start, at - start))
            self._dirty[path] = min(low, at - start), max(high, at - start + len(part))
            at += len(part)
            data = data[len(part) :]

    def _file(self, path: str, file_size: int) -> OpenFile:
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        folder = path.rpartition("/")[0]
        if self.files.exists(path):
            file = self.files.open(path)
        else:
            if not self.files.exists(folder):
                self.files.make_folder(folder)
            file = self.files.create(path, file_size)
            file.sync()  # a crash leaves the file with this length, or with 0 bytes
            self._new_folders.add(folder)
        if len(self._open) >= _OPEN_FILES:
            oldest, old = self._open.popitem(last=False)
            if oldest in self._dirty:
                old.sync()
                del self._dirty[oldest]
            old.close()
        self._open[path] = file
        return file

    def sync(self, least_pages: int = 0) -> None:
        """Make entries durable: of each file with `least_pages` new pages, by default of all files.

        A page counts once its last byte is written (ConsumeQueue.flush).
        """
        for path, (low, high) in list(self._dirty.items()):
            if high // OS_PAGE_BYTES - low // OS_PAGE_BYTES >= least_pages:
                self._open[path].sync()
                del self._dirty[path]
        folders, self._new_folders = self._new_folders, set()
        for folder in folders:
            self.files.sync_folder(folder)

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _folder(self, key: NamedQueue) -> str:
        folder = BATCH_CONSUME_QUEUE if key.batch else CONSUME_QUEUE
        return str(QueuePath(folder, check_queue_topic(key.topic), key.queue_id))


def _read_entry(file: OpenFile, number: int, batch: bool) -> np.void:
    size = queue_files.entry_bytes(batch)
    buffer = np.empty(size, np.uint8)
    file.read_at(number * size, buffer)
    entry: np.void = queue_files.decode_entries(buffer, batch)[0]
    return entry


def _end_of(row: Bytes) -> int:
    # a batch entry has the same first fields
    entry = queue_files.decode_entries(row[: queue_files.entry_bytes(False)])[0]
    return int(entry["physicalOffset"]) + int(entry["size"])
