"""`open_store` opens a store for questions, without broker and Spark: `Store`, its answers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, tzinfo
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar, Unpack

from reput.store_format.discover.config import batch_topics, configured_topics
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.message.bodies import BODY_MOST
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.by_key import (
    UNIQUE_KEY_MOST,
    as_broker,
    by_key,
    by_message_id,
    newest,
    who_is,
)
from reput.store_format.query.by_queue import as_client, by_offset, by_time, in_log
from reput.store_format.query.client_traces import TRACE_TOPIC
from reput.store_format.query.inventory import groups, queues, rates, topics, unconsumed
from reput.store_format.query.reader import NEWEST, OpenedStore, StoredMessage

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.store_format.fate.rows import DelayedRow, TransactionRow
    from reput.store_format.fate.trace import Event
    from reput.store_format.files.protocol import Storage
    from reput.store_format.filter.filters import Filter
    from reput.store_format.log.reader import LiveBehind
    from reput.store_format.query.counts import Count
    from reput.store_format.query.inventory import GroupRow, QueueRow, RateRow, TopicRow
    from reput.store_format.query.pop_leftovers import InFlightRow

# ---
# The answers of a store that is opened for questions: messages, and rows of listings.

Row = TypeVar("Row", bound=NamedTuple)


class Messages:
    """Messages in the log's order, read one by one as they are iterated; only once.

    notes: what was skipped, cut or read from the log; complete after all messages are read.
    """

    def __init__(self, messages: Iterable[StoredMessage], notes: Notes) -> None:
        self._messages, self._notes = iter(messages), notes

    def __iter__(self) -> Iterator[StoredMessage]:
        return self._messages

    @property
    def notes(self) -> list[str]:
        return self._notes.lines

    @property
    def cut(self) -> bool:
        """Whether there are more messages than were asked for."""
        return self._notes.cut

    @property
    def scanned(self) -> tuple[int, int]:
        """(bytes of the log read instead of queues and index, bytes to be read in all)."""
        return self._notes.scanned, self._notes.to_scan

    def to_arrow(self, body: bool = False) -> "pa.Table":
        """A table with the columns of the Spark source; needs pyarrow."""
        from reput.udfs.table.columns import messages_table

        rows = (each.row() | ({"body": each.body()} if body else {}) for each in self)
        return messages_table(rows, body)


class KeyMessages(Messages):
    """The messages found by many keys."""

    def __init__(
        self, messages: Iterable[StoredMessage], notes: Notes, missing: Callable[[], list[str]]
    ) -> None:
        super().__init__(messages, notes)
        self._missing = missing

    @property
    def missing(self) -> list[str]:
        """The keys that no message has; complete after all messages are read."""
        return self._missing()


class Rows(list[Row], Generic[Row]):
    """The rows of a listing; `notes` as for Messages."""

    def __init__(self, rows: Iterable[Row], notes: Notes) -> None:
        super().__init__(rows)
        self.notes = notes.lines

    def to_arrow(self) -> "pa.Table":
        """A table with the rows' fields as columns; needs pyarrow."""
        import pyarrow as pa

        return pa.Table.from_pylist([row._asdict() for row in self])


# ---
# `open_store`: open a store for questions, from its files alone, without broker and Spark.

_BROKER_MOST = 64  # MessageStoreConfig.maxMsgsNumBatch


class _How(TypedDict, total=False):
    as_rocketmq: bool
    scan: bool


