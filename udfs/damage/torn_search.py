"""Finds records that lost a sector of topic or properties in a crash: no CRC covers these."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reput.broker.writer.recovery import first_torn
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.records import Bytes, RecordRules, Rows
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import NO_CHECKS, Walk
from reput.udfs.damage.damaged_segments import padded
from reput.udfs.staging import ids_of, schema

_WINDOW_BYTES = 8 << 20
_MOST = 1000

# One row for each such record. sure: it certainly lost a sector. Otherwise it is the log's last
# record and has a NUL in its text, which the producer may have sent.
TORN = schema(offset=pa.int64(), size=pa.int64(), sure=pa.bool_())


@dataclass(frozen=True)
class FindTorn:
    """Yields TORN rows of the records from `start` to `end`, where the log ends.

    durable: records stored before this time (milliseconds) were durable and cannot be torn.
    The search ends at the first fault. It yields at most a thousand rows.
    """

    storage: InputStorage
    segment: Segment
    start: int
    end: int
    rules: RecordRules
    durable: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in ids_of(batches):
            found = list(self._torn())[:_MOST]
            yield pa.RecordBatch.from_pylist(
                [{"offset": at, "size": size, "sure": sure} for at, size, sure in found], TORN
            )

    def _torn(self) -> Iterator[tuple[int, int, bool]]:
        for window, rows, is_end in self.windows():
            yield from self._of(window, rows, is_end)

    def windows(self) -> Iterator[tuple[Bytes, Rows, bool]]:
        """(window, sound records in it, whether it is the last), each valid until the next."""
        reader = self.storage.open(self.segment.path, self.segment.state)
        buffer = np.empty(min(_WINDOW_BYTES, self.end - self.start), np.uint8)
        walk = Walk(padded(reader, self.segment), self.end, self.rules, NO_CHECKS, buffer)
        for step in walk.steps(self.start, self.end):
            yield step.window, step.rows, step.next >= self.end
        reader.close()

    def _of(self, window: Bytes, rows: Rows, is_end: bool) -> Iterator[tuple[int, int, bool]]:
        done = 0
        while done < len(rows):
            torn = done + int(first_torn(window, rows[done:], self.segment.start, self.durable))
            if torn < len(rows):
                yield int(rows[torn]["physicalOffset"]), int(rows[torn]["size"]), True
            elif is_end and _has_nul(window, rows[-1]):
                yield int(rows[-1]["physicalOffset"]), int(rows[-1]["size"]), False
            done = torn + 1


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
                (int(rows["storeTimestamp"].max()) for _, rows, _ in self.look.windows()
                 if len(rows)), default=0,
            )  # fmt: skip
            yield pa.RecordBatch.from_pylist([{"timestamp": newest}], NEWEST)


def _has_nul(window: Bytes, row: np.void) -> bool:
    texts = (("topicAt", "topicLength"), ("propertiesAt", "propertiesLength"))
    return any((window[row[at] : row[at] + row[length]] == 0).any() for at, length in texts)
