"""The delay of each level (messageDelayLevel), as a store's own queues show it.

A queue entry of the schedule topic has the time of delivery in place of a tagsCode: the record's
storeTimestamp plus the delay of its level (CommitLog.checkMessageAndReturnSize). Wrong levels would
move the times of delivery by days. A level that was changed has several delays in its queue: each
entry keeps the time that its broker gave it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, suppress
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.queue_files import QueueEntry
from reput.store_format.derived.queues import FileQueues, Queue, Queues
from reput.store_format.discover.config import files_are_live
from reput.store_format.faults import StoreError
from reput.store_format.files.adapters import LiveFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog, Record
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.message.message import SCHEDULE_TOPIC, parse_properties
from reput.store_format.names import CONSUME_QUEUE
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import Settings
from reput.store_format.rocksdb.database import RocksDBError
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder

SCHEDULE = SCHEDULE_TOPIC
SETTING = "messageDelayLevel"
LEVELS_MOST = 1000  # queues that are looked at: a store may be hostile
_TRIED = 4  # entries at each place of a queue, as records may be damaged
_CHANGES_MOST = 16  # of one level: more are no operator's
_SECOND = 1000
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (_SECOND, "s"))


class Shown(NamedTuple):
    """An entry that shows its level's delay."""

    position: int  # in its queue
    place: int  # physicalOffset
    delay: int  # milliseconds


OlderDelays = tuple[tuple[int, tuple[int, ...]], ...]


class ShownDelays(NamedTuple):
    """By level the first live entry of its queue, those from which on the delay is another, and the
    last entry. A delay that was soon changed back may be overlooked.
    """

    levels: dict[int, list[Shown]]

    @property
    def last(self) -> dict[int, int]:
        return {level: shown[-1].delay for level, shown in self.levels.items()}

    def older(self, levels: Sequence[int]) -> OlderDelays:
        """(the physicalOffset before which they hold, the delays of all levels), in order.

        levels: those of the settings, which hold for what no queue has yet.
        """
        now = [*levels, *list(levels[-1:]) * (max(self.levels, default=0) - len(levels))]
        changes = [
            (after.place, level, before.delay)
            for level, shown in self.levels.items()
            for before, after in pairwise(
                [*shown, Shown(0, shown[-1].place + 1, now[level - 1])]
            )
            if before.delay != after.delay
        ]  # fmt: skip
        found = dict[int, tuple[int, ...]]()
        for place, level, delay in sorted(changes, reverse=True):
            now[level - 1] = delay
            found[place] = tuple(now)
        return tuple(sorted(found.items()))

    def contradiction(self, levels: Sequence[int], by: str) -> str:
        """Why these levels (milliseconds of level 1, 2, ...) cannot be the store's; '' if they can.

        by: what says them; '' if nothing does, so that they may be other ones.
        """
        for level, shown in sorted(self.last.items()):
            known = self.levels[level]
            if not by and len(known) - 2 > _CHANGES_MOST:
                return (
                    f"{SETTING}: level {level} is {delay_text(known[0].delay)} by the first entry "
                    f"of its queue, {SCHEDULE}/{level - 1}, {delay_text(shown)} by the last, and "
                    f"changes more than {_CHANGES_MOST} times between them: give --set "
                    f"{SETTING}=... as the broker has it"
                )
            # a higher level counts as the highest one
            said = levels[min(level, len(levels)) - 1] if levels else None
            if by and said not in [each.delay for each in known]:
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


def shown_delays(
    storage: InputStorage, segments: Sequence[Segment], stores: Iterable[Folder]
) -> ShownDelays:
    """What the queues of the schedule topic show; nothing where they cannot be read.

    storage: of the log's segments. stores: those that may have its queues.
    """
    rules = record_rules(profile(RELEASES[-1]), heads_from(segments))
    for store in stores if segments else ():
        queues = _queues_of(store)
        if queues is not None:
            with closing(queues), LogReader(LiveFiles(storage), list(segments), rules) as log:
                return _shown_by(queues, log)
    return ShownDelays({})


def assumed_delays(shown: Set[int] | None, delays: Sequence[int], levels: Set[int]) -> list[str]:
    """A line where delayed messages are dispatched by RocketMQ's default levels, as nothing shows
    those of the broker.

    shown: the levels that queues show, None if all are given; delays: by which it is done, levels:
    those of the messages. Raises StoreError where queues show that levels are others, and the
    default has not this one.
    """
    usual = Settings().delays
    if shown is None or levels <= shown:
        return []
    last, give = max(levels - shown), f"--set {SETTING}=... gives the broker's"
    without = f"messages wait at level {last}, RocketMQ's default has {len(usual)}"
    if shown and last > len(usual):
        raise StoreError(f"{SETTING}: {without}, and no queue shows that one's delay; {give}")
    if any(delays[level - 1] != usual[level - 1] for level in shown):
        return [
            f"{SETTING}: RocketMQ's default is taken for what no queue shows, up to level {last}, "
            f"though others are not as it says; {give}"
        ]
    if shown:
        return []
    return [
        f"{SETTING}: RocketMQ's default is taken, as no queue and no broker's file shows another; "
        f"{give}, by which delayed messages get their times"
        + (f"; {without}, so it is wrong" if last > len(usual) else "")
    ]


