"""Finds where in a queue the messages from a time on begin, whatever of them the log still has.

RocketMQ's own search (derived/queue_reader.py) goes astray where a queue has entries for messages
that the log no longer has, as after a crash: it takes such a message for an old one.
"""

from bisect import bisect_left

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import Queue
from reput.store_format.log.reader import LogReader


def position_from(queue: Queue, time: int, log: LogReader) -> int:
    """The first position of which the message was stored at `time` (milliseconds) or later.

    A message that the log has not, or no longer, is taken for older before the log's start, for
    newer from the log's end on, and within the log it goes with the next one. A bad entry that
    the search meets counts as newer, so that a reader gets there. The queue is bisected: its
    storeTimestamps must not fall.
    """

    def is_newer(position: int) -> bool:
        try:
            for entry in queue.entries(position):
                stored = entry.store_timestamp
                if stored is None:
                    if entry.physical_offset < log.start:
                        return False
                    if entry.physical_offset >= log.end:
                        return True
                    stored = log.store_timestamp(entry.physical_offset, entry.size)
                if stored > 0:
                    return stored >= time
        except BadQueue:
            pass
        return True

    return bisect_left(range(max(queue.maximum(), 0)), True, key=is_newer)
