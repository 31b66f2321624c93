"""Messages by many keys at once, through the index. `by_key` does it for one key."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from heapq import merge

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.index_file import sweep
from reput.store_format.derived.index_reader import BadIndex, IndexReader, may_lie_within
from reput.store_format.filter.rows import Match
from reput.store_format.log.columns import records_at
from reput.store_format.log.reader import late_records_of
from reput.store_format.notes import Notes
from reput.store_format.query.by_key import note_if_wrong, place_of, read, within
from reput.store_format.query.gaps import Gap, index_gaps
from reput.store_format.query.log_scan import scan
from reput.store_format.query.opened_store import OpenedStore
from reput.store_format.query.stored_message import StoredMessage
from reput.store_format.query.wanted_keys import WantedKeys
from reput.store_format.rocksdb.database import RocksDBError

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
    """As `_places`, from index files or RocksDB. Raises BadIndex, RocksDBError."""
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
    """The messages at these places that do have one of the keys."""
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
