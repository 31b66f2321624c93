"""Where each queue stands, for the rules of damage: the queueOffset that it goes on from, a wrong
first one, how many messages lost bytes may have held, and its runs as these rules read them.

A queue goes on from the queueOffset of its last message: a record of a batch queue may have
several. Not the greatest queueOffset: a single flipped bit could make that any number, and all
later messages of the queue would look like older ones. A queueOffset that does not go on by one
counts only when the queue's next queueOffset is above it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from reput.store_format.damage.ranges import CONTENT
from reput.store_format.derived.queue_files import Bytes, Entries, decode_entries, entry_bytes
from reput.store_format.dispatch.runs import QueueRuns
from reput.store_format.dispatch.scan import Buffers
from reput.store_format.kernels.java_text import decode
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import INNER_FIXED_BYTES, QUEUE_ENTRY_BYTES, RECORD_FIXED_BYTES

NEVER = -(1 << 63)  # below every queueOffset; if a record has this one, it counts as none
Int64s = npt.NDArray[np.int64]

# Before the run's entry number `index`, `count` positions are lost.
GAP_COUNT = np.dtype([("index", "<i8"), ("count", "<i8")])
NO_GAPS = np.empty(0, GAP_COUNT)


@inlined
def follow(confirmed: Int64s, doubted: Int64s, queue: int, offset: int, messages: int) -> None:
    """Note a queue's next record, which has `messages` queueOffsets from `offset` on; a broker
    counts 0 as 1 (CommitLog.getMessageNum). doubted: the last queueOffset of the last record that
    did not go on by one, or NEVER.
    """
    last, doubt = confirmed[queue], doubted[queue]
    end = offset + (max(messages, 1) - 1)
    if (
        last == NEVER
        or offset == last + 1
        or (doubt != NEVER and (offset == doubt + 1 or last < doubt < offset))
    ):
        confirmed[queue], doubted[queue] = end, NEVER
    else:
        doubted[queue] = end


@kernel
def _follow_all(
    numbers: Int64s, offsets: Int64s, messages: Int64s, canon: Int64s, confirmed: Int64s,
    doubted: Int64s,
) -> None:  # fmt: skip
    for i in range(len(offsets)):
        follow(confirmed, doubted, canon[numbers[i]], offsets[i], messages[i])


def last_of(offsets: npt.ArrayLike, messages: npt.ArrayLike = 1) -> int:
    """The queueOffset that a queue goes on from, if its records have these queueOffsets, and so
    many messages each.
    """
    state = np.full(2, NEVER, np.int64)
    given = np.ascontiguousarray(offsets, np.int64)
    counts = np.empty(len(given), np.int64)
    counts[:] = messages
    numbers = np.zeros(len(given), np.int64)
    _follow_all(numbers, given, counts, np.zeros(1, np.int64), state[:1], state[1:])
    return int(state[0])


def last_of_run(runs: QueueRuns, number: int, batch: bool) -> int:
    """The queueOffset of the last message of one of a scan's runs; batch: of a batch queue."""
    count, at = int(runs.count[number]), int(runs.offsets_at[number])
    if batch:
        start = int(runs.entries_at[number])
        return last_of_batches(runs.entries[start : start + count * entry_bytes(True)])
    return int(runs.greatest[number]) if at < 0 else last_of(runs.offsets[at : at + count])


def last_of_batches(entries: Bytes) -> int:
    """The queueOffset of the last message among a batch queue's entries, given as on disk."""
    decoded = decode_entries(entries, True)
    return last_of(decoded["baseOffset"], decoded["batchSize"])


class QueueEndArrays(NamedTuple):
    """The queues by their number in the buffers, for kernels that go on with them.

    canon: a queue's number -> its first number, as a queue may have several.
    confirmed, doubted: first number -> the queueOffset that the queue goes on from; see `follow`.
    seen: how many puts of the buffers were followed.
    """

    canon: Int64s
    confirmed: Int64s
    doubted: Int64s
    seen: Int64s


