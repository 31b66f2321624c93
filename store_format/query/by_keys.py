"""Messages by many keys at once, through the index, judged by a kernel (`by_key`: by one)."""

import os
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from heapq import merge
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_file import sweep
from reput.store_format.derived.index_reader import BadIndex, IndexReader, may_lie_within
from reput.store_format.filter.filters import Filter
from reput.store_format.filter.rows import Match, Verdicts
from reput.store_format.kernels.bytes import find_byte, same_bytes
from reput.store_format.kernels.java_text import hash_code, hash_text
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.log.columns import records_at
from reput.store_format.log.properties import KEYS, TAGS, UNIQ_KEY, find_properties, new_spans
from reput.store_format.log.reader import late_records_of
from reput.store_format.log.record import Record
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.rules import reaches_index
from reput.store_format.log.walk import Step
from reput.store_format.notes import Notes
from reput.store_format.query import reader as stored
from reput.store_format.query.by_key import note_if_wrong, place_of, read, within
from reput.store_format.query.log_scan import Gap, index_gaps, scan
from reput.store_format.query.reader import OpenedStore, StoredMessage
from reput.store_format.rocksdb.database import RocksDBError

# ---
# `WantedKeys`: which messages have one of many keys. A kernel judges all rows of a window.

Numbers = npt.NDArray[np.int64]
_reaches_index = inlined(reaches_index)

_NO, _YES, _ASK = int(Match.NO), int(Match.YES), int(Match.ASK)
_SPACE = 0x20

# The keys as arrays. Key i is keys[ends[i - 1]:ends[i]], with hash hashes[i] (of topic#key).
# first[h]: the first key whose hash ends in the bits h; others[i]: the next such key after key i.
# odd: whether bytes cannot tell if a text is this key; tagged: whether it may be a key by tags.
_Tables = namedtuple("_Tables", "topic keys ends hashes odd tagged first others seed tags_seed")


class WantedKeys(Filter):
    """The messages of a topic that have one of these keys.

    index_hashes: the keyHashes under which the index has these messages, each once (int32).
    """

    def __init__(self, topic: str, keys: Iterable[str]) -> None:
        self.topic, self.keys = topic, list(dict.fromkeys(keys))
        self._numbers = {key: number for number, key in enumerate(self.keys)}
        self._found = np.zeros(len(self.keys), np.bool_)
        self._topic_is_odd = _is_odd(topic)
        self._tables = _tables(topic, self.keys)
        hashes = np.abs(self._tables.hashes)
        hashes[hashes < 0] = 0  # the least int has no absolute value; as indexKeyHashMethod
        self.index_hashes = np.unique(hashes)

    @property
    def missing(self) -> list[str]:
        """The keys that no message had so far."""
        return [self.keys[number] for number in np.flatnonzero(~self._found).tolist()]

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        if record.topic != self.topic or not reaches_index(record.sys_flag):
            return False
        found = [
            self._numbers[key] for key in stored.keys_of(properties) if key in self._numbers
        ]  # fmt: skip
        self._found[found] = True
        return bool(found)

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        return self.judge_rows(step.window, step.rows, split_properties)

    def judge_rows(self, window: Bytes, rows: Rows, split_properties: bool) -> Verdicts:
        """A Verdict for each row (RECORD_ROW) of a window."""
        verdicts = np.full(len(rows), _ASK, np.uint8)
        if not self._topic_is_odd:
            spans = new_spans()
            _judge(window, rows, split_properties, self._tables, spans, self._found, verdicts)
        return verdicts


def _is_odd(text: str) -> bool:
    """Whether Java may decode other bytes than this text's own, or none at all, to this text."""
    return "\ufffd" in text or any("\ud800" <= c <= "\udfff" for c in text)


def _tables(topic: str, keys: list[str]) -> Any:
    odd = np.array([not key.isascii() and _is_odd(key) for key in keys], np.bool_)
    tagged = np.array([key.startswith(stored.TAGS_KEY) for key in keys], np.bool_)
    raw = [key.encode("utf-8", "surrogatepass") for key in keys]
    joined = np.frombuffer(b"".join(raw), np.uint8)
    ends = np.cumsum([len(key) for key in raw], dtype=np.int64)
    seed = hash_text(f"{topic}#")
    hashes = np.empty(len(keys), np.int32)
    _hash_all(joined, ends, np.int32(seed), hashes)
    for number in np.flatnonzero(odd).tolist():
        hashes[number] = hash_text(f"{topic}#{keys[number]}")
    first = np.full(1 << max(2 * len(keys), 1).bit_length(), -1, np.int64)
    others = np.full(len(keys), -1, np.int64)
    _chain_all(hashes, first, others)
    return _Tables(
        np.frombuffer(topic.encode("utf-8", "surrogatepass"), np.uint8), joined, ends, hashes, odd,
        tagged, first, others, seed, hash_text(f"{topic}#{stored.TAGS_KEY}"),
    )  # fmt: skip


@kernel
def _hash_all(keys: Bytes, ends: Numbers, seed: Any, hashes: npt.NDArray[np.int32]) -> None:
    start = 0
    for number in range(len(ends)):
        hashes[number] = hash_code(keys, start, ends[number], seed)
        start = ends[number]


@kernel
def _chain_all(hashes: npt.NDArray[np.int32], first: Numbers, others: Numbers) -> None:
    for number in range(len(hashes)):
        slot = hashes[number] & (len(first) - 1)
        others[number] = first[slot]
        first[slot] = number


