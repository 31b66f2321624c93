"""One message's life: each record that the log has of it, and the event that the record shows; who
sent and consumed it, as clients tell.

A message is followed by its UNIQ_KEY, which delays, retries, dead letters and transactions keep.
Without a UNIQ_KEY it is followed by the ORIGIN_MESSAGE_ID of its retries. Op messages are followed
by the queue offsets that they name.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format import layouts
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.fate import delays, gather, transactions
from reput.store_format.fate.delays import Read
from reput.store_format.log.reader import LogReader, Record
from reput.store_format.message.bodies import BODY_MOST, BodyError, decompressed
from reput.store_format.message.message import host_text, parse_properties
from reput.store_format.names import DLQ_PREFIX, RETRY_PREFIX
from reput.store_format.notes import Notes
from reput.store_format.query.client_traces import ClientTrace, decoded
from reput.store_format.query.reader import OpenedStore, StoredMessage
from reput.store_format.rocksdb.rows import HalfRows

_NOWHERE = (1 << 63) - 1  # behind all places


class Event(NamedTuple):
    """One step of a message's life, and the record that shows it. Times in milliseconds."""

    event: str  # see docs/fate.md
    store_timestamp: int
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    real_topic: str | None  # where it is to go: of a message that waits, or a half message
    real_queue_id: str | None
    due: int | None
    level: int | None
    reconsume_times: int | None
    checks: int | None
    state: str | None  # how a wait or a transaction that began here has ended
    # Of what a client tells, where the record is its trace; of what a group's offset tells, where
    # the record is the message itself, group and consumer_offset.
    group: str | None = None
    host: str | None = None
    client_timestamp: int | None = None
    cost_ms: int | None = None
    success: bool | None = None
    returned: str | None = None  # ConsumeReturnType, LocalTransactionState
    consumer_offset: int | None = None  # the group's, in the message's queue


class TraceSettings(NamedTuple):
    """What a trace needs from a store besides the log."""

    split: bool  # Profile.split_properties
    delays: Mapping[int, int]  # each level's milliseconds
    read: Read  # how far the broker has delivered
    half_position: int  # how far the broker has checked half messages
    half_rows: HalfRows | None = None  # RocksDB's rows of half messages


class Follows:
    """Which marks may be of a message; op messages count after its first half message."""

    def __init__(self, unique_key: str, origin_id: str) -> None:
        """origin_id: a broker's id, in capitals as brokers write it; "" for none."""
        self.unique_key, self.origin_id = unique_key, origin_id
        self._key = np.uint64(gather.hash_text(unique_key.encode()))
        self._origin = np.uint64(gather.hash_text(origin_id.encode()))
        self._half = _NOWHERE  # where its first half message is

    def __call__(self, marks: gather.Marks) -> npt.NDArray[np.bool_]:
        own: npt.NDArray[np.bool_] = np.zeros(len(marks), np.bool_)
        if self._key:
            own |= marks["key"] == self._key
        if self._origin:
            own |= marks["origin"] == self._origin
        halves = marks["physicalOffset"][own & (marks["kind"] == gather.HALF)]
        self._half = min([self._half, *halves.tolist()])
        own |= (marks["kind"] == gather.OP) & (marks["physicalOffset"] > self._half)
        return own

    def admits(self, properties: Mapping[str, str]) -> bool:
        """Whether these properties are the message's, and not another's with the same hash."""
        if self.unique_key and properties.get("UNIQ_KEY") == self.unique_key:
            return True
        return bool(self.origin_id) and properties.get("ORIGIN_MESSAGE_ID") == self.origin_id


def events(
    log: LogReader, gathered: gather.Gathered, follows: Follows, known: TraceSettings
) -> list[Event]:
    """The steps that gathered marks show, in the log's order; their records are read again."""
    marks, records = gathered.marks, {}
    named_by_place = marks["kind"] == gather.ROCKSDB_OP
    for i in np.flatnonzero((marks["kind"] != gather.OP) & ~named_by_place).tolist():
        record = log.record_at(int(marks["physicalOffset"][i]))
        properties = parse_properties(record.properties, known.split)
        if follows.admits(properties):
            records[i] = record, properties
    halves = marks[[i for i in records if marks["kind"][i] == gather.HALF]]
    named = gathered.ended[np.isin(gathered.ended["halfOffset"], halves["queueOffset"])]
    half = transactions.newest_before(
        halves["queueOffset"], halves["physicalOffset"], named["halfOffset"], named
    )
    # an op before was of another half message at that queue offset
    named = named[half != gather.NONE]
    ops = np.isin(marks["physicalOffset"], named["physicalOffset"])
    places = [int(marks["physicalOffset"][i]) for i in records]
    ops |= named_by_place & np.isin(marks["prepared"], places)
    chosen = np.flatnonzero(ops | np.isin(np.arange(len(marks)), list(records)))
    own = gathered._replace(marks=marks[chosen], ended=named)
    states: dict[int, str] = {}
    for transaction in transactions.resolve(own, known.half_position, known.half_rows):
        states[transaction.first] = transaction.state
    for delayed in delays.resolve(own, known.delays, known.read):
        states[delayed.physical_offset] = delayed.state
    found: list[Event] = []
    waiting: dict[int, deque[int]] = {}
    for i in chosen.tolist():
        if i in records:
            record, properties = records[i]
            found += _events(marks[i], record, properties, waiting, known.delays, states)
        else:
            record = log.record_at(int(marks["physicalOffset"][i]))
            found.append(_event("op", record, {}, None, None, None, None))
    return found