class QueueEnds:
    """The queues of one scan, by the puts that its buffers hold, and held before.

    It is asked at each damaged range, of which there may be a million. So that the buffers need
    not be emptied each time, it reads them as they are, and looks at each put only once.
    """

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._emptied = buffers.emptied
        self._seen = np.zeros(1, np.int64)
        # (confirmed, doubted) of the queues whose puts the buffers do not hold any more
        self._of: dict[tuple[str, int], tuple[int, int]] = {}
        self._firsts: dict[tuple[str, int], int] = {}
        self._named = 0
        # a queue's number -> the first number whose topic Java decodes alike: the index of the rest
        self._canon = np.zeros(64, np.int64)
        self._confirmed = np.full(64, NEVER, np.int64)
        self._doubted = np.full(64, NEVER, np.int64)

    def keep(self) -> None:
        """To be called before the buffers are emptied: what they hold is noted."""
        self.look()
        for key, first in self._firsts.items():
            self._of[key] = int(self._confirmed[first]), int(self._doubted[first])

    def _clear(self) -> None:
        self._emptied = self._buffers.emptied
        self._seen[0] = self._named = 0
        self._firsts.clear()
        self._confirmed.fill(NEVER)
        self._doubted.fill(NEVER)

    def last(self, key: tuple[str, int]) -> int:
        """The queueOffset that a queue goes on from, NEVER where it has none here."""
        self.look()
        first = self._firsts.get(key)
        if first is None:
            return self._of.get(key, (NEVER, NEVER))[0]
        return int(self._confirmed[first])

    def look(self) -> QueueEndArrays:
        """What the queues have, after all puts that the buffers hold."""
        if self._emptied != self._buffers.emptied:
            self._clear()
        puts = self._buffers.puts.queue[int(self._seen[0]) : int(self._buffers.puts.used[0])]
        if len(puts):
            self._name()
            self._seen[0] += len(puts)
            _follow_all(
                puts["queue"].astype(np.int64), puts["queueOffset"].astype(np.int64),
                puts["batchSize"].astype(np.int64), self._canon, self._confirmed, self._doubted,
            )  # fmt: skip
        return QueueEndArrays(
            self._canon[: self._named], self._confirmed, self._doubted, self._seen
        )

    def _name(self) -> None:
        table = self._buffers.table
        known = int(table.used[0])
        if known > len(self._confirmed):
            more = np.full(2 * known - len(self._confirmed), NEVER, np.int64)
            self._confirmed = np.append(self._confirmed, more)
            self._doubted = np.append(self._doubted, more)
            self._canon = np.append(self._canon, np.zeros(len(more), np.int64))
        for number in range(self._named, known):
            row = table.rows[number]
            name = table.names[int(row["nameAt"]) : int(row["nameEnd"])].tobytes()
            key = decode(name), int(row["queueId"])
            first = self._canon[number] = self._firsts.setdefault(key, number)
            if first == number:
                self._confirmed[number], self._doubted[number] = self._of.get(key, (NEVER, NEVER))
        self._named = known


# ---
# Finds queues whose first queueOffset is wrong, and the right one (for check and salvage).
#
# RocketMQ accepts any first queueOffset of a queue and then skips all messages with lower ones
# (ConsumeQueue.putMessagePositionInfo). Salvage trusts the queueOffsets that follow instead.

LOOKED_AT = 16  # how many of a queue's first entries are compared
# Above this queueOffset the name of a queue file would be no Java long, and Java's multiplication
# by the bytes of an entry wraps.
LAST_FIRST_OFFSET = (1 << 63) // QUEUE_ENTRY_BYTES - 1


class Opening(NamedTuple):
    """A queue's first `entries` entries are outvoted by the later ones: their queueOffsets count as
    `first`, first + 1, ... An entry whose offset would then be below zero is left out.
    """

    entries: int
    first: int


def can_be_first(offset: int) -> bool:
    """Whether a queue's first file can be named for this queueOffset without wrapping around."""
    return 0 <= offset <= LAST_FIRST_OFFSET


