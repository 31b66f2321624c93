"""Scans a stretch of the CommitLog: walks, checks and dispatches its records window by window, by
rules made from a profile and settings.

The scan starts at a known record, or looks for the first record that starts at its own
physicalOffset. A stretch has the records that start in it. Whenever its buffers are full, the scan
yields index puts and runs of queues in the log's order, and at last how the stretch ended.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import layouts
from reput.store_format.dispatch.dispatch import Dispatching, DispatchRules, Puts, dispatch
from reput.store_format.dispatch.queue_table import (
    BATCH_TOPIC,
    TableQueue,
    batch_topics,
    clear,
    new_table,
    queues,
)
from reput.store_format.dispatch.runs import PositionRules, QueueRuns, Room, group_by_queue
from reput.store_format.faults import HEAD_FIELDS, Fault
from reput.store_format.kernels.java_text import decode
from reput.store_format.log.properties import new_spans
from reput.store_format.log.records import RECORD_ROW, Bytes, RecordRules, Rows, find_record
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.rules import record_rules as record_rules
from reput.store_format.log.segments import FIND_FIRST, Stretch
from reput.store_format.log.walk import Checks, Read, Walk, most_rows
from reput.store_format.release.profiles import Era, Profile, profile
from reput.store_format.release.settings import Settings

__all__ = ["Bytes", "Read", "Rows"]  # other modules import these from here

WINDOW_BYTES = 8 << 20
QUEUE_PUTS = 1 << 20
INDEX_PUTS = 1 << 17  # as many as stay in the processor's second-level cache until they are written
NAME_BYTES = 8 << 20
NONE_FOUND = -1


@dataclass(frozen=True)
class ScanRules:
    """What the result of a scan depends on, besides the log's bytes."""

    records: RecordRules
    dispatch: DispatchRules  # of the release that wrote last
    delays: tuple[int, ...]  # milliseconds of delay levels 1, 2, ..., as set last
    batch_topics: tuple[str, ...]
    check_body_crc: bool
    check_property_crc: bool = False  # also check `__CRC32#` in records that have one
    not_before: int | None = None  # leave out of the runs what was stored before this time
    # of each earlier release: (the physical offset up to which it dispatched, its rules), in order
    older: tuple[tuple[int, DispatchRules], ...] = ()
    # the same of the delays
    older_delays: tuple[tuple[int, tuple[int, ...]], ...] = ()
    # messages that a broker's recovery indexed again: (physical offset, how many of the message's
    # entries come before those of the last time), in order
    again: tuple[tuple[int, int], ...] = ()
    times: bool = False  # runs have their entries' store times, as rows in RocksDB do

    @property
    def checks(self) -> Checks:
        """What the walk checks. Where every record must have a `__CRC32#`, dispatch checks that."""
        sealed = self.dispatch.property_crc
        return Checks(
            body=self.check_body_crc and not sealed,
            property=self.check_property_crc,
            split_properties=self.dispatch.split_properties,
            seal=sealed,
        )


class IndexPuts(NamedTuple):
    """The next index puts, packed. The arrays are valid until the scan goes on."""

    hashes: npt.NDArray[np.int32]
    messages: npt.NDArray[Any]  # INDEX_MESSAGE


class NamedQueue(NamedTuple):
    """A queue by its name as Java decodes it; `batch`: it is a batch queue."""

    topic: str
    queue_id: int
    batch: bool


class Runs(NamedTuple):
    """The runs since the last `Runs`, and their queues; entries hold until the scan goes on."""

    queues: list[NamedQueue]
    runs: QueueRuns


_FALL_MOST = (1 << 63) - 1


