"""Messages by key, by unique key and by message id, through the index."""

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from heapq import merge

from reput.store_format.derived.index_reader import BadIndex, key_hash
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record_rules import reaches_index
from reput.store_format.notes import Notes
from reput.store_format.query.gaps import Gap, index_gaps
from reput.store_format.query.log_scan import needle_of, scan
from reput.store_format.query.opened_store import OpenedStore
from reput.store_format.query.stored_message import TAGS_KEY, StoredMessage, keys_of
from reput.store_format.storage.rocksdb import RocksDBError

UNIQUE_KEY_MOST = 32  # QueryMessageProcessor takes 32 for a unique key, whatever is asked for
LAST_TIME = (1 << 63) - 1

Wants = Callable[[StoredMessage], bool]
Times = tuple[int | None, int | None]  # storeTimestamps, both within; None: without a limit
ALL_TIMES: Times = (None, None)


def by_key(
    store: OpenedStore, topics: Collection[str], key: str, wanted: Wants, from_log: bool,
    notes: Notes, times: Times = ALL_TIMES,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages of these topics that have a key, in the log's order, once each.

    wanted: whether a message is asked for, as the index has only hashes. from_log: the index is not
    asked.
    """
    begin, end = times
    gaps: list[Gap] = [(store.log.start, store.log.end)] if from_log else index_gaps(store, notes)
    places, found = list[int](), set[int]()
    if not from_log:
        try:
            found = {
                place for topic in topics for place in index_places(store, topic, key, begin, end)
            }
            places = sorted(place for place in found if not _within(place, gaps))
        except (BadIndex, RocksDBError) as error:
            notes.note(f"{error}; the log is read instead")
            gaps, places = [(store.log.start, store.log.end)], []
    needle = needle_of(key.removeprefix(TAGS_KEY))  # of tags a record does not hold the prefix
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
    """Where an index says that a key's messages stand. Raises BadIndex, RocksDBError."""
    in_rocksdb = store.rocksdb_index()
    if in_rocksdb is not None:
        return in_rocksdb.places(topic, key, begin, end)
    return (hit.physical_offset for hit in store.index().all_hits(topic, key, begin, end))


def as_broker(
    store: OpenedStore, topic: str, key: str, begin: int | None, end: int | None, most: int,
    notes: Notes,
) -> Iterator[StoredMessage]:  # fmt: skip
    """What a broker answers (QueryMessageProcessor, IndexService.queryOffset): the newest `most`
    whose key has this hash, sorted ascending; whoever asked it drops those with another key.
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
    """The last `most` messages; a note says where there are more."""
    many, kept = 0, deque[StoredMessage](maxlen=most)
    for message in messages:
        many += 1
        kept.append(message)
    if many > most:
        notes.cut = True
        notes.note(f"cut: the newest {most} of {many}")
    yield from kept


def note_if_wrong(message: StoredMessage, hashes: Container[int], notes: Notes) -> None:
    """Tell of a message to which the index led by one of these keyHashes, if none of its keys has
    such a hash. If one has, it is another key with the same hash, of which there are always some.
    """
    if not any(key_hash(message.topic, key) in hashes for key in keys_of(message.properties)):
        notes.skip(f"the index has a key at {message.physical_offset}, but that message has not")


def read(store: OpenedStore, places: list[int], notes: Notes) -> Iterator[StoredMessage]:
    """The messages that stand where the index says; where there is none, a note says so."""
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
    """Whether it was stored in [begin, end], milliseconds; None is no bound."""
    time = message.store_timestamp
    return (begin is None or time >= begin) and (end is None or time <= end)


def place_of(message: StoredMessage) -> int:
    return message.physical_offset


def _within(place: int, gaps: list[Gap]) -> bool:
    return any(start <= place < stop for start, stop in gaps)