@kernel
def _judge(
    window: Bytes, rows: Rows, split_properties: bool, tables: Any, spans: Numbers, found: Any,
    verdicts: Verdicts,
) -> None:  # fmt: skip
    topic = tables.topic
    for i in range(len(rows)):
        row = rows[i]
        verdicts[i] = _NO
        if not _reaches_index(row.sysFlag):
            continue
        if row.topicLength != len(topic) or not same_bytes(
            window, row.topicAt, topic, 0, len(topic)
        ):
            continue
        at = row.propertiesAt
        find_properties(window, at, at + row.propertiesLength, split_properties, spans)
        if spans[UNIQ_KEY, 0] >= 0:
            at, end = spans[UNIQ_KEY, 0], spans[UNIQ_KEY, 1]
            verdicts[i] = _one_of(window, at, end, 0, tables, found)
        if spans[TAGS, 0] >= 0:
            at, end = spans[TAGS, 0], spans[TAGS, 1]
            verdicts[i] = _better(verdicts[i], _one_of(window, at, end, 2, tables, found))
        if spans[KEYS, 0] >= 0:
            at, end = spans[KEYS, 0], spans[KEYS, 1]
            while at < end:
                stop = find_byte(window, at, end, _SPACE)
                if stop > at:
                    verdicts[i] = _better(verdicts[i], _one_of(window, at, stop, 0, tables, found))
                at = stop + 1


@kernel
def _better(one: int, other: int) -> int:
    """The verdict of a message, by the verdicts of two of its keys."""
    return _YES if one == _YES or other == _YES else max(one, other)


@kernel
def _one_of(buf: Bytes, at: int, end: int, skipped: int, tables: Any, found: Any) -> int:
    """Whether buf[at:end] is one of the keys, without their first `skipped` bytes: the prefix that
    a message's tags have as a key.
    """
    hashes, ends, others = tables.hashes, tables.ends, tables.others
    wanted = hash_code(buf, at, end, np.int32(tables.tags_seed if skipped else tables.seed))
    number = tables.first[wanted & (len(tables.first) - 1)]
    verdict = _NO
    while number >= 0:
        if hashes[number] == wanted:
            start = ends[number - 1] if number > 0 else 0
            length = ends[number] - start - skipped
            if skipped and not tables.tagged[number]:
                pass
            elif tables.odd[number]:
                verdict = _ASK
            elif length == end - at and same_bytes(buf, at, tables.keys, start + skipped, length):
                found[number] = True
                return _YES
        number = others[number]
    return verdict


Places = npt.NDArray[np.int64]

_BLOCKS = 4  # an index file is read in pieces of 1 / _BLOCKS of a window


def by_keys(
    store: OpenedStore, wanted: WantedKeys, begin: int | None, end: int | None, from_log: bool,
    notes: Notes,
) -> Iterator[StoredMessage]:  # fmt: skip
    """The messages of a topic that have one of the keys, in the log's order, once each.

    begin, end, from_log: as for `by_key`. Holds 16 bytes for each hit of the index.
    """
    whole: Gap = (store.log.start, store.log.end)
    gaps = [whole] if from_log else index_gaps(store, notes)
    places = np.empty(0, np.int64)
    if not from_log:
        try:
            places = _all_places(store, wanted, begin, end)
            for start, stop in gaps:
                places = places[(places < start) | (places >= stop)]
        except (BadIndex, RocksDBError) as error:
            notes.note(f"{error}; the log is read instead")
            gaps = [whole]
    found = _messages(store, places, wanted, notes)
    if gaps:
        scans = [scan(store, start, stop, b"", notes, wanted) for start, stop in gaps]
        found = merge(found, *scans, key=place_of)
    if begin is not None or end is not None:
        found = (message for message in found if within(message, begin, end))
    yield from found


def _all_places(
    store: OpenedStore, wanted: WantedKeys, begin: int | None, end: int | None
) -> Places:
    """Physical offsets of messages that may have one of the keys, ascending, by index files or
    RocksDB. Raises BadIndex, RocksDBError.
    """
    in_rocksdb = store.rocksdb_index()
    if in_rocksdb is None:
        return _places(store.index(), wanted, begin, end, store.storage.window_bytes)
    found = [
        place for key in wanted.keys for place in in_rocksdb.places(wanted.topic, key, begin, end)
    ]
    return np.unique(np.array(found, np.int64))


def _places(
    index: IndexReader, wanted: WantedKeys, begin: int | None, end: int | None, window_bytes: int
) -> Places:
    """Physical offsets of messages that may have one of the keys, ascending. Raises BadIndex."""

    def in_file(number: int) -> Places:
        found = [np.empty(0, np.int64)]
        with index.open(number) as file:
            for some in sweep(file, wanted.index_hashes, window_bytes // _BLOCKS):
                times = file.header.begin_timestamp + some["timeDiff"] * 1000
                kept = may_lie_within(some["number"], times, begin, end)
                found.append(some["physicalOffset"][kept])
        return np.concatenate(found)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        of_files = list(pool.map(in_file, range(len(index.files))))
    return np.unique(np.concatenate([np.empty(0, np.int64), *of_files]))


def _messages(
    store: OpenedStore, places: Places, wanted: WantedKeys, notes: Notes
) -> Iterator[StoredMessage]:
    hashes = set(wanted.index_hashes.tolist())
    for some in records_at(store.log, places):
        verdicts = wanted.judge_rows(some.window, some.rows, store.profile.split_properties)
        records = late_records_of(some.window, some.rows, store.log.rules)
        sure = (verdicts == Match.YES).tolist()
        found = [(store.message(record), yes) for record, yes in zip(records, sure, strict=True)]
        if some.others:
            found += [(message, False) for message in read(store, some.others, notes)]
            found.sort(key=lambda each: each[0].physical_offset)
        for message, yes in found:
            if yes or message.wanted_by(wanted):
                yield message
            else:
                note_if_wrong(message, hashes, notes)
