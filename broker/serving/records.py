"""Records for an answer's body: how much one pull takes, and those that are whole."""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from reput.broker.serving.store import LogFiles, LogRange, ServedQueue
from reput.broker.wire.remoting import INT_MAX
from reput.store_format.derived.queue_files import entry_bytes
from reput.store_format.derived.queues import Numbers, Slice
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import MIDDLE_AT, RECORD_MIDDLE_BYTES
from reput.store_format.log.columns import look
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.log.record import Record, record_from
from reput.store_format.log.records import RECORD_ROW

# ---
# How many messages and bytes one pull takes, by the broker's settings (MessageStoreConfig).


class Taken(NamedTuple):
    messages: int
    bytes: int


class PullLimits(NamedTuple):
    """The settings with their defaults; RocketMQ's names are beside them."""

    bytes_in_memory: int = 256 << 10  # maxTransferBytesOnMessageInMemory
    count_in_memory: int = 32  # maxTransferCountOnMessageInMemory
    bytes_in_disk: int = 64 << 10  # maxTransferBytesOnMessageInDisk
    count_in_disk: int = 8  # maxTransferCountOnMessageInDisk
    filter_bytes: int = 16000  # maxFilterMessageSize: bytes of queue entries
    memory_bytes: int = 1 << 62  # bytes at the log's end that count as in memory

    def has_enough(self, taken: Taken, most: int) -> bool:
        """Whether a pull may not take any further record."""
        count = min(most, max(self.count_in_memory, self.count_in_disk))
        return taken.messages > 0 and taken.messages >= count

    def looked_at(self, most: int, batch: bool) -> int:
        """The most positions that a pull goes through if its filter wants none of them."""
        return max(-(-self.filter_bytes // entry_bytes(batch)), most)

    def passed(
        self, entries: Slice, wanted: np.ndarray, taken: Taken, most: int, log_end: int
    ) -> int:
        """The number of entries that a pull goes through until it is full, if each wanted entry has
        a record (DefaultMessageStore.isTheBatchFull).

        most: number of messages that the client asks for.
        """
        return _passed(
            entries.places, entries.sizes, entries.messages, wanted, taken, most, log_end, self
        )


@kernel
def _passed(
    places: Numbers,
    sizes: Numbers,
    messages: Numbers,
    wanted: np.ndarray,
    taken: Taken,
    most: int,
    log_end: int,
    limits: PullLimits,
) -> int:
    count, total = taken.messages, taken.bytes
    for i in range(len(places)):
        if count > 0:
            in_memory = log_end - places[i] <= limits.memory_bytes
            bytes_most = limits.bytes_in_memory if in_memory else limits.bytes_in_disk
            count_most = limits.count_in_memory if in_memory else limits.count_in_disk
            if (
                count + messages[i] > most
                or total + sizes[i] > bytes_most
                or count > count_most - 1
            ):
                return i
        if wanted[i]:
            count += messages[i]
            total += sizes[i]
    return len(places)


# ---
# Reads the records that a queue's entries point to, for an answer's body.
#
# Short records are read together, and a kernel checks them. A long record is checked without its
# body, which goes from the file to the socket. Anything but a whole record is left out.

LONG = 1 << 15  # bytes; from this size on a record's body is not read, as sendfile costs less

_INT = struct.Struct(">i")

BodyPiece = LogRange | memoryview
Keep = Callable[[Record], bool]


class RecordPieces(NamedTuple):
    """The records to which some entries point, as an answer's body."""

    pieces: list[BodyPiece]
    positions: list[Numbers]  # of the records, in their queue
    taken: Taken
    unwanted: bool  # whether a record was left out because `keep` did not want it


def records_of(
    entries: Slice, log: LogReader, files: LogFiles, keep: Keep | None = None
) -> RecordPieces:
    """The records that entries point to, in the order of the entries.

    keep: whether a record is wanted; None: all are. Raises StoreChanged, OSError.
    """
    long = np.flatnonzero(entries.sizes >= LONG).tolist()
    if not long:
        return _short(entries, log, files, keep)
    parts, done = list[RecordPieces](), 0
    for number in long:
        parts.append(_short(entries.part(slice(done, number)), log, files, keep))
        parts.append(_long(entries.part(slice(number, number + 1)), log, files, keep))
        done = number + 1
    parts.append(_short(entries.part(slice(done, None)), log, files, keep))
    return RecordPieces(
        [piece for part in parts for piece in part.pieces],
        [positions for part in parts for positions in part.positions],
        Taken(sum(part.taken.messages for part in parts), sum(part.taken.bytes for part in parts)),
        any(part.unwanted for part in parts),
    )


def _nothing(unwanted: bool = False) -> RecordPieces:
    return RecordPieces([], [], Taken(0, 0), unwanted)


def _long(entry: Slice, log: LogReader, files: LogFiles, keep: Keep | None) -> RecordPieces:
    place, size = int(entry.places[0]), int(entry.sizes[0])
    try:
        record = log.record_at(place)
    except (NoRecord, NotInLog):
        return _nothing()
    if record.size != size:
        return _nothing()
    if keep is not None and not keep(record):
        return _nothing(unwanted=True)
    taken = Taken(int(entry.messages[0]), size)
    return RecordPieces([files.range(place, size)], [entry.positions], taken, False)


def _short(entries: Slice, log: LogReader, files: LogFiles, keep: Keep | None) -> RecordPieces:
    """The records of short entries; records that adjoin in the log are read with one call."""
    many = len(entries)
    kept, ats = np.empty(many, np.int64), np.empty(many, np.int64)
    ends, lefts = np.empty(many, np.int64), np.empty(many, np.int64)
    runs = np.empty((many, 4), np.int64)
    inside, run_count = _plan(
        entries.places, entries.sizes, files.starts, files.ends, kept, ats, ends, lefts, runs
    )
    if inside < many:
        entries, ats, ends = entries.part(kept[:inside]), ats[:inside], ends[:inside]
    if not inside:
        return _nothing()
    window = np.empty(int(ends[-1]), np.uint8)
    view = memoryview(window)
    for number, place, at, end in runs[:run_count].tolist():
        files.read(number, place, view[at:end])
    rows, sound = np.zeros(inside, RECORD_ROW), np.zeros(inside, np.bool_)
    count = look(window, entries.places, ats, ends, lefts, log.rules, rows, sound)
    rows = rows[:count]
    sound[sound] = rows["size"] == entries.sizes[sound]
    unwanted = False
    if keep is not None:
        rows_of: list[Any] = rows.tolist()
        wanted = [keep(record_from(window.data, row, log.rules)) for row in rows_of]
        unwanted = not all(wanted)
        sound[sound] = wanted
    if sound.all():
        taken = Taken(int(entries.messages.sum()), len(view))
        return RecordPieces([view], [entries.positions], taken, unwanted)
    taken = Taken(int(entries.messages[sound].sum()), int(entries.sizes[sound].sum()))
    pieces = [view[ats[number] : ends[number]] for number in np.flatnonzero(sound).tolist()]
    return RecordPieces(list[BodyPiece](pieces), [entries.positions[sound]], taken, unwanted)


def given_again(
    queue: ServedQueue, positions: Sequence[int], log: LogReader, files: LogFiles, times: int
) -> list[tuple[int, BodyPiece]]:
    """(position, record) of messages that are given once more; positions without a whole record are
    left out. Raises StoreChanged, OSError.

    times: their new reconsumeTimes; a broker counts these up in a retry (PopReviveService).
    """
    given = list[tuple[int, BodyPiece]]()
    for position in positions:
        entry = queue.some(position, 1)
        if not len(entry) or int(entry.positions[0]) != position:
            continue
        place, size = int(entry.places[0]), int(entry.sizes[0])
        try:
            found = log.record_at(place)
        except (NoRecord, NotInLog):
            continue
        if found.size == size:
            record = bytearray(files.range(place, size).read())
            middle = found.body_at - place - RECORD_MIDDLE_BYTES
            _INT.pack_into(record, middle + MIDDLE_AT.reconsumeTimes, min(times, INT_MAX))
            given.append((position, memoryview(record)))
    return given


@kernel
def _plan(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    places: Numbers,
    sizes: Numbers,
    starts: Numbers,
    segment_ends: Numbers,
    kept: Numbers,
    ats: Numbers,
    ends: Numbers,
    lefts: Numbers,
    runs: Numbers,
) -> tuple[int, int]:
    """Plan how records are read into one window. Returns the numbers of entries that lie in a
    segment, and of runs: records that adjoin in a segment, and are read with one call. Fills:

    kept: the numbers of these entries.
    ats, ends: where each of their records begins and ends in the window.
    lefts: bytes from the record's start to the segment's end.
    runs: (segment's number, physical offset, start and end in the window) of each run.
    """
    count = run_count = at = 0
    before = -1  # where the previous record ends
    for i in range(len(places)):
        number = np.searchsorted(starts, places[i], "right") - 1
        end = places[i] + sizes[i]
        if number < 0 or sizes[i] <= 0 or end > segment_ends[number]:
            continue
        if not (places[i] == before and runs[run_count - 1, 0] == number):
            runs[run_count, 0], runs[run_count, 1] = number, places[i]
            runs[run_count, 2] = at
            run_count += 1
        kept[count], ats[count] = i, at
        at += sizes[i]
        ends[count], lefts[count] = at, segment_ends[number] - places[i]
        runs[run_count - 1, 3] = at
        before = end
        count += 1
    return count, run_count
