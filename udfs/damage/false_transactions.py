"""Finds records that only their transaction type keeps out of a queue that lacks them.

No checksum covers sysFlag. One flipped bit makes a plain message a prepared or a rolled back one.
No queue takes those, and all later messages of its queue would move up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import InputStorage
from reput.store_format.kernels.java_text import decode
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_MASK
from reput.store_format.log.records import RecordRules, Rows
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import NO_CHECKS, Step, Walk
from reput.udfs.damage.damaged_segments import padded
from reput.udfs.staging import ids_of, in_batches, schema

_WINDOW_BYTES = 1 << 20

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
        mine = sorted((m for m in self.missed if m.after < end and m.before > start), key=_after)
        reader = self.storage.open(segment.path, segment.state)
        read = padded(reader, segment)
        prover = Prover(read, start, end, self.rules)
        walk = Walk(read, end, self.rules, NO_CHECKS, np.empty(_WINDOW_BYTES, np.uint8), None,
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


def _after(missed: Missed) -> int:
    return missed.after


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
