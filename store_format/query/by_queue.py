"""Messages of queues, by position and by time, through the ConsumeQueues; and where a queue's
messages from a time on really begin.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from heapq import merge
from typing import TYPE_CHECKING

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queue_reader import Boundary
from reput.store_format.derived.queues import Queue
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.message.message import SCHEDULE_TOPIC
from reput.store_format.names import QUEUE_EXT
from reput.store_format.notes import Notes
from reput.store_format.query.by_key import Times, Wants, within
from reput.store_format.query.log_scan import Gap, in_queue, needle_of, queue_gaps, scan
from reput.store_format.query.reader import OpenedStore, StoredMessage

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter

# ---
# Finds where in a queue the messages from a time on begin, whatever of them the log still has.
#
# RocketMQ's own search (derived/queue_reader.py) goes astray where a queue has entries for messages
# that the log no longer has, as after a crash: it takes such a message for an old one.


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


_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"  # names further queues that the message was put into


def by_offset(
    store: OpenedStore, topic: str, queue_id: int, first: int, stop: int | None, from_log: bool,
    notes: Notes,
) -> Iterator[StoredMessage]:  # fmt: skip
    def wanted(message: StoredMessage) -> bool:
        at = message.queue_offset
        return message.queue_id == queue_id and at >= first and (stop is None or at < stop)

    queues = None if from_log else _queues(store, topic, queue_id, notes)

    def some(queue: Queue) -> Iterator[StoredMessage]:
        return _entries(store, queue, topic, first, stop, notes)

    return _messages(store, topic, queues, some, wanted, notes)


def by_time(
    store: OpenedStore, topic: str, queue_id: int | None, times: Times, from_log: bool,
    notes: Notes, chosen: "Filter | None" = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages of a topic, or of one of its queues, that were stored in these times.

    chosen: only messages that this filter wants; a filter by tags first looks at the queue's
    entries. A queue is searched by bisection, so its storeTimestamps must not fall. They fall only
    if a broker's clock was set back.
    """
    begin, end = times

    def wanted(message: StoredMessage) -> bool:
        return queue_id in (None, message.queue_id) and within(message, begin, end)

    def some(queue: Queue) -> Iterator[StoredMessage]:
        first, stop = 0, None
        if begin is not None:
            first = position_from(queue, begin, store.log)
        if end is not None and may_match is not None:
            # messages that are not read cannot show that `end` is passed
            stop = position_from(queue, end + 1, store.log)
        for message in _entries(store, queue, topic, first, stop, notes, may_match):
            if may_match is None and end is not None and message.store_timestamp > end:
                return
            if within(message, begin, end) and (chosen is None or message.wanted_by(chosen)):
                yield message

    may_match = getattr(chosen, "may_match", None)
    if topic == SCHEDULE_TOPIC or store.folders(QUEUE_EXT):
        may_match = None  # an entry's tagsCode is a time, or a place in the ext files
    queues = None if from_log else _queues(store, topic, queue_id, notes)
    return _messages(store, topic, queues, some, wanted, notes, chosen)


def in_log(
    store: OpenedStore, begin: int | None, end: int | None, notes: Notes,
    chosen: "Filter | None" = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages of all topics in the log that were stored in [begin, end]."""
    for message in scan(store, store.log.start, store.log.end, b"", notes, chosen):
        if within(message, begin, end):
            yield message


def as_client(
    store: OpenedStore, topic: str, queue_id: int | None, begin: int | None, end: int | None,
    notes: Notes,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages from searchOffset(begin) up to, but without, searchOffset(end).

    A client gets these if it asks a broker for both offsets and pulls between (mqadmin printMsg).
    """
    found = []
    for queue in _queues(store, topic, queue_id, notes) or ():
        least = max(queue.minimum(store.log.start, store.profile), 0)
        first, stop = least, queue.maximum()
        if begin is not None:
            first = queue.position_by_time(begin, Boundary.LOWER, store.log, store.profile)
        if end is not None:
            stop = queue.position_by_time(end, Boundary.LOWER, store.log, store.profile)
        found.append(_entries(store, queue, topic, max(first, least), stop, notes))
    return merge(*found, key=lambda message: message.physical_offset)


def _queues(
    store: OpenedStore, topic: str, queue_id: int | None, notes: Notes
) -> list[Queue] | None:
    """The wanted queues; None if the log must be read instead."""
    if not store.queues.topics():
        notes.note("the store has no queues; the log is read instead")
        return None
    queues = []
    for number, batch in store.queues.of(topic):
        if queue_id is None or number == queue_id:
            try:
                queue = store.queue(topic, number, batch)
                refuse_cut(store, queue)
                queues.append(queue)
            except BadQueue as error:
                notes.note(f"{error}; the log is read instead")
                return None
    if not queues:
        notes.note("the store has no such queue; `query --scan` looks for its messages in the log")
    return queues


def refuse_cut(store: OpenedStore, queue: Queue) -> None:
    """Raise BadQueue if a file ends within an entry, or is shorter than the others."""
    queue.refuse_cut(store.queues.file_bytes(queue.batch))


def _messages(
    store: OpenedStore, topic: str, queues: list[Queue] | None,
    read: Callable[[Queue], Iterator[StoredMessage]], wanted: Wants, notes: Notes,
    chosen: "Filter | None" = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages in the queues, and those only in the log, in the log's order, once each.

    wanted: whether a message that was found in the log is wanted.
    """
    log = store.log

    def of_topic(message: StoredMessage) -> bool:
        return message.topic == topic and in_queue(message) and wanted(message)

    gaps: list[Gap] = [(log.start, log.end)] if queues is None else []
    if queues:
        lacking = queue_gaps(store, queues, notes)
        lacking.note(notes)
        gaps = lacking.gaps
    streams = [_sound(read(queue), notes) for queue in queues or ()]
    streams += [
        filter(of_topic, scan(store, start, stop, needle_of(topic), notes, chosen))
        for start, stop in gaps
    ]
    before = -1
    for message in merge(*streams, key=lambda each: each.physical_offset):
        if message.physical_offset != before:  # it may be in a queue and in a gap
            yield message
        before = message.physical_offset


def _sound(messages: Iterator[StoredMessage], notes: Notes) -> Iterator[StoredMessage]:
    """The messages up to the first bad entry."""
    try:
        yield from messages
    except BadQueue as error:
        notes.note(f"{error}; the queue is not read behind it: --scan reads the log instead")


def _entries(
    store: OpenedStore, queue: Queue, topic: str, first: int, stop: int | None, notes: Notes,
    may_match: Callable[[int], bool] | None = None,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages that a queue's entries point to. Entries that point to no message are noted.

    may_match: given an entry's tagsCode, whether its message has to be read.
    """
    queue_id = int(queue.folder.rpartition("/")[2])
    for entry in queue.entries(first, stop):
        if may_match is not None and not may_match(entry.tags_code):
            continue
        try:
            record = store.log.record_at(entry.physical_offset)
        except NotInLog:
            if entry.physical_offset < store.log.start:
                notes.note(f"{queue.folder}: its first messages have expired from the log")
            else:
                notes.skip(f"{queue.folder}: position {entry.position}: the log has no such place")
            continue
        except NoRecord as error:
            notes.skip(f"{queue.folder}: position {entry.position}: no message there: {error}")
            continue
        message = store.message(record)
        is_own = (message.topic, message.queue_id) == (topic, queue_id)
        if is_own or topic in message.properties.get(_MULTI_DISPATCH, "").split(","):
            yield message
        else:
            notes.skip(f"{queue.folder}: position {entry.position}: a message of another queue")
