"""Parts of a log of which one topic is wanted: its ConsumeQueues point to the records.

Every entry is checked. The record that it points to is read, and must have this topic, queue and
position; so must the records of the entries just before and after the part. If any of this fails,
the log is walked from there on, as `LogParts` does. A part with much of the topic is walked too,
because reading every record by itself would take longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.queue_files import QueueFiles, is_pre_blank
from reput.store_format.faults import Fault, StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.reader import LogReader
from reput.store_format.log.records import RECORD_ROW, bad_bodies, walk
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.walk import Step
from reput.udfs.table import log_parts
from reput.udfs.table.columns import StepRows
from reput.udfs.table.log_parts import LogPart, LogParts, Tell

WORTH_BYTES = 8 << 10  # a walk covers so much while one record is read by itself
FOUND = np.dtype([("place", "<i8"), ("size", "<i4"), ("queueId", "<i4"), ("position", "<i8")])


class TopicQueue(NamedTuple):
    id: int
    folder: str


class Doubt(StoreError):
    """A queue's entries contradict the log, or are too many to read records one by one."""


@dataclass(frozen=True)
class QueuedParts(LogParts):
    topic: str = ""
    queues: tuple[TopicQueue, ...] = ()

    def steps(self, part: LogPart, tell: Tell = log_parts.logger.info) -> Iterator[Step]:
        """The topic's records in a part; where the log is walked, those of other topics too."""
        known, start = part.known, part.start
        try:
            for step in self._gathered(part):
                yield step
                known, start = step.start(-1), step.next
        except (StoreError, FileNotFoundError) as error:
            tell(f"the log is read from {start} to {part.stop}: {error}")
            yield from super().steps(part._replace(known=known, start=start), tell)

    def around(self, part: LogPart) -> tuple["LogParts", LogPart]:
        """The whole log: the entries before and after the part may point anywhere."""
        return self, part

    def _gathered(self, part: LogPart) -> Iterator[Step]:
        segment = self.segments[part.segment]
        growing = LiveFiles(self.storage)
        with LogReader(growing, list(self.segments), self.rules.records) as log:
            found = np.concatenate(
                [self._entries(growing, log, each, part) for each in self.queues]
            )
            if len(found) * WORTH_BYTES > part.stop - part.start:
                raise Doubt(f"it has {len(found):,} records of the topic there")
            found.sort(order="place")
            at = 0
            while at < len(found):
                ends = np.cumsum(found["size"][at:], dtype=np.int64)
                count = int(np.searchsorted(ends, log_parts.WINDOW_BYTES, "right"))
                if count == 0 or int((found["place"] + found["size"])[at : at + count].max()) > (
                    segment.end
                ):
                    raise Doubt(f"a record at {found['place'][at]} is too long for a window")
                yield self._step(log, found[at : at + count])
                at += count

    def _entries(
        self, storage: InputStorage, log: LogReader, queue: TopicQueue, part: LogPart
    ) -> np.ndarray[Any, Any]:
        """FOUND rows of a queue's records that start in a part. Raises StoreError."""
        files, taken = QueueFiles(Folder(storage, queue.folder)), [np.zeros(0, FOUND)]
        for file in files.all:
            with files.open(file) as entries:
                used = entries.used()
                low = entries.bisect(0, used, lambda e: int(e["physicalOffset"]) < part.start)
                high = entries.bisect(low, used, lambda e: int(e["physicalOffset"]) < part.stop)
                if (high - low) * WORTH_BYTES > part.stop - part.start:
                    raise Doubt(f"it has {high - low:,} records of the topic there")
                some = entries.range(low, high)
                found = np.zeros(len(some), FOUND)
                found["place"], found["size"] = some["physicalOffset"], some["size"]
                found["queueId"] = queue.id
                found["position"] = files.position(file, low) + np.arange(len(some))
                taken.append(found[~is_pre_blank(some)])
                for number in (low - 1, high):
                    if 0 <= number < used and not is_pre_blank(entries[number]):
                        self.check(log, queue, entries[number], files.position(file, number))
        whole = np.concatenate(taken)
        places = whole["place"]
        if not bool(((places >= part.start) & (places < part.stop)).all()):
            raise Doubt(f"{queue.folder}: an entry is not where its neighbours say")
        if not bool((whole["size"] > 0).all()):
            raise Doubt(f"{queue.folder}: an entry has no size")
        return whole

    def check(self, log: LogReader, queue: TopicQueue, entry: Any, position: int) -> int:
        """Check an entry's record, unless that has expired; returns its end. Raises StoreError."""
        place, size = int(entry["physicalOffset"]), int(entry["size"])
        if place >= log.start:
            record = log.record_at(place)
            there = record.topic, record.queue_id, record.queue_offset, record.size
            if there != (self.topic, queue.id, position, size):
                raise Doubt(f"{queue.folder}: position {position} is not the record at {place}")
        return place + size

    def _step(self, log: LogReader, found: np.ndarray[Any, Any]) -> Step:
        """The records of these entries, one after the other in a window. Raises StoreError."""
        sizes = found["size"].astype(np.int64)
        window = np.empty(int(sizes.sum()), np.uint8)
        rows = np.zeros(len(found), RECORD_ROW)
        first = int(found["place"][0])
        at, head = 0, first - log.start_of(first)
        alone, unused = self.rules.records._replace(heads_from=NO_HEADS), np.zeros(0, np.int64)
        for number, place in enumerate(found["place"].tolist()):
            end = at + int(sizes[number])
            log.read_into(place, window[at:end])
            count, _, _ = walk(
                window, at, end, at + 1, end, place - at, alone, rows[number:], unused
            )
            if count != 1 or int(rows["size"][number]) != end - at:
                raise Doubt(f"no record of {end - at} bytes is at {place}")
            at = end
        same = (rows["queueId"] == found["queueId"]) & (rows["queueOffset"] == found["position"])
        if not bool(same.all()):
            raise Doubt(f"the record at {found['place'][np.argmin(same)]} has another position")
        if self.check_body and bool(bad_bodies(window, rows).any()):
            raise Doubt("a body does not match its CRC")
        end = int(found["place"][-1] + sizes[-1])
        step = Step(first, window, rows, None, end, Fault.NONE, head)
        topics = StepRows(step, None, self.rules.records, False, self.body).column("topic")
        if topics.value_counts().to_pylist() != [{"values": self.topic, "counts": len(rows)}]:
            raise Doubt("a record is of another topic")
        return step
