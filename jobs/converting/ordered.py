"""Places records whose order or queueOffsets change; what of their logs stores share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from reput.jobs.converting import new_log
from reput.jobs.pipeline.link import Scanned
from reput.jobs.pipeline.pipeline import Pipeline
from reput.store_format.discover.config import Offsets, consumer_offsets
from reput.store_format.notes import Notes
from reput.store_format.query.pop_leftovers import Pop
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.placing import BEGINS, EarlierLog, interleave
from reput.udfs.convert.measure import measured_order, measured_puts, split_queues
from reput.udfs.convert.write import NUMBERS, PLACES, NewSegment, OldLog, Part, Piece

# ---
# Places records whose order or queueOffsets change: records of several stores, and queues that
# lose some of their records or also get those of another store.
#
# The driver reads what the measuring tasks have staged, 24 bytes a record, in the order of the new
# log. It holds one split of each store in memory.

Numbers = npt.NDArray[np.int64]
Marks = dict[tuple[str, int], tuple[int, ...]]  # (topic, queue id) -> queueOffsets
_Mark = tuple[str, int, int]
_DONE = -1


@dataclass
class Source:
    """A store whose records are taken.

    waits: as for MeasureSplits. pops: whose check points are written anew. groups: (topic, group)
    -> queue id -> position, besides those in its config/. marks: old positions that are carried
    over; new_marks: the new position of each.
    """

    job: Pipeline
    changes: Changes
    measured: new_log.MeasuredLog
    waits: tuple[int, ...] = ()
    pops: list[Pop] = field(default_factory=list)
    groups: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    marks: Marks = field(default_factory=dict)
    new_marks: dict[_Mark, int | None] = field(default_factory=dict)

    def new_queue(self, key: new_log.QueueKey) -> new_log.QueueKey:
        decision = self.changes.of_queue(*key)
        return new_log.QueueKey(
            self.changes.renamed(key.topic), key.queue_id + decision.queue_shift
        )

    def offset(self, topic: str, queue_id: int, offset: int) -> int | None:
        """The new position, which the same records follow; None: none is taken. topic: old one."""
        return self.new_marks.get((topic, queue_id, offset), offset)

    def message(self, topic: str, queue_id: int, offset: int) -> int | None:
        """The new position of the message at a position of which, as of the next one, there is a
        mark; None if it is not taken: then the same record follows both.
        """
        new = self.offset(topic, queue_id, offset)
        behind = self.new_marks.get((topic, queue_id, offset + 1))
        return None if new == behind else new


def digits_wanted(sources: Sequence[Source]) -> int:
    """Changes.digits: 0 where no number changes that stands in properties."""
    queues = renumbered(sources)
    ends, changed = dict(queues), False
    for source in sources:
        for key, seen in source.measured.queues.items():
            new = source.new_queue(key)
            if new in queues:
                ends[new] += seen.counted
                changed |= seen.texts > 0
            elif seen.texts:
                ends[new] = seen.greatest + 1
    return len(str(max(ends.values()) - 1)) if changed else 0


def renumbered(sources: Sequence[Source]) -> dict[new_log.QueueKey, int]:
    """The queues whose records are numbered anew: new queue -> its first new queueOffset.

    These are the queues of which only some records are taken, and queues of several stores.
    """
    least: dict[new_log.QueueKey, int] = {}
    found: set[new_log.QueueKey] = set()
    for source in sources:
        for key, queue in source.measured.queues.items():
            if queue.counted:
                new = source.new_queue(key)
                if new in least or queue.counted < queue.positions:
                    found.add(new)
                least[new] = min(least.get(new, queue.least), queue.least)
    return {new: first for new, first in least.items() if new in found}


class _Feed:
    """The records of one store, split by split."""

    def __init__(self, source: Source, indices: Mapping[new_log.QueueKey, int]) -> None:
        self._source, self._indices = source, indices
        self._rows = iter([row for row in source.measured.rows if row["taken"]])
        self._row: Scanned | None = None
        self.pieces: list[Piece] = []
        self._latest = -(1 << 63)
        self._wanted = self._marked()
        none = np.empty(0, np.int64)
        self.times = self.sizes = self.places = self.stops = none  # of each record
        self.queues = self.messages = self.numbers = self._offsets = none  # of each put

    def next_split(self, segment_bytes: int) -> bool:
        """Load the next split's records; False if there is none."""
        self._row = row = next(self._rows, None)
        if row is None:
            return False
        job = self._source.job
        records = new_log.records_of(job, row, segment_bytes)
        order = measured_order(job.staging, row["run"], row["taken"])
        puts = measured_puts(job.staging, row["run"], order)
        times = np.maximum.accumulate(order["storeTimestamp"].astype(np.int64))
        self.times = np.maximum(times, self._latest)
        self._latest = int(self.times[-1])
        self.sizes = records["size"].astype(np.int64)
        self.stops = np.cumsum(order["puts"])
        there = split_queues(job.staging, row["run"])
        ours = np.full(max(each["number"] for each in there) + 1, -1)
        for each in there:
            new = self._source.new_queue(new_log.QueueKey(each["topic"], each["queue_id"]))
            ours[each["number"]] = self._indices.get(new, -1)
        self.queues = ours[puts["queue"]]
        self._offsets = puts["queueOffset"].astype(np.int64)
        self.messages = puts["messages"].astype(np.int64)
        self.places, self.numbers = np.empty_like(self.sizes), np.empty_like(self.messages)
        self.pieces.append(new_log.piece_of(job, row, records, 0))
        return True

    def finish_split(self) -> None:
        """Write the split's new offsets and queueOffsets to staging, and fill in new_marks."""
        assert self._row is not None
        staging = self._source.job.staging
        for suffix, values in ((PLACES, self.places), (NUMBERS, self.numbers)):
            output = staging.storage.create(staging.path(self._row["run"] + suffix))
            output.write(values.view(np.uint8))
            output.finish(values.nbytes)
        new = self._source.new_marks
        by_queue = np.argsort(self.queues, kind="stable")
        in_order = self.queues[by_queue]
        for queue in np.unique(in_order).tolist():
            wanted = self._wanted.get(queue, ())
            first, stop = np.searchsorted(in_order, [queue, queue + 1]) if wanted else (0, 0)
            mine = by_queue[first:stop]
            offsets, numbers = self._offsets[mine], self.numbers[mine]
            ends = offsets + self.messages[mine]
            for name in wanted:
                behind = ends > name[2]
                if behind.any():
                    # a mark within a batch is as far from its begin as before
                    found = numbers[behind] + np.maximum(name[2] - offsets[behind], 0)
                    least, before = int(found.min()), new.get(name)
                    new[name] = least if before is None else min(least, before)

    def _marked(self) -> dict[int, list[_Mark]]:
        """Queue index -> the marks of the queue."""
        found: dict[int, list[_Mark]] = {}
        for (topic, queue_id), marks in self._source.marks.items():
            key = new_log.QueueKey(topic, queue_id)
            seen = self._source.measured.queues.get(key)
            if seen is None or not seen.positions:
                continue
            index = self._indices.get(self._source.new_queue(key), -1)
            for mark in marks:
                if not seen.counted:
                    self._source.new_marks[topic, queue_id, mark] = None
                elif index >= 0:
                    found.setdefault(index, []).append((topic, queue_id, mark))
        return found

    def end_marks(self, following: Numbers) -> None:
        """Set new_marks for marks after a queue's last record: the queue's next new position."""
        for queue, wanted in self._wanted.items():
            for name in wanted:
                if name not in self._source.new_marks:
                    seen = self._source.measured.queues[new_log.QueueKey(name[0], name[1])]
                    over = max(name[2] - seen.greatest - 1, 0)
                    self._source.new_marks[name] = int(following[queue]) + over