@dataclass
class End:
    """How a stretch ended. Offsets are physical; -1 where there is none."""

    first: int = -1  # the first record
    next: int = -1  # where the walk stopped: at the next stretch's first record, or at the fault
    fault: Fault = Fault.NONE  # NONE: the stretch is done; BLANK: so is its segment
    size: int = 0  # totalSize at `next`, or the value of the field at fault
    rest_is_zero: bool = True  # nothing but zeros from `next` to the stretch's end
    wrong_blank: int = -1  # where a BLANK of the wrong size ended the scan
    records: int = 0
    index_puts: int = 0
    last_record: int = -1
    last_put: int = -1  # the last record that has a key
    first_timestamp: int = 0  # milliseconds: storeTimestamp of the first record
    last_timestamp: int = 0  # of the last one
    fell_at: int = -1  # the record whose storeTimestamp is furthest below that of the record before
    fell_by: int = 0  # milliseconds, _FALL_MOST at most
    last_dispatched: int = -1
    sequence: list[int] | None = None  # of a DLedger log, see Walk.sequence

    def count(self, rows: Any) -> None:
        """Note records that were accepted."""
        if len(rows) == 0:
            return
        times = rows["storeTimestamp"]
        if not self.records:
            self.first_timestamp = self.last_timestamp = int(times[0])
        falls = np.subtract(times[:-1], times[1:])
        within = int(falls.argmax()) if len(falls) else -1
        before = self.last_timestamp - int(times[0])
        for number, fall in ((0, before), (within + 1, int(falls[within]) if len(falls) else 0)):
            if fall > self.fell_by:
                self.fell_at, self.fell_by = (
                    int(rows["physicalOffset"][number]),
                    min(fall, _FALL_MOST),
                )
        self.records += len(rows)
        self.last_record = int(rows["physicalOffset"][-1])
        self.last_timestamp = int(times[-1])


