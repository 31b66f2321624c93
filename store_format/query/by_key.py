"""Messages by key, by unique key and by either kind of message id, through the index."""

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from heapq import merge

from reput.store_format.derived.index_reader import BadIndex, key_hash
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.log.rules import reaches_index
from reput.store_format.message.ids import BadMessageId, OffsetId, parse_message_id
from reput.store_format.notes import Notes
from reput.store_format.query.log_scan import Gap, index_gaps, needle_of, scan
from reput.store_format.query.reader import TAGS_KEY, OpenedStore, StoredMessage, keys_of
from reput.store_format.rocksdb.database import RocksDBError

UNIQUE_KEY_MOST = 32  # QueryMessageProcessor takes 32 for a unique key, whatever the request has
LAST_TIME = (1 << 63) - 1

Wants = Callable[[StoredMessage], bool]
Times = tuple[int | None, int | None]  # storeTimestamps, both included; None: no limit
ALL_TIMES: Times = (None, None)


def by_key(
    store: OpenedStore, topics: Collection[str], key: str, wanted: Wants, from_log: bool,
    notes: Notes, times: Times = ALL_TIMES,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages of these topics that have a key, in the log's order, once each.

    wanted: whether a message has the key itself, as the index has only hashes.
    from_log: the index is not used.
    """
    begin, end = times
    gaps: list[Gap] = [(store.log.start, store.log.end)] if from_log else index_gaps(store, notes)
    places, found = list[int](), set[int]()
    if not from_log:
        try:
            found = {
                place for topic in topics for place in index_places(store, topic, key, begin, end)
            }
            places = sorted(at for at in found if not any(a <= at < b for a, b in gaps))
        except (BadIndex, RocksDBError) as error:
            notes.note(f"{error}; the log is read instead")
            gaps, places = [(store.log.start, store.log.end)], []
    needle = needle_of(key.removeprefix(TAGS_KEY))  # a record has its tags without this prefix
    scans = [scan(store, start, stop, needle, notes) for start, stop in gaps]
    hashes = {key_hash(topic, key) for topic in topics}
    for message in merge(read(store, places, notes), *scans, key=place_of):
        indexed = reaches_index(message.record.sys_flag)
        if indexed and within(message, begin, end) and wanted(message):
            yield message
        elif message.physical_offset in found:
            note_if_wrong(message, hashes, notes)


def index_places(
    store: OpenedStore, topic: str, key: str, begin: int | None, end: int | None
) -> Iterator[int]:
    """The physical offsets of a key's messages by the index. Raises BadIndex, RocksDBError."""
    in_rocksdb = store.rocksdb_index()
    if in_rocksdb is not None:
        return in_rocksdb.places(topic, key, begin, end)
    return (hit.physical_offset for hit in store.index().all_hits(topic, key, begin, end))


def as_broker(
    store: OpenedStore, topic: str, key: str, begin: int | None, end: int | None, most: int,
    notes: Notes,
) -> Iterator[StoredMessage]:  # fmt: skip
    """A broker's answer (QueryMessageProcessor, IndexService.queryOffset), ascending.

    It has the newest `most` messages whose key has this hash; clients drop those of another key.
    """
    in_rocksdb = store.rocksdb_index()
    if in_rocksdb is not None:
        places = sorted(set(in_rocksdb.places(topic, key, begin, end)))
        notes.cut = len(places) > most
        if notes.cut:
            notes.note(f"cut: the newest {most} of {len(places)}")
        yield from read(store, places[-most:] if most else [], notes)
        return
    found = store.index().query(
        topic, key, most, 0 if begin is None else begin, LAST_TIME if end is None else end
    )
    notes.cut = found.cut
    if found.cut:
        notes.note(f"cut as a broker does: the newest {len(found.hits)}; a lower --to finds older")
    yield from read(store, sorted(hit.physical_offset for hit in found.hits), notes)


def newest(messages: Iterable[StoredMessage], most: int, notes: Notes) -> Iterator[StoredMessage]:
    """The last `most` messages; a note tells if there are more."""
    many, kept = 0, deque[StoredMessage](maxlen=most)
    for message in messages:
        many += 1
        kept.append(message)
    if many > most:
        notes.cut = True
        notes.note(f"cut: the newest {most} of {many}")
    yield from kept


def note_if_wrong(message: StoredMessage, hashes: Container[int], notes: Notes) -> None:
    """Note that the index led to a message by one of these hashes, if none of its keys has it.

    If a key has it, that is just another key with the same hash, and nothing is wrong.
    """
    if not any(key_hash(message.topic, key) in hashes for key in keys_of(message.properties)):
        notes.skip(f"the index has a key at {message.physical_offset}, but that message has not")


def read(store: OpenedStore, places: list[int], notes: Notes) -> Iterator[StoredMessage]:
    """The messages at these physical offsets; a note tells of a place without a message."""
    for place in places:
        try:
            yield store.message(store.log.record_at(place))
        except NotInLog:
            if place < store.log.start:
                notes.note("some messages that the index still has have expired from the log")
            else:
                notes.skip(f"the index has a message at {place}, where the log has none: left out")
        except NoRecord as error:
            notes.skip(f"the index has a message there, and the log has none: left out: {error}")


def within(message: StoredMessage, begin: int | None, end: int | None) -> bool:
    """Whether the message was stored in [begin, end], milliseconds; None: no bound."""
    time = message.store_timestamp
    return (begin is None or time >= begin) and (end is None or time <= end)


def place_of(message: StoredMessage) -> int:
    return message.physical_offset


# ---
# Messages by message id: the broker's, or the client's.


def by_message_id(
    store: OpenedStore, text: str, topic: str | None, names: list[str], from_log: bool, notes: Notes
) -> Iterator[StoredMessage]:
    """The message at the place in a broker's id, or else those with a client's id.

    A broker's id also holds its host. The message must have that as storeHost; otherwise it is at
    that place only by chance. topic: where to search, None for anywhere; names: the topics for
    which the index is searched. Raises BadMessageId.
    """
    as_broker, as_client = parse_message_id(text)
    record = _at(store, as_broker)
    if record is not None:
        notes.note(f"the id is a broker's: {as_broker}")
        message = store.message(record)
        if topic in (None, message.topic):
            yield message
        return
    found = False
    for key in dict.fromkeys((text, text.upper())):

        def wanted(message: StoredMessage, key: str = key) -> bool:
            return message.unique_key == key and topic in (None, message.topic)

        messages = by_key(store, names, key, wanted, from_log, notes)
        for message in messages:
            if not found:
                made = as_client.made_at(message.store_timestamp)
                notes.note(f"the id is a client's: {as_client}, which is {made} in UTC")
            found = True
            yield message
    if not found:
        notes.note(f"the id is found neither as a broker's ({as_broker}) nor as a client's")


def who_is(store: OpenedStore, text: str) -> tuple[str, str]:
    """(UNIQ_KEY of the message with an id, the broker's id by which its retries name it).

    A text that is not the broker's id of an existing message counts as a UNIQ_KEY.
    """
    try:
        record = _at(store, parse_message_id(text)[0])
    except BadMessageId:
        record = None
    if record is None:
        return text, ""
    return store.message(record).unique_key or "", text.upper()


def _at(store: OpenedStore, wanted: OffsetId) -> Record | None:
    try:
        record = store.log.record_at(wanted.physical_offset)
    except (NoRecord, NotInLog):
        return None
    return record if record.store_host == wanted.store_host else None
