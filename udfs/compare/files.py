"""Compares a store's derived files with newly derived ones; the place where two differ."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format import layouts
from reput.store_format.derived import queue_files
from reput.store_format.derived.extent import entries_at, index_entries
from reput.store_format.derived.index_file import chain
from reput.store_format.derived.index_header import IndexHeader, read_header
from reput.store_format.files.local import LocalReader
from reput.store_format.files.protocol import InputStorage, Reader, open_followed
from reput.store_format.message.message import SCHEDULE_TOPIC
from reput.store_format.names import CONSUME_QUEUE, INDEX
from reput.udfs.staging import schema

# ---
# Names the place where two derived files differ in RocketMQ's terms: which entry, which field.

Bytes = npt.NDArray[np.uint8]


class Field(NamedTuple):
    """One field of a derived file: what it is called, where it stands, and its type."""

    what: str  # "entry 17 physicalOffset", "header endTimestamp", "slot 3"
    at: int  # byte offset in the file
    layout: np.dtype[Any]

    def value(self, raw: bytes) -> int:
        return int(np.frombuffer(raw, self.layout)[0])


def first_difference(there: Bytes, wanted: Bytes) -> int:
    """The index of the first byte that differs between two buffers of one length; -1 for none."""
    differs = np.flatnonzero(there != wanted)
    return int(differs[0]) if len(differs) else -1


def field_at(folder: str, at: int, slots: int) -> Field:
    """The field that covers byte `at` of a file in this folder; slots: maxHashSlotNum."""
    if folder == INDEX:
        return _index_field(at, slots)
    return _entry_field(queue_files.layout_of(queue_files.is_batch(folder)), at, 0)


def _index_field(at: int, slots: int) -> Field:
    entries_at = layouts.INDEX_HEADER_BYTES + slots * layouts.INDEX_SLOT_BYTES
    if at < layouts.INDEX_HEADER_BYTES:
        name, start, layout = _field_of(layouts.INDEX_HEADER, at)
        return Field(f"header {name}", start, layout)
    if at < entries_at:
        slot = (at - layouts.INDEX_HEADER_BYTES) // layouts.INDEX_SLOT_BYTES
        start = layouts.INDEX_HEADER_BYTES + slot * layouts.INDEX_SLOT_BYTES
        return Field(f"slot {slot}", start, np.dtype(">i4"))
    return _entry_field(layouts.INDEX_ENTRY, at, entries_at)


def _entry_field(layout: np.dtype[Any], at: int, base: int) -> Field:
    entry, within = divmod(at - base, layout.itemsize)
    name, start, kind = _field_of(layout, within)
    return Field(f"entry {entry} {name}", base + entry * layout.itemsize + start, kind)


def _field_of(layout: np.dtype[Any], at: int) -> tuple[str, int, np.dtype[Any]]:
    fields: Any = layout.fields
    for name, (kind, start, *_) in fields.items():
        if start <= at < start + kind.itemsize:
            return name, start, kind
    raise AssertionError(f"no field at {at}")


# ---
# Compares the derived files of a store with newly derived ones (check, verify, recover).
#
# A task is given pairs of files, and yields a row for each pair that differs.

PAST_END = "(points past the log's end)"
NEVER = (1 << 63) - 1
_OF_LEVELS = f"{CONSUME_QUEUE}/{SCHEDULE_TOPIC}/"
_CHUNK_BYTES = 1 << 20
_CHUNK_ENTRIES = 1 << 16
_HEADER_FIELDS: Any = layouts.INDEX_HEADER.fields
_END_OFFSET_AT = _HEADER_FIELDS["endPhyOffset"][1]
_AFTER_END_OFFSET = _HEADER_FIELDS["hashSlotCount"][1]

# One row for each pair. there: path of the store's file. derived: path of the new one in staging.
# used: bytes in use at the start of the derived file. unknown_before: the pair is an index file
# whose first timeDiff counts from a time that nobody knows: the file before it is gone, or was not
# the last one for its broker.
PAIR = schema(
    folder=pa.string(),
    there=pa.string(),
    derived=pa.string(),
    used=pa.int64(),
    unknown_before=pa.bool_(),
)
# The first difference of one file. there, wanted: the field's value in the store's file, and the
# right one. behind: the file is right up to this difference; its broker will add what is missing.
DIFFERENCE = schema(
    path=pa.string(),
    offset=pa.int64(),  # in the file
    field=pa.string(),
    there=pa.int64(),
    wanted=pa.int64(),
    behind=pa.bool_(),
)
Row = dict[str, Any]


@dataclass(frozen=True)
class CompareFiles:
    """Turns PAIR rows into DIFFERENCE rows; a pair without a difference gives none.

    It compares the bytes of a derived file that are in use; in a queue, no entry may follow them.
    of_set: the files are those of a rebuilt set, in which only zeros follow.

    log_start: messages before this offset have expired. The store's file may still have their
    entries where a rebuilt file has pre-blanks; that is no difference.
    again_from: a starting broker dispatches the records from here on again, so a file may end
    before the first of them.
    growing: a broker appends to the store, so files may go on past log_end.
    """

    storage: InputStorage  # of the files there
    staging: InputStorage  # of the derived ones
    slots: int  # maxHashSlotNum
    log_end: int
    log_start: int = 0
    again_from: int = NEVER
    growing: bool = False
    every_put_up_to: int = 0  # hashSlotCount counts every key of messages below this offset
    of_set: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pair in batch.to_pylist():
                row = self._compare(pair)
                if row:
                    yield pa.RecordBatch.from_pylist([row], DIFFERENCE)

    def _compare(self, pair: Row) -> Row | None:
        with ExitStack() as stack:
            there = open_followed(self.storage, pair["there"])
            stack.callback(there.close)
            derived = self.staging.open(pair["derived"])
            stack.callback(derived.close)
            if there.state.size != derived.state.size:
                sizes = there.state.size, derived.state.size
                return difference(pair["there"], min(sizes), "file length", *sizes)
            compare = self._index if pair["folder"] == INDEX else self._queue
            found = compare(pair, there, derived)
            return self._after_used(pair, there) if found is None and self.of_set else found

    def _after_used(self, pair: Row, there: Reader) -> Row | None:
        """The difference if a byte follows those that a set's file has."""
        at = _not_zero(there, pair["used"])
        if at is None:
            return None
        field = field_at(pair["folder"], at, self.slots)
        value = field.value(_read(there, field.at, field.layout.itemsize).tobytes())
        what = f"{field.what} (after all that was written)"
        return difference(pair["there"], field.at, what, value, 0)

    def _first(
        self, pair: Row, there: Reader, derived: Reader, start: int, stop: int
    ) -> Row | None:
        """The first difference in [start, stop) of both files."""
        for at in range(start, stop, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, stop - at)
            place = first_difference(_read(there, at, length), _read(derived, at, length))
            if place >= 0:
                field = field_at(pair["folder"], at + place, self.slots)
                size = field.layout.itemsize
                values = (
                    field.value(_read(file, field.at, size).tobytes()) for file in (there, derived)
                )
                return difference(pair["there"], field.at, field.what, *values)
        return None

    # --- queues ------------------------------------------------------------------------------

    def _queue(self, pair: Row, there: Reader, derived: Reader) -> Row | None:
        start = self._expired(pair, there, derived)
        found = self._first(pair, there, derived, start, pair["used"])
        if found and not self.of_set and pair["folder"].startswith(_OF_LEVELS):
            found = self._besides_delays(pair, there, derived, found["offset"])
        if found is None:
            return self._after(pair, there)
        batch = queue_files.is_batch(pair["folder"])
        size = queue_files.layout_of(batch).itemsize
        at = found["offset"] // size * size
        wanted = queue_files.decode_entries(_read(derived, at, size), batch)[0]
        if int(wanted["physicalOffset"]) >= self.again_from and _not_zero(there, at) is None:
            return {**found, "behind": True}
        return found

    def _besides_delays(self, pair: Row, there: Reader, derived: Reader, start: int) -> Row | None:
        """The first difference from byte `start` on that is more than another delay: a time of
        delivery tells the delay that its level had then, in whole seconds.
        """
        start -= start % layouts.QUEUE_ENTRY_BYTES
        for at in range(start, pair["used"], _CHUNK_ENTRIES * layouts.QUEUE_ENTRY_BYTES):
            length = min(_CHUNK_ENTRIES * layouts.QUEUE_ENTRY_BYTES, pair["used"] - at)
            found, wanted = (
                queue_files.decode_entries(_read(file, at, length)) for file in (there, derived)
            )
            due = found["tagsCode"].astype(np.int64)
            delayed = (due - wanted["tagsCode"]) % 1000 == 0
            wanted["tagsCode"] = np.where(delayed, due, wanted["tagsCode"])
            differs = np.flatnonzero(found != wanted)
            if len(differs):
                at += int(differs[0]) * layouts.QUEUE_ENTRY_BYTES
                return self._first(pair, there, derived, at, pair["used"])
        return None

    def _expired(self, pair: Row, there: Reader, derived: Reader) -> int:
        """How many bytes at the file's start belong to expired messages and are not compared."""
        if not (self.log_start and pair["folder"].startswith(CONSUME_QUEUE)):
            return 0
        length = pair["used"] // layouts.QUEUE_ENTRY_BYTES * layouts.QUEUE_ENTRY_BYTES
        filled = queue_files.is_pre_blank(queue_files.decode_entries(_read(derived, 0, length)))
        blanks = len(filled) if filled.all() else int(np.argmin(filled))
        old = queue_files.decode_entries(_read(there, 0, blanks * layouts.QUEUE_ENTRY_BYTES))
        expired = (old["physicalOffset"] < self.log_start) & queue_files.is_message(old)
        return blanks * layouts.QUEUE_ENTRY_BYTES if expired.all() else 0

    def _after(self, pair: Row, there: Reader) -> Row | None:
        """The difference if an entry follows a queue's last one, after which RocketMQ would go on.

        An entry whose size is 0 ends the search, as it ends RocketMQ's reading.
        """
        batch, at = queue_files.is_batch(pair["folder"]), pair["used"]
        length = queue_files.layout_of(batch).itemsize
        if at + length <= there.state.size:
            entry = queue_files.decode_entries(_read(there, at, length), batch)[0]
            offset = int(entry["physicalOffset"])
            what = field_at(pair["folder"], at, self.slots).what
            if not queue_files.is_used(entry):
                return None
            if offset < self.log_end:
                return difference(pair["there"], at, f"{what} (one entry too many)", offset, 0)
            if not self.growing:
                return difference(pair["there"], at, f"{what} {PAST_END}", offset, 0)
        return None

    # --- the index ---------------------------------------------------------------------------

    def _index(self, pair: Row, there: Reader, derived: Reader) -> Row | None:
        found = self._differs(pair, there, derived, 0, pair["used"])
        if found and _is_mark(found):
            found = self._differs(pair, there, derived, _AFTER_END_OFFSET, pair["used"])
        if found and (self.growing or self.again_from < NEVER):
            return self._goes_on(pair, there, derived, found)
        return found

    def _differs(
        self, pair: Row, there: Reader, derived: Reader, start: int, stop: int
    ) -> Row | None:
        """The first difference in [start, stop). A first timeDiff that nobody knows is left out."""
        if not pair["unknown_before"]:
            return self._first(pair, there, derived, start, stop)
        layout: Any = layouts.INDEX_ENTRY.fields
        kind, at, *_ = layout["timeDiff"]
        at += entries_at(self.slots) + layouts.INDEX_ENTRY_BYTES
        return self._first(pair, there, derived, start, min(at, stop)) or self._first(
            pair, there, derived, at + kind.itemsize, stop
        )

    def _goes_on(self, pair: Row, there: Reader, derived: Reader, found: Row) -> Row | None:
        """Judge an index file that differs, but that its broker may not have completed yet.

        Returns None if the file has all derived entries, and perhaps newer ones; the difference
        with
        `behind` set if it has only the first of them.
        """
        head, wanted = read_header(there), read_header(derived)
        count, whole = head.entries, wanted.entries
        first = entries_at(self.slots) + layouts.INDEX_ENTRY_BYTES
        stop = first + min(count, whole) * layouts.INDEX_ENTRY_BYTES
        differs = self._differs(pair, there, derived, first, stop) if stop > first else None
        if differs:
            return differs
        if count == whole == 0:  # indexCount is 0 until a clean stop
            if has_mark_only(head):
                return None
            return found if head._replace(next_entry=wanted.next_entry) != wanted else None
        if count > whole:
            more = index_entries(there, self.slots, 1 + whole, 1)
            live = len(more) and int(more[0]["physicalOffset"]) >= self.log_end
            return None if self.growing and live else found
        if count == whole:
            if self.growing:
                return None
            cut = self._last_put_was_cut(pair, there, derived)
            return {**found, "behind": True} if cut else found
        missing = index_entries(derived, self.slots, 1 + count, 1)[0]
        if int(missing["physicalOffset"]) < self.again_from:
            return found
        if not self.growing and not self._consistent(there, count, missing):
            return found
        return {**found, "behind": True}

    def _last_put_was_cut(self, pair: Row, there: Reader, derived: Reader) -> bool:
        """Whether the broker was killed after it had put the last entry into the index file, and
        before it had noted that in the header.

        RocketMQ's IndexFile.putKey counts an entry, then sets endPhyOffset, and endTimestamp last.
        The entry before the last knows its time in whole seconds only.
        """
        head, wanted = read_header(there), read_header(derived)
        if wanted.entries < 2 or self._differs(
            pair, there, derived, _AFTER_END_OFFSET, pair["used"]
        ):
            return False
        before, last = index_entries(derived, self.slots, wanted.entries - 1, 2)
        offset, seconds = int(before["physicalOffset"]), int(before["timeDiff"])
        passed = head.end_timestamp - wanted.begin_timestamp
        return (
            int(last["physicalOffset"]) >= self.again_from
            and head._replace(end_timestamp=wanted.end_timestamp, end_offset=0)
            == wanted._replace(end_offset=0)
            and head.end_offset in (offset, wanted.end_offset)
            and (passed // 1000 == seconds or wanted.entries == 2)
        )

    def _consistent(self, file: Reader, count: int, following: np.void) -> bool:
        """Whether a file's slots and header are those of its first `count` entries.

        A broker that was killed within IndexFile.putKey may have written the entry after these
        (`following`) and its slot, and not have counted it; or have counted the last of them, and
        not have noted its place as endPhyOffset.
        """
        head = read_header(file)
        newest, done, besides = np.zeros(self.slots, np.int32), 0, 0
        ends = [head.end_offset] if not count else []  # without entries: the previous file's
        while done < count:
            some = index_entries(file, self.slots, 1 + done, min(count - done, _CHUNK_ENTRIES))
            besides += self._chained(some, 1 + done, newest)
            done += len(some)
            ends = [*ends, *(int(each) for each in some["physicalOffset"][-2:])][-2:]
        slots = _read(file, layouts.INDEX_HEADER_BYTES, self.slots * layouts.INDEX_SLOT_BYTES).view(
            layouts.INDEX_SLOT
        )
        used = [int(np.count_nonzero(newest)) + besides]
        written = index_entries(file, self.slots, 1 + count, 1)
        if not (slots == newest).all() and len(written) and written[0] == following:
            besides += self._chained(written, 1 + count, newest)
            used.append(int(np.count_nonzero(newest)) + besides)
        return (
            bool((slots == newest).all())
            and head.slots_used in used
            # last + 1: a writer's mark
            and head.end_offset in (*ends, ends[-1] + 1)
        )

    def _chained(self, some: np.ndarray, number: int, newest: np.ndarray) -> int:
        """Put the entries from `number` on into the slots; by how many more than the slots in use
        they raise hashSlotCount.
        """
        previous = np.empty(len(some), np.int32)
        chain(some["keyHash"].astype(np.int32), number, self.slots, 0, newest, previous)
        return int(np.count_nonzero(previous[some["physicalOffset"] < self.every_put_up_to]))


def _is_mark(found: Row) -> bool:
    """Whether a difference is the mark of `reput`'s writer, which a kill at close may leave.

    RocketMQ takes any endPhyOffset up to the next message's place (writer/index_folder).
    """
    at = found["offset"]
    return bool(at == _END_OFFSET_AT and found["there"] == found["wanted"] + 1)


def has_mark_only(head: IndexHeader) -> bool:
    """Whether an index file has no entries and its header holds the writer's mark."""
    return (
        not head.entries
        and head.slots_used == 0
        and head.end_timestamp == head.begin_timestamp
        and head.end_offset == head.begin_offset + 1
    )


def _not_zero(file: Reader, start: int) -> int | None:
    at, size = start, file.state.size
    while at < size:
        if isinstance(file, LocalReader):
            at = min(file.data_from(at), size)
        some = _read(file, at, min(_CHUNK_BYTES, size - at))
        if some.any():
            return at + int(np.argmax(some != 0))
        at += len(some)
    return None


def _read(file: Reader, at: int, length: int) -> np.ndarray:
    buffer = np.empty(length, np.uint8)
    file.read_into(at, buffer)
    return buffer


def difference(path: str, at: int, field: str, there: int | None, wanted: int | None) -> Row:
    return {"path": path, "offset": at, "field": field, "there": there, "wanted": wanted,
            "behind": False}  # fmt: skip


# --- files of the store for which nothing was derived from the log ------------------------------

LOOK = schema(path=pa.string(), folder=pa.string())
# least, greatest: physicalOffsets of the queue entries in use; None without such entries
LOOKED = schema(
    path=pa.string(), folder=pa.string(), size=pa.int64(), zeros=pa.bool_(),
    least=pa.int64(), greatest=pa.int64(),
)  # fmt: skip


@dataclass(frozen=True)
class LookAtFiles:
    """Turns LOOK rows into LOOKED rows: what is in queue files for which nothing was derived."""

    storage: InputStorage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [{**row, **self._look(row)} for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, LOOKED)

    def _look(self, row: Row) -> Row:
        batch = queue_files.is_batch(row["folder"])
        length = queue_files.layout_of(batch).itemsize
        chunk = _CHUNK_BYTES // length * length
        file = open_followed(self.storage, row["path"])
        size, least, greatest, zeros = file.state.size, None, None, True
        for at in range(0, size, chunk):
            raw = _read(file, at, min(chunk, size - at))
            zeros = zeros and not raw.any()
            entries = queue_files.decode_entries(raw, batch)
            places = entries["physicalOffset"][
                queue_files.is_message(entries) & ~queue_files.is_pre_blank(entries)
            ]
            if len(places):
                least = min(int(places.min()), NEVER if least is None else least)
                greatest = max(int(places.max()), -1 if greatest is None else greatest)
        file.close()
        return {"size": size, "zeros": zeros, "least": least, "greatest": greatest}