class Buffers:
    """The memory of a scan, which does not depend on how long the stretch is.

    One object may serve many scans of stretches of at most `stretch_bytes`, one after the other:
    to get new memory from the system takes a tenth of a scan's time.
    """

    def __init__(
        self, stretch_bytes: int, most_puts: int = QUEUE_PUTS, window_bytes: int | None = None
    ) -> None:
        """window_bytes: how much is read at a time (WINDOW_BYTES)."""
        self.stretch_bytes = stretch_bytes
        self.window_bytes = window_bytes = window_bytes or WINDOW_BYTES
        # A short stretch needs only small tables, so that tests and tiny stores start at once.
        most = min(most_puts, max(stretch_bytes // layouts.RECORD_FIXED_BYTES, 0) + (1 << 16))
        self.window = np.empty(min(window_bytes, max(stretch_bytes, 1 << 16) + (1 << 16)), np.uint8)
        self.rows = np.zeros(most_rows(len(self.window)), RECORD_ROW)
        self.table = new_table(most, min(NAME_BYTES, stretch_bytes + (1 << 17)))
        most_hashes = min(INDEX_PUTS, stretch_bytes // 2 + (1 << 16))
        self.puts = Puts(
            np.zeros(most, layouts.QUEUE_PUT),
            np.zeros(most_hashes, np.int32),
            np.zeros(most_hashes, layouts.INDEX_MESSAGE),
            np.zeros(3, np.int64),
        )
        self.spans = new_spans()
        self.entries = Room()
        # How often the buffers were emptied: shows a reader that their content is gone.
        self.emptied = 0

    def empty(self) -> None:
        """Forget all content, also that of a scan that was given up."""
        self.puts.used[:] = 0
        clear(self.table)
        self.emptied += 1


def scan(
    read: Read, stretch: Stretch, rules: ScanRules, buffers: Buffers | None = None
) -> Iterator[IndexPuts | Runs | End]:
    """Walk a stretch; yields IndexPuts and Runs, in order, and last one End.

    Reads each byte of the stretch once, and past its end only what its last record needs.
    Memory does not depend on the stretch's length, nor on what any length field says.
    """
    return Scan(read, stretch, rules, buffers or Buffers(stretch.end - stretch.start)).run()


Older = list[tuple[int, Dispatching]]


def older_dispatching(rules: ScanRules, newest: Dispatching) -> Older:
    """(the physical offset up to which they hold, the rules of dispatching), in order."""
    return [
        (stop, newest._replace(
            rules=next((each for end, each in rules.older if stop <= end), rules.dispatch),
            delays=next((np.array(each, np.int64) for end, each in rules.older_delays
                         if stop <= end), newest.delays),
        ))
        for stop in sorted({stop for stop, _ in (*rules.older, *rules.older_delays)})
    ]  # fmt: skip


def by_era(rows: Rows, older: Older, newest: Dispatching) -> Iterator[tuple[int, Dispatching]]:
    """(end of the rows, rules) of the rows that each release dispatched, by each delay."""
    for stop, dispatching in older:
        if len(rows) and rows["physicalOffset"][0] < stop:
            yield int(np.searchsorted(rows["physicalOffset"], stop)), dispatching
    yield len(rows), newest


class Outputs:
    """Dispatches records into the buffers, and yields the buffers' content when they are full."""

    def __init__(self, rules: ScanRules, buffers: Buffers, end: End) -> None:
        """end: where the dispatched records and the yielded puts are counted."""
        self.rules, self.buffers, self.end = rules, buffers, end
        buffers.empty()
        self.dispatching = Dispatching(
            rules.dispatch, np.array(rules.delays, np.int64),
            batch_topics(list(rules.batch_topics)), buffers.table, buffers.puts, buffers.spans,
        )  # fmt: skip
        self.older = older_dispatching(rules, self.dispatching)

    def dispatch(
        self, window: Bytes, rows: Rows
    ) -> Generator[IndexPuts | Runs, None, tuple[int, Fault]]:
        """Dispatch rows, emptying full buffers; returns (rows dispatched, fault of the next)."""
        done = 0
        for stop, dispatching, held in self._parts(rows):
            if held:
                yield from self._give_puts()
            fault = int(Fault.NEED_MORE)
            while fault == Fault.NEED_MORE:
                more, fault = dispatch(window, rows[done:stop], dispatching)
                done += more
                if fault == Fault.NEED_MORE:
                    yield from self.make_room()
            if fault != Fault.NONE:
                break
            if held:
                yield from self._put_again(held)
        self.count(rows[:done])
        return done, Fault(fault)

    def _parts(self, rows: Rows) -> Iterator[tuple[int, Dispatching, int]]:
        """(end of the rows, rules, entries to put before) of rows that one release dispatched. The
        last number is 0 but for a message that was indexed again, which is alone in its part.
        """
        begin = 0
        for stop, dispatching in by_era(rows, self.older, self.dispatching):
            some = rows["physicalOffset"][begin:stop]
            for place, held in self.rules.again:
                at = int(np.searchsorted(some, place))
                if at < len(some) and some[at] == place:
                    yield begin + at, dispatching, 0
                    yield begin + at + 1, dispatching, held
            yield stop, dispatching, 0
            begin = stop

    def _put_again(self, held: int) -> Iterator[IndexPuts]:
        """Put `held` more keys of the buffers' only message before its own keys: first a part of
        its keys, if `held` is no multiple of their number, then all of them again and again.
        """
        hashes, messages, used = self.buffers.puts[1:]
        keys, message = hashes[: used[1]].copy(), messages[: used[2]].copy()
        if not len(keys):
            return
        times, rest = divmod(held, len(keys))
        used[1:] = 0
        for length in (rest, *(len(keys),) * (times + 1)):
            if used[1] + length > len(hashes) or used[2] == len(messages):
                yield from self._give_puts()
            hashes[used[1] : used[1] + length] = keys[:length]
            messages[used[2] : used[2] + (length > 0)] = message[: length > 0]
            used[1] += length
            used[2] += length > 0

    def make_room(self) -> Iterator[IndexPuts | Runs]:
        """Yield the index puts if there are any, else the runs."""
        yield from self._give_puts() if self.buffers.puts.used[1] else self._give_runs()

    def count(self, rows: Any) -> None:
        self.end.count(rows)

    def empty(self) -> Iterator[IndexPuts | Runs]:
        yield from self._give_puts()
        yield from self._give_runs()

    def _give_puts(self) -> Iterator[IndexPuts]:
        used = self.buffers.puts.used
        if used[1]:
            puts = IndexPuts(
                self.buffers.puts.hashes[: used[1]], self.buffers.puts.messages[: used[2]]
            )
            self.end.index_puts += len(puts.hashes)
            self.end.last_put = int(puts.messages["physicalOffset"][-1])
            yield puts
            used[1:] = 0

    def _give_runs(self) -> Iterator[Runs]:
        count = self.buffers.puts.used[0]
        if count:
            puts = self.buffers.puts.queue[:count]
            self.end.last_dispatched = int(puts["storeTimestamp"][-1])
            if self.rules.not_before is not None:
                puts = puts[puts["storeTimestamp"] >= self.rules.not_before]
            numbered = queues(self.buffers.table)
            yield _runs(numbered, puts, self.buffers.entries, self.rules.times)
        self.buffers.empty()


class Scan:
    """One scan of one stretch; see `scan`."""

    def __init__(
        self,
        read: Read,
        stretch: Stretch,
        rules: ScanRules,
        buffers: Buffers,
        outputs: Callable[[End], Any] | None = None,
    ) -> None:
        """outputs: makes the object used in place of Outputs (it has `dispatch`, `empty`)."""
        self.read, self.stretch, self.rules = read, stretch, rules
        self.end = End()
        self.outputs = outputs(self.end) if outputs else Outputs(rules, buffers, self.end)
        self.walk = Walk(
            read, stretch.segment_end, rules.records, rules.checks, buffers.window, buffers.rows
        )

    def run(self) -> Iterator[IndexPuts | Runs | End]:
        s, end = self.stretch, self.end
        at = self._find_first() if s.first == FIND_FIRST else s.first
        end.first = end.next = at
        if at == NONE_FOUND:
            yield end
            return
        for step in self.walk.steps(at, s.end):
            good, end.fault = yield from self.outputs.dispatch(step.window, step.rows)
            if end.fault != Fault.NONE:
                at = step.start(good)
                break
            at, end.fault = step.next, step.fault
        if end.fault == Fault.NONE and at == s.segment_end:
            end.fault = Fault.SHORT_TAIL  # RocketMQ ends every segment in a BLANK, or the log
        if end.fault == Fault.BLANK:
            size = self._value_at(at)
            if size != s.segment_end - at:
                end.wrong_blank, end.size = at, size
        end.next = s.segment_end if end.fault == Fault.BLANK else at
        if end.fault not in (Fault.NONE, Fault.BLANK):
            self._look_past(at)
        if self.walk.head:
            end.sequence = self.walk.sequence.tolist()
        yield from self.outputs.empty()
        yield end

    def _find_first(self) -> int:
        """The first record that starts at its own physicalOffset; NONE_FOUND if none does."""
        s = self.stretch
        # A record that starts in the stretch may have some of its first fields after the end.
        before = self.walk.head + layouts.RECORD_HEAD_BYTES - 1
        limit = min(s.end + before, s.segment_end)
        for at, window in self.walk.windows(s.start, limit, before):
            if window.max(initial=0):  # `any` takes five times as long
                found = find_record(window, 0, len(window), at, self.rules.records)
                if found >= 0:
                    self.end.rest_is_zero = True  # of what follows a break, see _look_past
                    return at + int(found)
                self.end.rest_is_zero = False
        return NONE_FOUND

    def _look_past(self, at: int) -> None:
        """Note the field at fault, and whether anything but zeros follows in the stretch."""
        self.end.size = self._value_at(at)
        pieces = self.walk.windows(at, self.stretch.end)
        self.end.rest_is_zero = not any(window.max(initial=0) for _, window in pieces)

    def _value_at(self, at: int) -> int:
        """The totalSize, or a DLedger head's field at fault, by default its size."""
        head = np.zeros(layouts.RECORD_HEAD.itemsize, np.uint8)
        self.read(at, head[: self.stretch.segment_end - at])
        if not self.walk.head:
            return int(np.frombuffer(head, layouts.RECORD_HEAD)[0]["totalSize"])
        return int(
            np.frombuffer(head, layouts.DLEDGER_HEAD)[0][HEAD_FIELDS.get(self.end.fault, "size")]
        )


def _runs(numbered: list[TableQueue], puts: Rows, room: Room, times: bool) -> Runs:
    """Group puts by queue. Two spellings that Java decodes alike are one queue.

    In the order of their keys, so that a builder of neighbouring queues reads neighbouring entries.
    """
    keys = [
        NamedQueue(decode(q.raw_name), q.queue_id, bool(q.flags & BATCH_TOPIC)) for q in numbered
    ]
    in_order = sorted(set(keys))
    numbers = {key: number for number, key in enumerate(in_order)}
    of_queue = np.array([numbers[key] for key in keys], np.int64)
    batch = np.array([key.batch for key in in_order], np.bool_)
    return Runs(in_order, group_by_queue(puts, of_queue, batch, room, times))


# ---
# Makes the rules that kernels take from a release's profile and a broker's settings.


def scan_rules(
    rules: Profile, settings: Settings, batch_topics: Iterable[str], eras: Sequence[Era] = (),
    again: Iterable[tuple[int, int]] = (), heads_from: int = NO_HEADS,
) -> ScanRules:  # fmt: skip
    """What a scan does under these settings. batch_topics: topics with queue.type BatchCQ. eras:
    the releases that the store's broker had; `rules` is the profile of the last. again: as in
    ScanRules. heads_from: as in RecordRules.
    """
    newest = _dispatch_rules(rules, settings)
    older = (
        (after.start, _as_written(_dispatch_rules(profile(era.release), settings), newest))
        for era, after in pairwise(eras)
    )
    return ScanRules(
        records=record_rules(rules, heads_from),
        dispatch=newest,
        delays=settings.delays,
        batch_topics=tuple(sorted(batch_topics)) if rules.batch_queues else (),
        check_body_crc=settings.check_crc_on_recover,
        older=tuple(older),
        again=tuple(again),
    )


def rocksdb_rules(rules: ScanRules, of: Profile, settings: Settings) -> ScanRules:
    """The rules for queues in RocksDB: rows have times, and enableLmq alone makes LMQs too
    (RocksDBConsumeQueueStore).
    """
    further = of.multi_dispatch and (settings.enable_multi_dispatch or settings.enable_lmq)
    return replace(rules, times=True, dispatch=rules.dispatch._replace(multi_dispatch=further))


def _as_written(rules: DispatchRules, newest: DispatchRules) -> DispatchRules:
    """Rules of an older release, but with what the newest release demands of the records."""
    return rules._replace(
        property_crc=newest.property_crc, zero_property_crc=newest.zero_property_crc,
        batch_queues=newest.batch_queues,
    )  # fmt: skip


def _dispatch_rules(rules: Profile, settings: Settings) -> DispatchRules:
    return DispatchRules(
        split_properties=rules.split_properties,
        index=settings.builds_index,
        index_tags=rules.index_tags,
        batch_queues=rules.batch_queues,
        multi_dispatch=rules.multi_dispatch and settings.builds_further_queues,
        lmq=settings.enable_lmq,
        skips_retry=rules.multi_dispatch_skips_retry,
        skips_slash=rules.multi_dispatch_skips_slash,
        skips_delays=rules.multi_dispatch_skips_delays,
        skips_system=rules.multi_dispatch_skips_system,
        property_crc=(
            rules.property_crc and settings.force_verify_prop_crc and settings.check_crc_on_recover
        ),
        zero_property_crc=rules.zero_property_crc,
    )


def place_rules(rules: Profile) -> PositionRules:
    return PositionRules(rules.skip_lower_offsets, rules.skip_by_end)