def opening(offsets: Sequence[int], is_all: bool) -> Opening | None:
    """What a queue's first queueOffsets should be; None where they can stay as they are.

    offsets: the queue's first LOOKED_AT offsets, in the log's order; is_all: the queue has no more.
    An offset is outvoted if it can be no queue's first, or if it is above the next two offsets,
    which go on by one. (If these two are 0 and 1, the topic was deleted and made again, and nothing
    is wrong.) The records before the first credible offset count down from it; if no offset is
    credible they count from 0.
    """
    wrong = 0
    while wrong < len(offsets) and _outvoted(offsets[wrong : wrong + 3]):
        wrong += 1
    if wrong == 0 or (wrong == len(offsets) and not is_all):
        return None
    return Opening(wrong, offsets[wrong] - wrong if wrong < len(offsets) else 0)


def _outvoted(offsets: Sequence[int]) -> bool:
    if not can_be_first(offsets[0]):
        return True
    return len(offsets) == 3 and 0 < offsets[1] < offsets[0] and offsets[2] == offsets[1] + 1


# ---
# How many bytes the log lost between two places: a queue's gaps are measured against them.
#
# A segment's lost ranges are read when they are needed, 16 MB for a million of them.

PLACE = np.dtype([("offset", "<i8"), ("length", "<i8")])
_SEGMENTS_HELD = 4


class SegmentLoss(NamedTuple):
    """What was lost in one segment, or in a hole before it: ranges up to the next loss's start.

    run: names the file of the segment's ranges in staging, '' for none. Only ranges that start
    before `end`, the log's end, count. more: further ranges (offset, length); total: the bytes of
    all ranges.
    """

    start: int
    end: int
    run: str
    more: tuple[tuple[int, int], ...]
    total: int


@dataclass(frozen=True)
class Losses:
    """What the whole log lost: an item for each segment with losses, in ascending order.

    from_start: the log begins at physical offset 0, so the first message of each queue was in it.
    """

    segments: tuple[SegmentLoss, ...]
    from_start: bool

    @property
    def any(self) -> bool:
        return bool(self.segments)


NO_LOSSES = Losses((), False)