def _events(
    mark: Any, record: Record, properties: dict[str, str], waiting: dict[int, deque[int]],
    delay_levels: Mapping[int, int], states: dict[int, str],
) -> list[Event]:  # fmt: skip
    kind, home = int(mark["kind"]), int(mark["home"])
    state = states.get(record.physical_offset)
    level = due = checks = None
    names = []
    if record.transaction == layouts.SYS_TRANSACTION_ROLLBACK:
        names.append("rolled back")
    elif record.transaction == layouts.SYS_TRANSACTION_PREPARED:
        names.append("half")
    elif record.transaction == layouts.SYS_TRANSACTION_COMMIT and not waiting.get(home):
        names.append("committed")
    if kind in (gather.HALF, gather.ROCKSDB_HALF):
        checks = int(mark["checks"])
        names.append("checked" if checks else "half")
    elif kind == gather.DISCARDED:
        checks = int(mark["checks"])
        names.append("discarded")
    elif kind == gather.SCHEDULE:
        level = record.queue_id + 1
        if level in delay_levels:
            due = record.store_timestamp + delay_levels[level]
        names.append("delayed")
        waiting.setdefault(home, deque()).append(record.physical_offset)
    elif kind == gather.WHEEL:
        due = int(mark["out"])
        names.append("rolled" if mark["rolled"] else "timed")
        if mark["deletes"]:
            names = ["recalled"]
        elif not (mark["rolled"] and waiting.get(home)):
            waiting.setdefault(home, deque()).append(record.physical_offset)
    elif kind == gather.OTHER and not names:
        names.append(_at_home(record, waiting.get(home)))
    if waiting.get(home) and kind == gather.OTHER:
        waiting[home].popleft()
    return [_event(name, record, properties, level, due, checks, state) for name in names]


def _at_home(record: Record, waiting: deque[int] | None) -> str:
    """The event of a record in a topic that is none of the broker's own services'."""
    if record.topic.startswith(RETRY_PREFIX):
        return "retried"
    if record.topic.startswith(DLQ_PREFIX):
        return "dead-lettered"
    return "delivered" if waiting else "put"


def _event(
    name: str, record: Record, properties: dict[str, str], level: int | None, due: int | None,
    checks: int | None, state: str | None,
) -> Event:  # fmt: skip
    waits = level is not None or due is not None or checks is not None
    return Event(
        name, record.store_timestamp, record.topic, record.queue_id, record.queue_offset,
        record.physical_offset, properties.get("REAL_TOPIC") if waits else None,
        properties.get("REAL_QID") if waits else None, due, level, record.reconsume_times, checks,
        state,
    )  # fmt: skip


# ---
# Who sent a message, and which groups consumed it: as clients' traces in the same store tell it;
# of groups whose clients trace nothing, as far as their offsets do.

_TOLD = {"Pub": "sent", "SubBefore": "consuming", "SubAfter": "consumed",
         "EndTransaction": "ended", "Recall": "recall"}  # fmt: skip
_READ_BY_GROUPS = ("put", "delivered", "committed", "retried", "dead-lettered")


def tells_of(message_id: str, ids: str) -> bool:
    """Whether a trace with these ids is of a message; a producer joins those of a batch."""
    return message_id == ids or message_id in ids.split(",")


def client_events(told: Iterable[StoredMessage], message_id: str, notes: Notes) -> list[Event]:
    """What these trace messages tell of a message, by the clients' times. A SubBefore and its
    SubAfter are one event: they have one requestId.
    """
    began: dict[str | None, ClientTrace] = {}
    found: list[tuple[StoredMessage, ClientTrace]] = []
    for message in told:
        try:
            body = decompressed(message.body(), message.record.sys_flag, BODY_MOST)
        except BodyError as error:
            notes.note(f"physical offset {message.physical_offset}: {error}")
            continue
        for each in decoded(body):
            if each is None:  # said once
                notes.skip(f"a client's trace at {message.physical_offset} cannot be read")
            elif tells_of(message_id, each.message_id):
                found.append((message, each))
                if each.kind == "SubBefore":
                    began[each.request_id] = each
    ended = {each.request_id for _, each in found if each.kind == "SubAfter"}
    events = [
        _told(message, each, began.get(each.request_id, each))
        for message, each in found
        if each.kind != "SubBefore" or each.request_id not in ended
    ]
    return sorted(events, key=lambda each: (each.client_timestamp or 0, each.physical_offset))


def _told(message: StoredMessage, told: ClientTrace, began: ClientTrace) -> Event:
    """began: the SubBefore with its requestId, if any: it has what an old SubAfter lacks."""
    record = message.record
    host = host_text(record.born_host).rpartition(":")[0]  # as mqadmin's (TraceView)
    return Event(
        _TOLD[told.kind], record.store_timestamp, record.topic, record.queue_id,
        record.queue_offset, record.physical_offset, None, None, None, None, began.retry_times,
        None, None, told.group or began.group, host, told.timestamp or began.timestamp,
        told.cost, told.success, told.transaction_state or told.returned,
    )  # fmt: skip


def group_events(
    store: OpenedStore, events: Sequence[Event], told: Sequence[Event], notes: Notes
) -> list[Event]:
    """Of groups that have offsets in the queues of these events, and told nothing: whether they
    have gone past the message's last record there. That says less: a group also passes what its
    tags leave out, or a reset skips.
    """
    offsets = consumer_offsets(store.folder, notes).items()
    traced = {each.group for each in told if each.event in ("consuming", "consumed")}
    found: dict[str, Event] = {}
    for event in events:
        for (group, topic), queues in offsets if event.event in _READ_BY_GROUPS else ():
            if topic == event.topic and event.queue_id in queues and group not in traced:
                at = queues[event.queue_id]
                verdict = "has passed it" if at > event.queue_offset else "has not reached it"
                found[group] = event._replace(event=verdict, group=group, consumer_offset=at)
    return [found[group] for group in sorted(found)]
