"""Dispatches new records while the log grows (DefaultMessageStore.ReputMessageService).

It reads the records back from the log and dispatches them by the same kernels as a rebuild's scan,
so that both derive the same files.
"""

from dataclasses import replace

from reput.broker.writer.index_writer import IndexWriter
from reput.broker.writer.queue_writer import QueueWriter
from reput.store_format.dispatch.dispatch import unpacked
from reput.store_format.dispatch.scan import Buffers, End, IndexPuts, Read, Runs, ScanRules, scan
from reput.store_format.faults import REASONS, DamageFound, Fault
from reput.store_format.log.segments import Stretch
from reput.store_format.names import COMMIT_LOG, segment_name

_STRETCH_BYTES = 4 << 20  # dispatched at once
_BEYOND_BYTES = 64 << 10  # read past a stretch, where its last record may end


class Reput:
    """Dispatches a log from `at` on. Not for use by two threads at once."""

    def __init__(
        self,
        read: Read,
        segment_bytes: int,
        rules: ScanRules,
        queues: QueueWriter | None,
        index: IndexWriter | None,
        at: int,
    ) -> None:
        """read: fills a buffer from the log; queues, index: None where they are not kept."""
        self.read, self.segment_bytes = read, segment_bytes
        self.rules = rules
        self.queues, self.index = queues, index
        self.at = at
        self._buffers = Buffers(min(segment_bytes, _STRETCH_BYTES))
        self._window = self._buffers.window
        self.timestamp = 0  # milliseconds: store time of the last record dispatched

    def run(self, end: int, known: bool = True) -> None:
        """Dispatch all records up to `end`, where one ends. Raises DamageFound.

        known: this writer appended the records, so no CRC is checked; nor does RocketMQ's running
        dispatch check any.
        """
        rules = replace(self.rules, check_body_crc=False) if known else self.rules
        while self.at < end:
            segment = self.at - self.at % self.segment_bytes
            stop = min(end, segment + self.segment_bytes, self.at + _STRETCH_BYTES)
            stretch = Stretch(segment, segment + self.segment_bytes, self.at, stop, self.at)
            # Nothing is read past `end`: the system would read ahead in large folios, and writing a
            # record into one of these costs several microseconds more.
            self._buffers.window = self._window[: min(stop + _BEYOND_BYTES, end) - self.at]
            stood = self._dispatch(stretch, rules)
            if stood.fault not in (Fault.NONE, Fault.BLANK):
                field, reason = REASONS[stood.fault]
                raise DamageFound(
                    f"{COMMIT_LOG}/{segment_name(segment)}: at offset {stood.next}: {field}: "
                    f"{reason}; live records follow. Use `reput recover` first"
                )
            self.at = stood.next

    def _dispatch(self, stretch: Stretch, rules: ScanRules) -> End:
        index = self.index
        end = End()
        for out in scan(self.read, stretch, rules, self._buffers):
            if isinstance(out, Runs):
                if self.queues is not None:
                    self.queues.append(out.queues, out.runs)
            elif isinstance(out, IndexPuts):
                if index is not None:
                    index.append_new(unpacked(out.hashes, out.messages))
            else:
                end = out
        if end.records:
            self.timestamp = end.last_timestamp
            if index is not None and end.last_record > index.indexed_to:
                # The last index file may be full; a message without keys opens the next one too.
                index.open_for_message()
        return end