class _Merge:
    """The loaded records of all stores, concatenated store by store."""

    def __init__(self, feeds: Sequence[_Feed], segment_bytes: int) -> None:
        self._feeds, self._segment_bytes = feeds, segment_bytes
        self._cursors = [0 if feed.next_split(segment_bytes) else _DONE for feed in feeds]
        self._load()

    def _load(self) -> None:
        live = [
            feed if cursor != _DONE else None
            for feed, cursor in zip(self._feeds, self._cursors, strict=True)
        ]
        lengths = [len(feed.sizes) if feed else 0 for feed in live]
        puts = [len(feed.queues) if feed else 0 for feed in live]
        self._starts, self._put_starts = (np.cumsum([0, *each])[:-1] for each in (lengths, puts))
        some = [feed for feed in live if feed]
        self._columns = [
            np.concatenate([getattr(feed, name) for feed in some] or [np.empty(0, np.int64)])
            for name in ("times", "sizes", "queues", "messages", "places", "numbers")
        ]
        self._stops = np.concatenate([
            feed.stops + start for feed, start in zip(live, self._put_starts, strict=True) if feed
        ] or [np.empty(0, np.int64)])  # fmt: skip
        self.cursors = np.array([
            _DONE if cursor == _DONE else int(start) + cursor
            for start, cursor in zip(self._starts, self._cursors, strict=True)
        ], np.int64)  # fmt: skip
        self._ends = np.array([
            int(start) + length if feed else _DONE
            for start, length, feed in zip(self._starts, lengths, live, strict=True)
        ], np.int64)  # fmt: skip

    def go_on(self, following: Numbers, at: int, begun: bool) -> tuple[int, int]:
        """Go on with `interleave` for these columns; its arguments and its result."""
        times, sizes, queues, messages, places, numbers = self._columns
        return interleave(
            times, sizes, self._stops, queues, messages, self.cursors, self._ends, following, at,
            self._segment_bytes, begun, places, numbers,
        )  # fmt: skip

    def refill(self) -> bool:
        """Load the next split of each store whose loaded records are placed; False at the end."""
        for n, feed in enumerate(self._feeds):
            if self._cursors[n] == _DONE:
                continue
            start, end, put = (
                int(each[n]) for each in (self._starts, self._ends, self._put_starts)
            )
            places, numbers = self._columns[-2:]
            feed.places, feed.numbers = places[start:end], numbers[put : put + len(feed.queues)]
            self._cursors[n] = int(self.cursors[n]) - start
            if self.cursors[n] == end:
                feed.finish_split()
                self._cursors[n] = 0 if feed.next_split(self._segment_bytes) else _DONE
        self._load()
        return any(cursor != _DONE for cursor in self._cursors)

    def where(self) -> list[tuple[int, int]]:
        """(number of its piece, number of the next record in the piece) of each store."""
        return [
            (len(feed.pieces), 0) if cursor == _DONE
            else (len(feed.pieces) - 1, int(cursor) - int(start))
            for feed, cursor, start in zip(
                self._feeds, self.cursors.tolist(), self._starts, strict=True
            )
        ]  # fmt: skip


