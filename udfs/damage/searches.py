"""Searches of a damaged log, one task each: records after a fault that may be live, records that
lost a sector, messages with a false transaction type.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reput.broker.writer.recovery import first_torn, written_in_part
from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.derived.queue_files import decode_entries, entry_bytes
from reput.store_format.dispatch.scan import Buffers, End, Runs, ScanRules, scan
from reput.store_format.faults import Fault
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.kernels.java_text import decode
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK
from reput.store_format.log.records import RecordRules, Rows
from reput.store_format.log.segments import FIND_FIRST, Segment, Splits, Stretch
from reput.store_format.log.walk import NO_CHECKS, Step, Walk
from reput.store_format.names import is_queue_topic
from reput.udfs.damage.segments import padded
from reput.udfs.staging import ids_of, in_batches, schema

# ---
# Looks for records after a fault in the log that may be live: a task of jobs/salvaging.
#
# Yields a row for each queue of each stretch.

_BUFFERED_BYTES = 1 << 16  # a scan may cover just one record: so little is read ahead

SURVEYED = schema(
    topic=pa.string(),
    queue_id=pa.int32(),
    batch=pa.bool_(),
    greatest=pa.int64(),  # the queue's greatest queueOffset in the stretch
    offset=pa.int64(),  # the physical offset of the queue's first record there
)


@dataclass(frozen=True)
class SurveySplits:
    """Surveys the splits whose numbers arrive in the column `id`, from the offset `start` on."""

    storage: InputStorage
    splits: Splits
    rules: ScanRules
    start: int  # physical offset just after the break

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            yield pa.RecordBatch.from_pylist(self._survey(number), SURVEYED)

    def _survey(self, number: int) -> list[dict[str, object]]:
        segment = self.splits.segment(number)
        stretch = self.splits.stretch(number, FIND_FIRST)
        reader = self.storage.open(segment.path, segment.state)
        read = segment.read_by(reader)
        rows: list[dict[str, object]] = []
        at = max(stretch.start, self.start)
        # The prover skips what only looks like a record, without reading the body it claims to
        # have.
        prover = Prover(read, at, segment.end, self.rules.records)
        check_body = self.rules.check_body_crc and not self.rules.dispatch.property_crc
        buffers = Buffers(_BUFFERED_BYTES)
        while at < stretch.end:
            at = prover.next_sound(at, check_body)
            if at == NOT_FOUND or at >= stretch.end:
                break
            end = End()
            around = Stretch(segment.start, segment.end, at, stretch.end, at)
            for part in scan(read, around, self.rules, buffers):
                if isinstance(part, Runs):
                    rows += _rows(part)
                elif isinstance(part, End):
                    end = part
            if end.fault in (Fault.NONE, Fault.BLANK):
                break
            at = end.next + 1
        reader.close()
        return rows


def _rows(part: Runs) -> Iterator[dict[str, object]]:
    for i, queue in enumerate(part.queues):
        if part.runs.count[i] == 0 or not is_queue_topic(queue.topic):
            continue
        at, size = int(part.runs.entries_at[i]), entry_bytes(queue.batch)
        first = decode_entries(part.runs.entries[at : at + size], queue.batch)
        yield {
            **queue._asdict(),
            "greatest": int(part.runs.greatest[i]),
            "offset": int(first["physicalOffset"][0]),
        }


# ---
# Finds records that lost a part of topic or properties in a crash: no CRC covers these.

_WINDOW_BYTES = 8 << 20
_MOST = 1000

# One row for each such record.
TORN = schema(offset=pa.int64(), size=pa.int64())


@dataclass(frozen=True)
class FindTorn:
    """Yields TORN rows of the records from `start` to `end`, where the log ends.

    known: the store's checkpoint; records that it vouches for cannot be torn. store: its root where
    it was not stopped cleanly: then the last record may be written in part (LogRecovery). The
    search ends at the first fault. It yields at most a thousand rows.
    """

    storage: InputStorage
    segment: Segment
    start: int
    end: int
    rules: RecordRules
    known: Checkpoint
    store: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in ids_of(batches):
            found = list(self._torn())[:_MOST]
            yield pa.RecordBatch.from_pylist(
                [{"offset": at, "size": size} for at, size in found], TORN
            )

    def _torn(self) -> Iterator[tuple[int, int]]:
        for walk, step in self.steps():
            for number in self._of(walk, step):
                yield int(step.rows[number]["physicalOffset"]), int(step.rows[number]["size"])

    def steps(self) -> Iterator[tuple[Walk, Step]]:
        """The sound records, a window at a time; each step is valid until the next."""
        reader = self.storage.open(self.segment.path, self.segment.state)
        buffer = np.empty(min(_WINDOW_BYTES, self.end - self.start), np.uint8)
        walk = Walk(padded(reader, self.segment), self.end, self.rules, NO_CHECKS, buffer)
        for step in walk.steps(self.start, self.end):
            yield walk, step
        reader.close()

    def _of(self, walk: Walk, step: Step) -> Iterator[int]:
        rows, done, segment = step.rows, 0, self.segment
        durable = self.known.physic_msg_timestamp
        while done < len(rows):
            done += first_torn(
                step.window, rows[done:], segment.start, segment.end, durable, walk.read
            )
            if done < len(rows):
                yield done
            elif self.store is not None and step.next >= self.end and written_in_part(
                Folder(self.storage, self.store), self.known, step.window, rows[-1]
            ):  # fmt: skip
                yield len(rows) - 1
            done += 1


# The greatest storeTimestamp of the records that were read; 0 for none.
NEWEST = schema(timestamp=pa.int64())


@dataclass(frozen=True)
class FindNewest:
    """Yields one row: the greatest storeTimestamp of the records that `look` walks over.

    The last record does not have it if the machine's clock was set back.
    """

    look: FindTorn

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in ids_of(batches):
            newest = max(
                (int(step.rows["storeTimestamp"].max()) for _, step in self.look.steps()
                 if len(step.rows)), default=0,
            )  # fmt: skip
            yield pa.RecordBatch.from_pylist([{"timestamp": newest}], NEWEST)


# ---
# Finds records that only their transaction type keeps out of a queue that lacks them.
#
# No checksum covers sysFlag. One flipped bit makes a plain message a prepared or a rolled back one.
# No queue takes those, and all later messages of its queue would move up.

_TRANSACTIONS_WINDOW_BYTES = 1 << 20

# One row for each such record. place: its physical offset; size: its bytes.
FALSE_TRANSACTION = schema(place=pa.int64(), size=pa.int64(), sys_flag=pa.int64())


class Missed(NamedTuple):
    """A message that a queue lacks although the log lost nothing between two physical offsets."""

    topic: str
    queue_id: int
    queue_offset: int
    after: int
    before: int


@dataclass(frozen=True)
class FindFalseTransactions:
    """Looks into those of `segments` whose indices arrive in the column `id`, each byte once."""

    storage: InputStorage  # that the store is on
    segments: tuple[Segment, ...]
    segment_bytes: int
    rules: RecordRules
    missed: tuple[Missed, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in ids_of(batches):
            yield from in_batches(self._look(self.segments[place]), FALSE_TRANSACTION)

    def _look(self, segment: Segment) -> Iterator[dict[str, int]]:
        start, end = segment.start, segment.start + self.segment_bytes
        mine = sorted(
            (m for m in self.missed if m.after < end and m.before > start), key=attrgetter("after")
        )
        reader = self.storage.open(segment.path, segment.state)
        read = padded(reader, segment)
        prover = Prover(read, start, end, self.rules)
        window = np.empty(_TRANSACTIONS_WINDOW_BYTES, np.uint8)
        walk = Walk(read, end, self.rules, NO_CHECKS, window, None,
                    lambda at: Fault.NONE if prover.proves(at) else Fault.LENGTHS)  # fmt: skip
        wanted = {(m.topic, m.queue_id, m.queue_offset): m for m in mine}
        at = start
        for missed in mine:
            at, stop = max(at, missed.after), min(end, missed.before)
            while at < stop:
                for step in walk.steps(at, stop):
                    yield from _of_step(step, wanted)
                    at = step.next
                if at < stop:
                    found = prover.next_record(at + 1)
                    at = end if found == NOT_FOUND else found
        reader.close()


def _of_step(step: Step, wanted: dict[tuple[str, int, int], Missed]) -> Iterator[dict[str, int]]:
    kind = step.rows["sysFlag"] & SYS_TRANSACTION_MASK
    rows: Rows = step.rows[(kind != 0) & (kind != SYS_TRANSACTION_COMMIT)]
    for row in rows:
        at = int(row["topicAt"])
        topic = decode(step.window[at : at + int(row["topicLength"])].tobytes())
        missed = wanted.get((topic, int(row["queueId"]), int(row["queueOffset"])))
        place = int(row["physicalOffset"])
        if missed and missed.after < place < missed.before:
            yield {"place": place, "size": int(row["size"]), "sys_flag": int(row["sysFlag"])}