class Store:
    """A store opened for questions, made by `open_store` and closed by `with`.

    Its files are listed once. To see what a broker appends later, open the store again.
    """

    def __init__(self, opened: OpenedStore, notes: Notes, new_notes: Callable[[], Notes]) -> None:
        self._of_store, self.notes, self._made = opened, notes.lines, [notes]
        self._make_notes, self._closed = new_notes, False

    def _new_notes(self) -> Notes:
        self._made.append(self._make_notes())
        return self._made[-1]

    def _rows(self, ask: Callable[..., Iterable[Any]], *asked: Any) -> "Rows[Any]":
        notes = self._new_notes()
        return Rows(ask(self._opened, *asked, notes), notes)

    @property
    def lacking(self) -> bool:
        """Whether an answer so far lacks what nobody asked to leave out: its notes say what."""
        return any(notes.lacking for notes in self._made)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its files. What is asked afterwards is a StoreError."""
        self._of_store.close()
        self._closed = True

    @property
    def _opened(self) -> OpenedStore:
        if self._closed:
            raise StoreError(f"{self._of_store.path}: was closed; open it again")
        return self._of_store

    def query(
        self,
        topic: str,
        key: str,
        *,
        begin: int | None = None,
        end: int | None = None,
        most: int | None = None,
        where: "Filter | None" = None,
        as_rocketmq: bool = False,
        scan: bool = False,
    ) -> Messages:
        """The messages of a topic with a key, one of KEYS or the UNIQ_KEY.

        begin, end: storeTimestamps in milliseconds, both inclusive. most: only the newest messages,
        at most so many. where: only messages that pass (`filter`). as_rocketmq: a broker's answer:
        64 messages at most, by the key's hash alone, with its misses. scan: read the log, not the
        index.
        """
        notes = self._new_notes()
        if as_rocketmq:
            limit = _BROKER_MOST if most is None else most
            return Messages(as_broker(self._opened, topic, key, begin, end, limit, notes), notes)
        found = by_key(
            self._opened, [topic], key,
            lambda each: each.topic == topic and each.has_key(key) and (
                where is None or each.wanted_by(where)
            ),
            scan, notes, (begin, end),
        )  # fmt: skip
        return Messages(found if most is None else newest(found, most, notes), notes)

    def query_keys(
        self,
        topic: str,
        keys: Iterable[str],
        *,
        begin: int | None = None,
        end: int | None = None,
        where: "Filter | None" = None,
        scan: bool = False,
    ) -> KeyMessages:
        """The messages of a topic with any of the keys, in the log's order, each only once.

        It finds what `query` finds for each key, but reads each part of index and log once.
        """
        from reput.store_format.query.by_keys import WantedKeys, by_keys

        notes, wanted = self._new_notes(), WantedKeys(topic, keys)
        found = by_keys(self._opened, wanted, begin, end, scan, notes)
        chosen = (each for each in found if where is None or each.wanted_by(where))
        return KeyMessages(chosen, notes, lambda: wanted.missing)

    def by_unique_key(
        self, key: str, topic: str | None = None, *, as_rocketmq: bool = False, scan: bool = False
    ) -> Messages:
        """The messages with a UNIQ_KEY in one topic or in all, with retries and half messages."""
        notes = self._new_notes()
        topics = self.topic_names() if topic is None else [topic]
        if as_rocketmq:
            if topic is None:
                raise StoreError("a broker looks for a unique key in one topic: name the topic")
            found = as_broker(self._opened, topic, key, None, None, UNIQUE_KEY_MOST, notes)
            return Messages(found, notes)
        return Messages(
            by_key(
                self._opened, topics, key,
                lambda each: each.unique_key == key and topic in (None, each.topic),
                scan, notes,
            ),
            notes,
        )  # fmt: skip

    def by_message_id(
        self, message_id: str, topic: str | None = None, *, scan: bool = False
    ) -> Messages:
        """The message with a broker's message id, or the messages with a client's id. The notes
        have the parts of the id. Raises BadMessageId (a StoreError).
        """
        notes = self._new_notes()
        names = self.topic_names() if topic is None else [topic]
        found = by_message_id(self._opened, message_id, topic, names, scan, notes)
        return Messages(found, notes)

    def messages(
        self,
        topic: str | None = None,
        queue: int | None = None,
        offset: int | None = None,
        count: int | None = None,
        *,
        begin: int | None = None,
        end: int | None = None,
        where: "Filter | None" = None,
        **how: Unpack[_How],
    ) -> Messages:
        """Messages by position or by time.

        With topic, queue and offset: `count` messages from that position of the queue on. With a
        topic, or topic and queue: messages stored in [begin, end]. Without a topic: the whole log.
        where: only messages that pass (`filter`). as_rocketmq: messages between the offsets that a
        broker gives for both times.
        """
        notes, store, scan = self._new_notes(), self._opened, how.get("scan", False)
        if topic is None:
            return Messages(in_log(store, begin, end, notes, where), notes)
        if offset is not None:
            if queue is None:
                raise StoreError("a position is one of a queue: name the queue")
            stop = None if count is None else offset + count
            found = by_offset(store, topic, queue, offset, stop, scan, notes)
        elif how.get("as_rocketmq"):
            found = as_client(store, topic, queue, begin, end, notes)
        else:
            return Messages(by_time(store, topic, queue, (begin, end), scan, notes, where), notes)
        wanted = (each for each in found if where is None or each.wanted_by(where))
        return Messages(wanted, notes)

    def filter(
        self, tags: str | None = None, sql: str | None = None, grep: str | None = None,
        unconsumed_by: str | None = None,
    ) -> "Filter":  # fmt: skip
        """A filter for `where`: by tags (`A || B`), by RocketMQ's SQL92, by a regular expression
        over bodies and properties, from a consumer group's offsets on, or by all that are given.

        Raises WrongTags, WrongExpression, WrongPattern (WrongFilters, which are ValueErrors);
        StoreError for a group without offsets.
        """
        from reput.store_format.filter.filters import AllOf, Filter, FromOffsets, tag_filter
        from reput.store_format.filter.sql import sql_filter

        chosen: list[Filter] = [] if tags is None else [tag_filter(tags)]
        if sql is not None:
            selected = sql_filter(sql, self._opened.profile)
            chosen.append(selected)
            if selected.rest is not None:
                line, column = selected.rest
                self._new_notes().note(
                    f"SQL92 expression: RocketMQ ignores it from line {line}, column {column} on"
                )
        if grep is not None:
            from reput.store_format.filter.texts import GrepFilter

            chosen.append(GrepFilter(grep, BODY_MOST, self._new_notes().note))
        if unconsumed_by is not None:
            folder, notes = self._opened.folder, self._new_notes()
            chosen.append(FromOffsets(unconsumed(folder, unconsumed_by, notes)))
        return chosen[0] if len(chosen) == 1 else AllOf(*chosen)

    def message_at(self, physical_offset: int) -> StoredMessage:
        """The message at a physical offset. Raises NoRecord, NotInLog (StoreErrors)."""
        return self._opened.message(self._opened.log.record_at(physical_offset))

    def topics(self, *, scan: bool = False, everything: bool = False) -> "Rows[TopicRow]":
        """All topics that have a queue, with the number of their messages in the log.

        scan: count in the log itself; everything: also topics that are only configured.
        """
        return self._rows(topics, scan, everything)

    def queues(self, *, scan: bool = False) -> "Rows[QueueRow]":
        """All queues, by topic and id."""
        return self._rows(queues, scan)

    def rates(self, buckets: int) -> "Rows[RateRow]":
        """Messages of each topic in equal spans of time, from the oldest to the newest."""
        return self._rows(rates, buckets)

    def groups(self, *, scan: bool = False) -> "Rows[GroupRow]":
        """The offset and lag of each consumer group in each queue."""
        return self._rows(groups, scan)

    def in_flight(self, *, scan: bool = False) -> "Rows[InFlightRow]":
        """Messages that were popped but not acknowledged when the broker ended."""
        from reput.store_format.query.pop_leftovers import in_flight

        return self._rows(in_flight, scan)

    def transactions(self, *, everything: bool = False) -> "Rows[TransactionRow]":
        """Pending, discarded or abandoned transactions; everything: all. Reads the log once."""
        from reput.store_format.fate.rows import transaction_rows

        return self._rows(transaction_rows, everything)

    def delayed(self, *, everything: bool = False) -> "Rows[DelayedRow]":
        """Delayed messages not delivered yet, or never; everything: all. Reads the log once."""
        from reput.store_format.fate.rows import delayed_rows

        return self._rows(delayed_rows, everything)

    def stats(self, by: Sequence[str], *, zone: tzinfo = UTC) -> "Rows[Count]":
        """Counts of records, messages and bytes in the log, by some of topic, day, hour, group and
        size. The log is read once; damage is skipped, with a note. zone: of days and hours.
        """
        from reput.store_format.query.counts import count

        notes, opened = self._new_notes(), self._opened
        batch = batch_topics(opened.folder, notes)
        start = opened.log.start
        notes.to_scan = opened.log.end - start

        def watch(at: int) -> None:
            notes.scanned = at - start

        with notes.watching():
            rows = count(
                opened.log, by, opened.profile.split_properties, batch, watch,
                partial(opened.note_break, notes), opened.behind, zone,
            )  # fmt: skip
        return Rows(rows, notes)

    def trace(
        self, message_id: str, *, scan: bool = False, trace_topic: str = TRACE_TOPIC
    ) -> "Rows[Event]":
        """The events of a message, by either of its ids: what records show, what clients tell in
        the trace topic, what other groups' offsets say. scan: read the log, not the index.
        """
        from reput.store_format.fate.rows import message_events
        from reput.store_format.fate.trace import client_events, group_events, tells_of

        notes = self._new_notes()
        key, origin = who_is(self._opened, message_id)
        asked, topics, places = key or origin, self.topic_names(), None

        def tells(each: StoredMessage) -> bool:
            return each.topic == trace_topic and any(tells_of(asked, word) for word in each.keys)

        if key and topics and not scan:
            found = list(by_key(
                self._opened, topics, key, lambda each: each.unique_key == key or tells(each),
                False, notes,
            ))  # fmt: skip
            places = [each.physical_offset for each in found if each.unique_key == key]
        else:
            found = list(by_key(self._opened, [trace_topic], asked, tells, scan, notes))
        events = message_events(self._opened, key, origin, places, notes)
        told = client_events(filter(tells, found), asked, notes)
        return Rows([*events, *told, *group_events(self._opened, events, told, notes)], notes)

    def topic_names(self) -> list[str]:
        """The topics that have a queue or are configured."""
        notes = Notes()
        configured = configured_topics(self._opened.folder, notes) or {}
        return sorted({*self._opened.queues.topics(), *configured})


def open_store(
    path: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    storage: "Storage | None" = None,
    progress: Progress | None = None,
    tell: Callable[[str], Any] | None = None,
) -> Store:
    """Open a store, by path or URL, for questions. It is only read, so it may be in use.

    rocketmq: the release whose rules hold; by default the newest, which also reads older logs.
    settings: by RocketMQ's names, as text; sizes are taken from the files.
    progress: shows reading of the log, where queues and index give no answer.
    tell: called with each note. Raises StoreError, SettingError, UnknownRelease, OSError.
    """

    def new_notes() -> Notes:
        return notes_with(progress, tell)

    notes = new_notes()
    opened = OpenedStore(place_at(path, storage), rocketmq or NEWEST, settings or {}, notes)
    opened.behind = _live_behind(opened)
    return Store(opened, notes, new_notes)


def _live_behind(opened: OpenedStore) -> "LiveBehind":
    """Gives the live records of a segment after a place where its records break off."""

    @cache
    def made() -> "LiveBehind":
        from reput.udfs.table.log_parts import live_behind

        batch = batch_topics(opened.folder, Notes())
        return live_behind(
            opened.storage, opened.log.segments, opened.profile, opened.settings, batch
        )

    return lambda place: made()(place)


def notes_with(progress: Progress | None, tell: Callable[[str], Any] | None) -> Notes:
    """Notes of one question that show the progress of reading the log; tell: gets each note."""
    shown = progress or Progress()

    def watch(notes: Notes) -> AbstractContextManager[None]:
        return shown.stage("log", lambda: _done(notes))

    return Notes(tell or (lambda _: None), watch)


def _done(notes: Notes) -> Done:
    share = notes.scanned / notes.to_scan if notes.to_scan else None
    return Done(share, f"{notes.scanned:,} of {notes.to_scan:,} bytes read")
