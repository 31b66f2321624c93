"""The marks of records whose places are known, by index and queue, without a walk of the log."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np

from reput.store_format.derived.queues import Queue
from reput.store_format.fate.gather import ENDED, Gathered, Marks, named_by_op
from reput.store_format.fate.marks import (
    HALF,
    MARK,
    NAMED,
    OP,
    ROCKSDB_HALF,
    ROCKSDB_OP,
    mark_records,
)
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.message.message import OP_TOPIC, ROCKSDB_OP_TOPIC


def gather_few(
    log: LogReader,
    places: Iterable[int],
    op_queue: Callable[[str], Queue],
    split: bool,
    near_end: int,
) -> Gathered:
    """As `gather`, of one message's records.

    op_queue: opens a topic's queue of op messages, if there is a half message; op messages after
    the first half message are read until each is named. near_end: a place near the log's end where
    a record is, 0 if not known. Raises NoRecord, NotInLog, BadQueue.
    """
    marks = [_mark(log, place, split) for place in sorted(set(places))]
    halves = [each for each in marks if each["kind"][0] == HALF]
    ended = [np.zeros(0, ENDED)]
    wanted = {int(half["queueOffset"][0]): int(half["physicalOffset"][0]) for half in halves}
    if halves:
        first = int(halves[0]["physicalOffset"][0])
        ops = op_queue(OP_TOPIC)
        for entry in ops.entries(_position_after(ops, first)):
            if not wanted:
                break
            record = log.record_at(entry.physical_offset)
            named, _ = named_by_op(
                record.physical_offset, record.store_timestamp, record.properties, log.body(record)
            )
            at = record.physical_offset  # an op stands behind its half message
            named = named[[wanted.get(half, at) < at for half in named["halfOffset"].tolist()]]
            if len(named):
                for half in named["halfOffset"].tolist():
                    wanted.pop(half, None)
                ended.append(named)
                op = np.zeros(1, MARK)
                op["kind"], op["physicalOffset"] = OP, record.physical_offset
                marks.append(op)
    marks += _ops_of_places(log, marks, op_queue, split)
    found = np.concatenate([np.zeros(0, MARK), *marks])
    found = found[np.argsort(found["physicalOffset"], kind="stable")]
    return Gathered(found, np.concatenate(ended), [], 0, _last_timestamp(log, near_end), [], 0)


def _ops_of_places(
    log: LogReader, marks: list[Marks], op_queue: Callable[[str], Queue], split: bool
) -> list[Marks]:
    """The marks of op messages that name half messages in RocksDB's topic, by their places."""
    wanted = {int(each["physicalOffset"][0]) for each in marks if each["kind"][0] == ROCKSDB_HALF}
    found: list[Marks] = []
    if wanted:
        ops = op_queue(ROCKSDB_OP_TOPIC)
        for entry in ops.entries(_position_after(ops, min(wanted))):
            op = _mark(log, entry.physical_offset, split)
            if op["kind"][0] == ROCKSDB_OP and int(op["prepared"][0]) in wanted:
                wanted.discard(int(op["prepared"][0]))
                found.append(op)
            if not wanted:
                break
    return found


def _mark(log: LogReader, place: int, split: bool) -> Marks:
    """The mark (MARK, one) of the record at a place."""
    mark: Marks = np.zeros(1, MARK)
    start = log.start_of(place)
    for step in log.steps(start, start + 1):
        mark_records(step.window, step.rows, split, True, np.empty((NAMED, 2), np.int64), mark)
    return mark


def _last_timestamp(log: LogReader, near_end: int) -> int:
    """The store time of the log's last record, 0 without one.

    The log is walked from `near_end` on, or through the last segment that has a record.
    """
    for place in (near_end, *(segment.start for segment in reversed(log.segments))):
        last = 0
        with suppress(NoRecord, NotInLog):  # what stands before damage counts
            for step in log.steps(log.start_of(place) if place == near_end else place):
                last = int(step.rows["storeTimestamp"][-1])
        if last:
            return last
    return 0


def _position_after(queue: Queue, place: int) -> int:
    """The first position of a queue whose message stands after a place in the log."""
    low, high = 0, queue.maximum()
    while low < high:
        middle = (low + high) // 2
        entry = next(queue.entries(middle, high), None)  # the first that the queue still has
        if entry is None or entry.physical_offset > place:
            high = middle
        else:
            low = entry.position + 1
    return low
