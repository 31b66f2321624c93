"""`Watch`: what a store has, looked at again and again, while a broker writes to it or not.

The first look reads the log once; each further one reads on from the last whole record, and of
other files what has changed. Of messages the marks of those that still wait are kept, so memory
grows with these, with queues and with groups, and not with time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from operator import methodcaller

import numpy as np

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import FileQueues, Queue
from reput.store_format.discover.config import Offsets, batch_topics, consumer_offsets
from reput.store_format.fate import delays, transactions
from reput.store_format.fate.gather import HALF, ROCKSDB_HALF, SCHEDULE, Taken
from reput.store_format.fate.known import half_position, half_rows, read_progress, with_timers
from reput.store_format.fate.rows import level_delays
from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Listed
from reput.store_format.layouts import SYS_TRANSACTION_MASK, SYS_TRANSACTION_PREPARED
from reput.store_format.log.groups import log_folders
from reput.store_format.log.reader import LogReader, NoRecord, NotInLog
from reput.store_format.log.walk import Step
from reput.store_format.names import CONFIG, LMQ_PREFIX
from reput.store_format.notes import Notes
from reput.store_format.query.counts import Reading
from reput.store_format.query.inventory import GroupRow, unread_since
from reput.store_format.query.reader import OpenedStore

# A half message that is older was to be asked about (transactionTimeOut, transactionCheckInterval).
_HALF_LATE_MS = 66_000
_WINDOW_BYTES = 1 << 16  # of what is new, after the first look
_IDLE = 2  # looks at the same bytes that are no record, before they are taken to stay

QueueKey = tuple[str, int]  # topic, queue id
Put = dict[str, tuple[int, int]]  # topic -> (messages, bytes of their records)


class Watch:
    """A store's sums as of the last look. Times are storeTimestamps, in milliseconds: no clock is
    asked. put: since the first look, with what the log held then.
    waiting: ("level", "timer" or "half", whether it is late) -> messages.
    """

    def __init__(self, again: Callable[[], OpenedStore], notes: Notes) -> None:
        """again: opens the store; called now, and when files were added. Raises as it does."""
        self._again, self._notes, self.opened = again, notes, again()
        self._folders = log_folders(self.opened.folder, self.opened.settings)
        self._begin()

    def _begin(self) -> None:
        self._listing: list[list[Listed]] = []
        self._config: list[Listed] = []
        self._batch: list[str] | None = None
        self._at, self._idle, self._last, self._changed, self._unsettled = -1, 0, -1, True, True
        self.newest, self._before, self._last_at = -1, -1, (-1, 0)
        self._ends: dict[QueueKey, int] = {}  # by the log's records,
        self._asked: dict[QueueKey, int] = {}  # and by queues' files, -1 without any
        self._grown: set[QueueKey] = set()  # by the last look
        self.put: Put = {}
        self._segments: dict[int, tuple[int, Put]] = {}  # by their start: their first time
        self._breaks: list[NoRecord] = []
        split = self.opened.profile.split_properties
        self._delays = Taken(delays.concerns, split)
        self._halves = Taken(transactions.concerns, split)
        self._levels: Mapping[int, int] = {}
        self.waiting: Counter[tuple[str, bool]] = Counter()
        self._since: dict[tuple[str, int, int], int] = {}
        self.groups: list[GroupRow] = []

    def close(self) -> None:
        """Let go of all files; what they have become since does not matter."""
        with suppress(StoreChanged):
            self.opened.close()

    @property
    def log(self) -> LogReader:
        return self.opened.log

    @property
    def log_end(self) -> int:
        """The physical offset after the last whole record."""
        return max(self._at, self.log.start)

    @property
    def oldest(self) -> int:
        """The time of the log's first record; -1 without one."""
        return self._segments[min(self._segments)][0] if self._segments else -1

    @property
    def damaged(self) -> int:
        """At how many places the log's records break off, and go on behind."""
        return sum(self.log.start <= each.place < self._at for each in self._breaks)

    def held(self) -> Put:
        """What the log has."""
        found: Put = {}
        for _, put in self._segments.values():
            for topic, some in put.items():
                _add(found, topic, *some)
        return found

    def look(self) -> None:
        """Bring all up to now. Raises StoreError, OSError: the next look goes on from there."""
        is_first, known = self._at < 0, len(self._ends)
        self._notes = self._notes if is_first else Notes()
        self._refresh()
        self._read_config()
        if self._changed or self._idle <= _IDLE:
            self._walk()
        self._let_go()
        if self._unsettled:
            self.waiting = self._settle_delays() + self._settle_halves()
            self._unsettled = False
        if is_first:
            queues = self.opened.queues
            for topic in (each for each in queues.topics() if not each.startswith(LMQ_PREFIX)):
                for queue_id, _ in queues.of(topic):
                    self._ask_end(topic, queue_id)
        elif len(self._ends) > known:
            self._listing = []  # a queue is new: its files are to be found
        self._find_lags()

    def ends(self) -> dict[QueueKey, int]:
        """The position after the last message of each queue that has files or records."""
        return {key: end for key in {**self._asked, **self._ends} if (end := self._known(key)) >= 0}

    # --- what has changed ------------------------------------------------------------------------

    def _refresh(self) -> None:
        """Open the store again where files were added or are gone."""
        listing = [Folder(self.opened.storage, each).listed() for each in self._folders]
        agreed = self.log.end != self.log.segments[-1].end  # a DLedger log's committed end
        in_files = isinstance(self.opened.queues, FileQueues)
        if _files(listing) != _files(self._listing) or agreed or not in_files:
            opened = self._again()
            self.close()
            self.opened, self._levels = opened, {}
            self._since.clear()
        place, size = self._last_at
        if self._at > self.log.end or (
            listing != self._listing
            and place >= self.log.start
            and self.log.store_timestamp(place, size) != self._last
        ):  # it became shorter, or has another record there: another log
            self._begin()
        elif self._at >= 0:
            at = self.opened.storage
            at.window_bytes = min(at.window_bytes, _WINDOW_BYTES)
        self._changed, self._listing = listing != self._listing, listing  # by the files' times

    def _read_config(self) -> None:
        """How far groups and services are; read before the log, which is then at least as far."""
        folder = self.opened.folder
        config = folder.listed(CONFIG)
        for name, state in list(config):
            config += [] if state else folder.listed(f"{CONFIG}/{name}")  # a RocksDB
        if self._batch is not None and config == self._config:
            return
        self._offsets: Offsets = consumer_offsets(folder, self._notes)
        # in_wheel reads timerlog: without it a timer stands in the wheel until it is due
        self._read = read_progress(folder, self._notes)._replace(in_wheel=None)
        self._half_position = half_position(folder, self._notes)
        batch = batch_topics(folder, self._notes)
        if batch != self._batch:
            self._reading = Reading(self.opened.profile.split_properties, batch, False)
        self._config, self._batch, self._unsettled = config, batch, True

    # --- what the log has ------------------------------------------------------------------------

    def _walk(self) -> None:
        begun, self._before, self._grown = self._at, self.newest, set()
        for step in self._first_steps() if begun < 0 else self._new_steps():
            if len(step.rows):
                for each in (self._take, self._delays.add, self._halves.add):
                    each(step)
            self._at, self._unsettled = step.next, True
            self._notes.scanned = step.next - self.log.start
        self._at = max(self._at, self.log.start)
        self._idle = 0 if self._at != begun else self._idle + 1

    def _let_go(self) -> None:
        """Forget segments that have expired, and topics of which nothing is left."""
        held = {start: each for start, each in self._segments.items() if start >= self.log.start}
        if len(held) < len(self._segments):
            self._segments, self._unsettled = held, True
            for taken in (self._delays, self._halves):
                marks = taken.gathered().marks
                taken.marks = [marks[marks["physicalOffset"] >= self.log.start]]
            there = {*self.held(), *self.opened.queues.topics()}
            self.put = {topic: put for topic, put in self.put.items() if topic in there}
            for ends in (self._ends, self._asked):
                for key in [key for key in ends if key[0] not in there]:
                    del ends[key]

    def _first_steps(self) -> Iterator[Step]:
        self._notes.to_scan = self.log.end - self.log.start
        with self._notes.watching():
            yield from self.log.steps_past_damage(self._breaks.append, self.opened.behind)

    def _new_steps(self) -> Iterator[Step]:
        """What was added since. Where records break off, or grow older, a broker may be writing
        just there, over what an older life of the log left: it is looked at again next time.
        """
        log, at = self.log, self.log_end
        while at < log.end:
            try:
                head = np.zeros(min(8, log.segment_at(at).end - at), np.uint8)
            except NotInLog:  # in a hole
                at = log.next_start(at)
                continue
            log.read_into(at, head)
            if not head.any() and log.is_zero_from(log.next_start(at)):
                return
            try:
                for step in self._in_order(at):
                    at = step.next
                    yield step
                return
            except NoRecord as error:
                at = error.place
                if self._idle < _IDLE or log.is_zero_from(log.next_start(at)):
                    return
                self._breaks.append(error)
                yield from () if self.opened.behind is None else self.opened.behind(at)
                at = log.next_start(at)

    def _in_order(self, at: int) -> Iterator[Step]:
        """The steps up to a record that is older than the one before; past it where the log was
        written to meanwhile, but not over it: a clock was set back.
        """
        doubts = self._idle < _IDLE or not self._changed
        for step in self.log.steps(at):
            times = np.append(self._last, step.rows["storeTimestamp"])
            older = np.flatnonzero(times[1:] < times[:-1])
            if doubts and len(older):
                yield step._replace(rows=step.rows[: older[0]], next=step.start(int(older[0])))
                return
            yield step

    def _take(self, step: Step) -> None:
        counted, rows = self._reading.counted(step), step.rows
        ids, times = rows["queueId"].astype(np.int64), rows["storeTimestamp"].astype(np.int64)
        _, firsts, which = np.unique(
            counted["topic"] << 32 | ids & 0xFFFFFFFF, return_index=True, return_inverse=True
        )
        messages, sizes = (np.bincount(which, each) for each in (counted["messages"], rows["size"]))
        # neither prepared nor rolled back (CommitLogDispatcherBuildConsumeQueue)
        queued = np.isin(rows["sysFlag"] & SYS_TRANSACTION_MASK, (0, 8))
        # a topic that was deleted and made again begins at 0
        begins = np.flatnonzero(queued & (rows["queueOffset"] == 0))
        anew = np.full(len(firsts), -1, np.int64)
        np.maximum.at(anew, which[begins], begins)
        queued &= np.arange(len(rows)) >= anew[which]
        ends = np.full(len(firsts), -1, np.int64)
        np.maximum.at(ends, which[queued], (rows["queueOffset"] + counted["messages"])[queued])
        start = self.log.segment_at(int(rows["physicalOffset"][0])).start
        _, segment = self._segments.setdefault(start, (int(times[0]), {}))
        self.newest, self._last = max(self.newest, int(times.max())), int(times[-1])
        self._last_at = int(rows["physicalOffset"][-1]), int(rows["size"][-1])
        for number, row in enumerate(firsts.tolist()):
            topic = self._reading.value("topic", int(counted["topic"][row]))
            for put in (self.put, segment):
                _add(put, topic, int(messages[number]), int(sizes[number]))
            if ends[number] >= 0:
                key = topic, int(ids[row])
                if anew[number] >= 0 and self._ends.pop(key, 0):
                    self._asked.pop(key, 0)
                    self._since.clear()
                self._ends[key] = max(self._ends.get(key, 0), int(ends[number]))
                self._grown.add(key)

    # --- what waits: the marks of that alone are kept ---------------------------------------------

    def _settle_delays(self) -> Counter[tuple[str, bool]]:
        gathered = self._delays.gathered()
        marks = gathered.marks
        if not set(marks["queueId"][marks["kind"] == SCHEDULE] + 1) <= set(self._levels):
            self._levels = level_delays(self.opened, self._notes)
        read = with_timers(self.opened, gathered, self._read, self._notes)
        found = delays.judged(gathered, self._levels, read)
        waits = found[(found["state"] <= delays.LATE) & ~found["recalled"]]
        again = found[found["state"] == delays.REPEATED]  # its broker has not noted that yet
        kept = [waits["physicalOffset"], again["physicalOffset"], again["delivery"]]
        recalls = (marks["deletes"] != 0) & (marks["out"] > self.newest)
        recalls |= np.isin(marks["physicalOffset"], np.concatenate(kept))
        self._delays.marks, self._delays.ended = [marks[recalls]], [gathered.ended[:0]]
        kinds = np.where(waits["level"] > 0, "level", "timer").tolist()
        return Counter(zip(kinds, (waits["state"] == delays.LATE).tolist(), strict=True))

    def _settle_halves(self) -> Counter[tuple[str, bool]]:
        gathered = self._halves.gathered()
        marks, rows = gathered.marks, half_rows(self.opened, gathered, self._notes)
        found, _, _ = transactions.judged(gathered, self._half_position, rows)
        found = found[found["state"] == transactions.PENDING]
        places = marks["physicalOffset"]
        since = marks["storeTimestamp"][np.searchsorted(places, found["first"])]
        halves = marks["transaction"] == SYS_TRANSACTION_PREPARED
        halves |= np.isin(marks["kind"], (HALF, ROCKSDB_HALF))
        halves &= (marks["key"] != 0) & np.isin(marks["key"], found["key"])
        kept = np.concatenate([found["first"], found["last"]])
        self._halves.marks = [marks[halves | np.isin(places, kept)]]
        self._halves.ended = [gathered.ended[:0]]
        late = self.newest - since > _HALF_LATE_MS
        return Counter(("half", each) for each in late.tolist())

    # --- groups ----------------------------------------------------------------------------------

    def _find_lags(self) -> None:
        known, self._since, self.groups = self._since, {}, []
        for (group, topic), offsets in self._offsets.items():
            for queue_id, offset in offsets.items():
                end, since, key = self._end(topic, queue_id), self.newest, (topic, queue_id, offset)
                lag = end - max(offset, 0)
                if lag > 0:
                    since = known.get(key, -1)
                    if since < 0 and (key not in known or not self._idle):
                        ask = partial(unread_since, log=self.log, offset=offset)
                        since = self._of_queue(topic, queue_id, ask)
                    self._since[key] = since
                    if since < 0 and (topic, queue_id) in self._grown:
                        since = self._before  # it is new, and not in its queue yet
                seconds = None if since < 0 else max(self.newest - since, 0) / 1000
                self.groups.append(GroupRow(group, topic, queue_id, offset, end, lag, seconds))

    def _end(self, topic: str, queue_id: int) -> int:
        """The position after a queue's last message; 0: there is no such queue."""
        key, of_lmq = (topic, queue_id), topic.startswith(LMQ_PREFIX)
        # an LMQ's entries name messages of other queues
        if key not in self._ends and (key not in self._asked or (of_lmq and not self._idle)):
            self._ask_end(*key)
        return max(self._known(key), 0)

    def _known(self, key: QueueKey) -> int:
        """By records and files: a log that lost records may lack a queue's last ones."""
        return max(self._ends.get(key, -1), self._asked.get(key, -1))

    def _ask_end(self, topic: str, queue_id: int) -> None:
        ask = methodcaller("end_within", self.log_end)
        self._asked[topic, queue_id] = self._of_queue(topic, queue_id, ask)

    def _of_queue(self, topic: str, queue_id: int, ask: Callable[[Queue], int]) -> int:
        """What a queue answers, opened anew; -1: there is none, or it is damaged."""
        with suppress(BadQueue):
            for number, batch in self.opened.queues.of(topic):
                if number == queue_id:
                    with closing(self.opened.queues.open(topic, queue_id, batch)) as queue:
                        return ask(queue)
        return -1


def _add(sums: Put, topic: str, messages: int, size: int) -> None:
    before = sums.get(topic, (0, 0))
    sums[topic] = before[0] + messages, before[1] + size


def _files(listing: list[list[Listed]]) -> list[list[tuple[str, object]]]:
    return [[(name, state and (state.size, state.tag)) for name, state in each] for each in listing]