def waiting_from(store: Folder, delivered: Mapping[int, int]) -> dict[int, int]:
    """Queue id of the schedule topic -> physicalOffset of its first message that still waits.

    delivered: the position up to which a queue's messages are delivered. Lacks queues that cannot
    be read.
    """
    found: dict[int, int] = {}
    queues = _queues_of(store)
    if queues is None:
        return found
    with closing(queues):
        for queue_id, position in delivered.items():
            with suppress(StoreError), closing(queues.open(SCHEDULE, queue_id, False)) as queue:
                for entry in queue.entries(position, position + 1):
                    found[queue_id] = entry.physical_offset
    return found


def _queues_of(store: Folder) -> Queues | None:
    """The queues that a broker wrote last, of files or of RocksDB; None where no level has one."""
    in_files = bool(store.listed(f"{CONSUME_QUEUE}/{SCHEDULE}"))
    folder = queues_folder(store)
    if folder is not None and not (in_files and files_are_live(store)):
        with suppress(RocksDBError):
            return RocksDBQueues(store.path, folder)
    return FileQueues(store, lambda _: 0) if in_files else None


def _shown_by(queues: Queues, log: LogReader) -> ShownDelays:
    found = ShownDelays({})
    for queue_id, batch in queues.of(SCHEDULE)[:LEVELS_MOST]:
        if not batch:
            with (
                suppress(StoreError),  # whoever reads the queue for its own sake reports this
                closing(queues.open(SCHEDULE, queue_id, False)) as queue,
            ):
                if shown := shown_in(queue, log):
                    found.levels[queue_id + 1] = shown
    return found


def shown_in(queue: Queue, log: LogReader) -> list[Shown]:
    """The entries of a level's queue that ShownDelays has; none where no entry shows a delay."""
    last = next(_from_end(queue, log), None)
    first = next(_from_start(queue, log), last)
    if last is None or first is None:
        return []
    return [first, *islice(_changes(queue, log, first, last), _CHANGES_MOST + 1), last]


class LevelDelays(dict[int, int]):
    """Each level's delay, as set last, in milliseconds; and what it was before."""

    def __init__(self, last: Mapping[int, int]) -> None:
        super().__init__(last)
        self.before: dict[int, list[tuple[int, int]]] = {}

    def keep(self, level: int, shown: Sequence[Shown]) -> None:
        """Note what a level's queue shows (`shown_in`)."""
        self.before[level] = [(after.place, one.delay) for one, after in pairwise(shown)]

    def at(self, level: int, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The delays of a level's messages at these physical offsets."""
        found = np.full(len(places), self[level], np.int64)
        for end, delay in reversed(self.before.get(level, ())):
            found[places < end] = delay
        return found


def _changes(
    queue: Queue, log: LogReader, first: Shown, last: Shown, looks: int = 2
) -> Iterator[Shown]:
    """The entries in (first, last] from which on the delay is another, by bisection.

    looks: how often it is also halved where both ends show one delay, as it may be changed back.
    """
    if first.delay == last.delay and not looks:
        return
    looks = max(looks - 1, 0)
    middle = (first.position + last.position) // 2
    if middle <= first.position:
        if first.delay != last.delay:
            yield last
        return
    stop = min(middle + _TRIED, last.position)
    # where none shows it, it changed before
    found = next(_showing(queue, log, middle, stop), last._replace(position=middle))
    yield from _changes(queue, log, first, found, looks)
    if found.place != last.place:
        yield from _changes(queue, log, found, last, looks)


def last_delay(queue: Queue, log: LogReader, level: int) -> int | None:
    """The ms that the last entry of a level's queue shows; None without one of a live message.

    A message without DELAY, whose entry has a tag's hash, shows when a broker delivers it: at once.
    Raises BadQueue.
    """
    last = queue.last()
    record = None if last is None else _record(last, log, level)
    return None if last is None or record is None else last.tags_code - record.store_timestamp


def _from_end(queue: Queue, log: LogReader) -> Iterator[Shown]:
    for position in range(queue.maximum() - 1, max(queue.maximum() - 1 - _TRIED, -1), -1):
        yield from _showing(queue, log, position, position + 1)


def _from_start(queue: Queue, log: LogReader) -> Iterator[Shown]:
    last = queue.last()
    if last is None:
        return
    low, high = 0, last.position
    while low < high:  # the first entry of a message that has not expired
        middle = (low + high) // 2
        entry = next(queue.entries(middle, middle + 1), None)
        live = entry is not None and entry.physical_offset >= log.start
        low, high = (low, middle) if live else (middle + 1, high)
    yield from _showing(queue, log, low, low + _TRIED)


def _showing(queue: Queue, log: LogReader, first: int, stop: int) -> Iterator[Shown]:
    for position, entry in enumerate(queue.entries(first, stop), first):
        delay = _shown(entry, log, int(queue.folder.rpartition("/")[2]) + 1)
        if delay is not None:
            yield Shown(position, entry.physical_offset, delay)


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
