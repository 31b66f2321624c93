"""Looks for records after a fault in the log that may be live: a task of jobs/salvaging.

Yields a row for each queue of each stretch.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.derived.queue_files import decode_entries, entry_bytes
from reput.store_format.dispatch.scan import Buffers, End, Runs, ScanRules, scan
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.segments import FIND_FIRST, Splits, Stretch
from reput.store_format.names import UnsafeName, check_topic
from reput.udfs.staging import ids_of, schema

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
        if part.runs.count[i] == 0:
            continue
        try:
            check_topic(queue.topic)
        except UnsafeName:
            continue
        at, size = int(part.runs.entries_at[i]), entry_bytes(queue.batch)
        first = decode_entries(part.runs.entries[at : at + size], queue.batch)
        yield {
            **queue._asdict(),
            "greatest": int(part.runs.greatest[i]),
            "offset": int(first["physicalOffset"][0]),
        }
