"""The delay of each level (messageDelayLevel), as a store's own queues show it.

A queue entry of the schedule topic has the time of delivery in place of a tagsCode: the record's
storeTimestamp plus the delay of its level (CommitLog.checkMessageAndReturnSize). Wrong levels would
move the times of delivery by days.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reput.store_format.derived.queue_files import QueueEntry
from reput.store_format.derived.queues import Queue, Queues
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog, Record
from reput.store_format.message.message import SCHEDULE_TOPIC, parse_properties

SCHEDULE = SCHEDULE_TOPIC
SETTING = "messageDelayLevel"
LEVELS_MOST = 1000  # queues that are looked at: a store may be hostile
_TRIED = 4  # entries at each end of a queue, as records may be damaged
_SECOND = 1000
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (_SECOND, "s"))


class ShownDelays(NamedTuple):
    """Milliseconds of delay by level: by the first and by the last live entry of its queue."""

    first: dict[int, int]
    last: dict[int, int]

    def contradiction(self, levels: Sequence[int], by: str) -> str:
        """Why these levels (milliseconds of level 1, 2, ...) cannot be the store's; '' if they can.

        by: what says them; '' if nothing does, so that they may be other ones.
        """
        for level, shown in sorted(self.last.items()):
            first = self.first[level]
            if not by and first != shown:
                return (
                    f"{SETTING}: level {level} is {delay_text(first)} by the first entry of its "
                    f"queue, {SCHEDULE}/{level - 1}, and {delay_text(shown)} by the last: give "
                    f"--set {SETTING}=... as the broker has it"
                )
            said = levels[level - 1] if level <= len(levels) else None
            if by and said not in (first, shown):
                what = "no such level" if said is None else delay_text(said)
                return (
                    f"{SETTING}: level {level} is {delay_text(shown)} by its queue, "
                    f"{SCHEDULE}/{level - 1}; by {by}: {what}. Correct it or leave it out; if the "
                    "queue is wrong, move it away, and it is derived anew"
                )
        return ""

    def text(self, usual: Sequence[int]) -> str:
        """The setting's value. usual: the delays of levels that no queue shows."""
        count = max(len(usual), *self.last)
        known = dict(enumerate(usual, 1)) | self.last
        return " ".join(delay_text(known.get(level, _SECOND)) for level in range(1, count + 1))


def shown_delays(queues: Queues, log: LogReader) -> ShownDelays:
    """What the queues of the schedule topic show; nothing where they cannot be read."""
    found = ShownDelays({}, {})
    for queue_id, batch in queues.of(SCHEDULE)[:LEVELS_MOST]:
        if batch:
            continue
        try:
            queue = queues.open(SCHEDULE, queue_id, False)
            last = next(_from_end(queue, log), None)
            first = next(_from_start(queue, log), last)
        except StoreError:  # whoever reads the queue for its own sake reports this
            continue
        if last is not None and first is not None:
            found.first[queue_id + 1], found.last[queue_id + 1] = first, last
    return found


def last_delay(queue: Queue, log: LogReader, level: int) -> int | None:
    """The ms that the last entry of a level's queue shows; None without one of a live message.

    A message without DELAY, whose entry has a tag's hash, shows when a broker delivers it: at once.
    Raises BadQueue.
    """
    last = queue.last()
    record = None if last is None else _record(last, log, level)
    return None if last is None or record is None else last.tags_code - record.store_timestamp


def _level(queue: Queue) -> int:
    return int(queue.folder.rpartition("/")[2]) + 1


def _from_end(queue: Queue, log: LogReader) -> Iterator[int]:
    for position in range(queue.maximum() - 1, max(queue.maximum() - 1 - _TRIED, -1), -1):
        for entry in queue.entries(position, position + 1):
            delay = _shown(entry, log, _level(queue))
            if delay is not None:
                yield delay


def _from_start(queue: Queue, log: LogReader) -> Iterator[int]:
    last = queue.last()
    if last is None:
        return
    low, high = 0, last.position
    while low < high:  # the first entry of a message that has not expired
        middle = (low + high) // 2
        entry = next(queue.entries(middle, middle + 1), None)
        live = entry is not None and entry.physical_offset >= log.start
        low, high = (low, middle) if live else (middle + 1, high)
    for entry in queue.entries(low, low + _TRIED):
        delay = _shown(entry, log, _level(queue))
        if delay is not None:
            yield delay


def _shown(entry: QueueEntry, log: LogReader, level: int) -> int | None:
    """The delay that an entry shows. RocketMQ's are whole seconds, which no flipped bit leaves."""
    record = _record(entry, log, level)
    if record is None or parse_properties(record.properties).get("DELAY") != str(level):
        return None
    delay = entry.tags_code - record.store_timestamp
    return None if delay % _SECOND else delay


def _record(entry: QueueEntry, log: LogReader, level: int) -> Record | None:
    """The record of an entry of a level's queue; None if another stands there, or none."""
    try:
        record = log.record_at(entry.physical_offset)
    except (NoRecord, NotInLog):
        return None
    return record if (record.topic, record.queue_id) == (SCHEDULE, level - 1) else None


def delay_text(delay: int) -> str:
    """Milliseconds as messageDelayLevel has them: `90s`, `1d`."""
    size, unit = next(each for each in _UNITS if delay % each[0] == 0)
    return f"{delay // size}{unit}"