def place_in_order(sources: Sequence[Source], segment_bytes: int, start: int) -> new_log.NewLog:
    """Place all records by store time, in each store's own order; fills in new_marks.

    If times are equal, records of the store named first come first.
    Raises StoreError if a record does not fit into a segment.
    """
    queues = renumbered(sources)
    indices = {key: n for n, key in enumerate(queues)}
    following = np.array(list(queues.values()), np.int64)
    feeds = [_Feed(source, indices) for source in sources]
    merge = _Merge(feeds, segment_bytes)
    begins: list[tuple[int, list[tuple[int, int]]]] = []  # (segment's start, _Merge.where())
    at, why, more = start, 0, True
    while more:
        why, at = merge.go_on(following, at, why == BEGINS)
        if why == BEGINS:
            begins.append((at, merge.where()))
        else:
            more = merge.refill()
    for feed in feeds:
        feed.end_marks(following)
    olds = tuple(
        new_log.old_log(source.job, source.measured, source.changes, feed.pieces, True)
        for source, feed in zip(sources, feeds, strict=True)
    )  # fmt: skip
    ends = [(len(feed.pieces), 0) for feed in feeds]
    return new_log.NewLog(
        olds, list(_segments(begins, ends, olds)) or [NewSegment(at, (), True)], at
    )


