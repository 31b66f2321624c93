"""The queue that a record goes to by itself, and which queueOffsets it takes there."""

from typing import Any, NamedTuple

from reput.store_format.damage.evidence import Queue
from reput.store_format.dispatch.dispatch import batch_numbers
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.kernels.java_text import decode
from reput.store_format.kernels.jit import kernel
from reput.store_format.log.properties import ValueSpans, find_properties, new_spans
from reput.store_format.log.records import Bytes
from reput.store_format.log.rules import reaches_queue


class OwnOffsets(NamedTuple):
    """The queueOffsets of a record's first and last message: in a batch queue it may have several.

    batch: it is a batch queue.
    """

    queue: Queue
    first: int
    last: int
    batch: bool = False


class OwnQueues:
    """Tells which queueOffsets a record takes, under the rules of a scan."""

    def __init__(self, rules: ScanRules) -> None:
        self._batch_topics = frozenset(rules.batch_topics)
        self._split = rules.dispatch.split_properties
        self._spans = new_spans()

    def of(self, window: Bytes, row: Any) -> OwnOffsets | None:
        """None where its transaction type or its batch's numbers keep the record out of a queue."""
        if not reaches_queue(int(row["sysFlag"])):
            return None
        at = int(row["topicAt"])
        topic = decode(window[at : at + int(row["topicLength"])].tobytes())
        queue, first = (topic, int(row["queueId"])), int(row["queueOffset"])
        if topic not in self._batch_topics:
            return OwnOffsets(queue, first, first)
        at = int(row["propertiesAt"])
        end = at + int(row["propertiesLength"])
        sound, first, messages = _numbers(window, at, end, first, self._split, self._spans)
        if not sound or first < 0 or messages < 0:
            return None
        return OwnOffsets(queue, first, first + max(messages, 1) - 1, True)


@kernel
def _numbers(
    buf: Bytes, at: int, end: int, queue_offset: int, split: bool, spans: ValueSpans
) -> tuple[bool, int, int]:
    find_properties(buf, at, end, split, spans)
    return batch_numbers(buf, spans, queue_offset)