def most_messages(lost: Any, batch: bool) -> Any:
    """How many messages of a queue these lost bytes held at most: a whole number, or an array.

    A record of a batch queue may have many: as many as a broker counts in its body, which is not
    compressed (SendMessageProcessor.sendBatchMessage).
    """
    alone = lost // RECORD_FIXED_BYTES
    return np.maximum(alone, (lost - RECORD_FIXED_BYTES) // INNER_FIXED_BYTES) if batch else alone


ReadPlaces = Callable[[SegmentLoss], np.ndarray]  # a segment's lost ranges as PLACE rows, in order


class LossReader:
    """Answers how much was lost between two offsets; holds the ranges of a few segments."""

    def __init__(self, losses: Losses, read: ReadPlaces) -> None:
        self._segments, self._read = losses.segments, read
        self.from_start = losses.from_start
        self.any = losses.any
        self._starts = np.array([each.start for each in self._segments], np.int64)
        totals = [each.total for each in self._segments]
        self._before = np.append(0, np.cumsum(np.array(totals, np.int64)))
        self._held: dict[int, tuple[Int64s, Int64s]] = {}

    def between(self, after: Int64s, before: Int64s) -> Int64s:
        """Bytes of the ranges that start in [after, before), for each pair of places."""
        return self._up_to(before) - self._up_to(after)

    def may_take(self, length: int, place: int) -> bool:
        """Whether one range of at least `length` bytes was lost in the segments up to `place`'s.

        What stood before the start of a damaged log is unknown, unless that is physical offset 0.
        """
        if self.any and not self.from_start:
            return True
        return length <= max((most for at, most in self._longest if at <= place), default=0)

    @cached_property
    def _longest(self) -> list[tuple[int, int]]:
        """Where each segment with losses starts, and the bytes of its longest lost range."""
        return [
            (each.start, int(self._read(each)["length"].max(initial=0))) for each in self._segments
        ]

    def _up_to(self, places: Int64s) -> Int64s:
        numbers = np.searchsorted(self._starts, places, side="right") - 1
        found = np.zeros(len(places), np.int64)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            mine = numbers == number
            offsets, sums = self._ranges(number)
            found[mine] = self._before[number] + sums[np.searchsorted(offsets, places[mine])]
        return found

    def _ranges(self, number: int) -> tuple[Int64s, Int64s]:
        """Where a segment's ranges start; the sum of lengths before each, and after the last."""
        if number not in self._held:
            if len(self._held) == _SEGMENTS_HELD:
                del self._held[next(iter(self._held))]
            rows = self._read(self._segments[number])
            sums = np.append(0, np.cumsum(rows["length"].astype(np.int64)))
            self._held[number] = rows["offset"].astype(np.int64), sums
        return self._held[number]


def lost_places(loss: SegmentLoss, ranges: Iterable[np.ndarray]) -> np.ndarray:
    """A segment's lost ranges as PLACE rows, in order; ranges: RANGE rows of its file."""
    parts = [np.array(list(loss.more), PLACE)] if loss.more else []
    for found in ranges:
        lost = found[(found["kind"] != CONTENT) & (found["offset"] < loss.end)]
        rows = np.empty(len(lost), PLACE)
        rows["offset"], rows["length"] = lost["offset"], lost["end"] - lost["offset"]
        parts.append(rows)
    whole = np.concatenate(parts) if parts else np.empty(0, PLACE)
    return whole[np.argsort(whole["offset"], kind="stable")]


# ---
# A queue's runs as the rules of damage read them, and what a damage search found of queues.

Run = dict[str, Any]  # a RUN row (udfs/staging.py); votes.py adds columns


class QueueDamage(NamedTuple):
    """What a damage search found of queues.

    strays: physical offsets of records that are in no queue.
    twins: those strays whose queueOffset another record has too.
    no_room: (topic, queueId, physical offset of the next record) of lost positions that are kept
        although the log lost too few bytes for them.
    """

    strays: frozenset[int] = frozenset()
    twins: frozenset[int] = frozenset()
    no_room: frozenset[tuple[str, int, int]] = frozenset()


NO_QUEUE_DAMAGE = QueueDamage()


class RunReader(Protocol):
    """Reads what runs only refer to (`StagedRuns` of udfs/rebuild/runs.py)."""

    @property
    def damage(self) -> QueueDamage:
        """What a damage search found of queues."""

    def offsets(self, row: Run) -> np.ndarray:
        """The queueOffsets of a run; empty where they go on by one from the first."""

    def entries(self, row: Run, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of a run, as on disk."""


def run_part(run: Run, start: int, stop: int) -> Run:
    """Entries [start, stop) of a run as a run, whose queueOffsets go on by one from `first`."""
    size, count = entry_bytes(run["batch"]), run["count"]
    first = (run["first"] + start + (1 << 63)) % (1 << 64) - (1 << 63)  # as Java's longs wrap
    part = {**run, "first": first, "count": stop - start}
    for name, each in (("entries_at", size), ("offsets_at", 8), ("times_at", 8)):
        part[name] += each * start if run[name] >= 0 else 0
    carried = run.get("carried")
    if carried is not None:
        listed = carried[count * size :]
        part["carried"] = carried[start * size : stop * size] + listed[start * 8 : stop * 8]
    return part


def all_offsets(files: RunReader, run: Run) -> np.ndarray:
    """The queueOffset of each entry of a run."""
    offsets = files.offsets(run)
    return offsets if len(offsets) else run["first"] + np.arange(run["count"], dtype=np.int64)


def all_entries(files: RunReader, run: Run) -> Entries:
    return decode_entries(files.entries(run, 0, run["count"]), run["batch"])


def entry_at(files: RunReader, run: Run, number: int) -> Any:
    return decode_entries(files.entries(run, number, number + 1))[0]


def place_of(files: RunReader, run: Run, number: int) -> int:
    """Where the record of an entry stands in the log."""
    return int(entry_at(files, run, number)["physicalOffset"])