def _segments(
    begins: list[tuple[int, list[tuple[int, int]]]], ends: list[tuple[int, int]],
    olds: Sequence[OldLog],
) -> Iterator[NewSegment]:  # fmt: skip
    for number, (start, firsts) in enumerate(begins):
        last = number + 1 == len(begins)
        stops = ends if last else begins[number + 1][1]
        parts = []
        for log, ((piece, first), (last_piece, stop)) in enumerate(zip(firsts, stops, strict=True)):
            if stop == 0 and last_piece:
                last_piece -= 1
                stop = olds[log].pieces[last_piece].taken
            if (piece, first) < (last_piece, stop):
                parts.append(Part(log, piece, first, last_piece, stop))
        yield NewSegment(start, tuple(parts), last)


# ---
# Stores that share a part of their logs, like a master and the slave that took over.


def earlier_logs(sources: Sequence[Source]) -> tuple[EarlierLog, ...]:
    """The logs of the sources, up to the end of their records."""
    return tuple(
        EarlierLog(source.job.plan.storage, tuple(source.job.plan.segments), source.measured.end)
        for source in sources
    )  # fmt: skip


def complete_groups(sources: Sequence[Source]) -> None:
    """Give each store the positions that only another store has, in queues that become one.

    A group that only one store knows has consumed the shared records up to its position there, and
    none of the records that only the other store has.
    """
    known = [consumer_offsets(source.job.plan.folder, Notes()) for source in sources]
    stores = list(zip(sources, known, strict=True))
    for number, (later, theirs) in enumerate(stores):
        ends = {key: seen.shared_end for key, seen in later.measured.queues.items()}
        shared = {(*key,): end for key, end in ends.items() if end}
        for earlier, ours in stores[:number] if shared else ():
            _complete(earlier, ours, theirs, shared)
            _complete(later, theirs, ours, shared)
    for one, own in stores:
        for other, more in stores:
            if other is not one:
                _begin(one, own, other, more)


def _complete(
    one: Source, known: Offsets, more: Offsets, shared: dict[tuple[str, int], int]
) -> None:
    """Give one store the positions that only the other store has, at most the shared end.

    known, more: the positions that the one and the other store have.
    """
    for (group, topic), queues in more.items():
        for queue_id, offset in queues.items():
            end = shared.get((topic, queue_id))
            if end is not None and queue_id not in known.get((group, topic), {}):
                own = one.groups.setdefault((topic, group), {})
                own[queue_id] = min(own.get(queue_id, end), offset, end)


def _begin(one: Source, known: Offsets, other: Source, more: Offsets) -> None:
    """Give one store its queue's start for each group that only the other store knows there.

    Otherwise what waits in the one store would lie before the group's position: retries, and half
    messages that the broker has to check (TransactionalMessageBridge.fetchConsumeOffset).
    """
    for (group, topic), queues in more.items():
        for queue_id in queues:
            key = new_log.QueueKey(topic, queue_id)
            seen = one.measured.queues.get(key)
            joined = one.new_queue(key) == other.new_queue(key)
            if seen and seen.counted and joined and queue_id not in known.get((group, topic), {}):
                one.groups.setdefault((topic, group), {}).setdefault(queue_id, seen.least)
