"""The rows of an index in RocksDB, made from records and compared with those of a store."""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.store_format.faults import Fault
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import InputStorage
from reput.store_format.files.read_ahead import open_ahead
from reput.store_format.layouts import SYS_TRANSACTION_MASK, SYS_TRANSACTION_ROLLBACK
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Splits
from reput.store_format.log.walk import NO_CHECKS, Walk
from reput.store_format.rocksdb.database import Database, RocksDBError, open_database
from reput.store_format.rocksdb.rows import BEHIND_HOURS, FAMILY, HOUR, KEY, TAGS, UNIQUE
from reput.udfs.rebuild.rocksdb_queues import NewTable
from reput.udfs.staging import Staging, attempt_name, ids_of, in_batches, schema
from reput.udfs.table.columns import StepRows

# ---
# The rows of an index in RocksDB (indexRocksDBEnable), from the records of splits.
#
# `ListIndexRows` writes each split's rows to staging, sorted, some hundred thousand to a file, and
# lists their keys; `index_cuts` returns where ranges of keys begin, and `merged_rows` all rows of a
# range in order. Rows are as IndexRocksDBStore.buildIndex makes them.

_WINDOW_BYTES = 4 << 20
_ROWS_A_RUN = 1 << 19
_ROWS_A_BATCH = 1 << 14  # rows of a run that are read at a time; the first key of each is known

ROW = schema(key=pa.binary(), value=pa.binary())
# A row for each file of sorted rows. firsts: the first key of each batch in it; ends: where each
# batch ends in the file.
RUN_OF_ROWS = schema(
    name=pa.string(), rows=pa.int64(), firsts=pa.list_(pa.binary()), ends=pa.list_(pa.int64()),
    first_offset=pa.int64(), last_offset=pa.int64(), last_time=pa.int64(),
)  # fmt: skip
INDEX_TABLE = schema(name=pa.string(), rows=pa.int64())


@dataclass(frozen=True)
class ListIndexRows:
    """RUN_OF_ROWS of the splits whose places in `stretches` arrive in `id`."""

    storage: InputStorage
    staging: Staging
    splits: Splits
    rules: RecordRules
    split_properties: bool
    stretches: tuple[tuple[int, int, int], ...]  # split, its first record, the next split's

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            yield from in_batches(self._runs(*self.stretches[number]), RUN_OF_ROWS)

    def _runs(self, split: int, first: int, after: int) -> Iterator[dict[str, Any]]:
        held: list[pa.Table] = []
        for some in self._rows(split, first, after):
            held.append(some)
            if sum(map(len, held)) >= _ROWS_A_RUN:
                yield self._run(held)
                held = []
        if sum(map(len, held)):
            yield self._run(held)

    def _rows(self, split: int, first: int, after: int) -> Iterator[pa.Table]:
        segment = self.splits.segment(split)
        begin = first - segment.start
        until = after - segment.start
        whole = self.splits.total * self.splits.split_bytes
        reader = open_ahead(self.storage, segment.path, segment.state, begin, until, whole)
        window = np.empty(_WINDOW_BYTES, np.uint8)
        walk = Walk(segment.read_by(reader), segment.end, self.rules, NO_CHECKS, window)
        try:
            for step in walk.steps(first, after):
                rows = StepRows(step, None, self.rules, self.split_properties, _no_body)
                yield index_rows(rows)
                sound = step.fault in (Fault.NONE, Fault.BLANK) or step.next == after
                assert sound, f"{segment.path}: changed"
        finally:
            reader.close()

    def _run(self, held: list[pa.Table]) -> dict[str, Any]:
        rows = pa.concat_tables(held).sort_by("key").combine_chunks()
        name = attempt_name("index-rows")
        output = self.staging.storage.create(self.staging.path(name))
        firsts, ends, end = list[bytes](), list[int](), 0
        for batch in rows.select(ROW.names).to_batches(_ROWS_A_BATCH):
            raw = batch.serialize()
            output.write(raw)
            end += len(raw)
            firsts.append(batch.column("key")[0].as_py())
            ends.append(end)
        output.finish(end)
        return {
            "name": name, "rows": len(rows), "firsts": firsts, "ends": ends,
            "first_offset": pc.min(rows["place"]).as_py(),
            "last_offset": pc.max(rows["place"]).as_py(), "last_time": pc.max(rows["time"]).as_py(),
        }  # fmt: skip


def _no_body(place: int, length: int) -> bytes:
    raise AssertionError  # no index key comes from a body


def index_rows(rows: StepRows) -> pa.Table:
    """The index rows of some records: key, value, and the record's place and time."""
    places = np.ascontiguousarray(rows.rows["physicalOffset"])
    times = np.ascontiguousarray(rows.rows["storeTimestamp"])
    topics, unique, tags = (rows.column(name) for name in ("topic", "uniqueKey", "tags"))
    rolled_back = (rows.rows["sysFlag"] & SYS_TRANSACTION_MASK) == SYS_TRANSACTION_ROLLBACK
    wanted = (times >= HOUR) & ~rolled_back & _there(topics) & _there(unique)
    words = rows.column("keys")
    of_word = np.asarray(pc.list_parent_indices(words))
    words = pc.list_flatten(words)
    every = np.arange(len(rows))
    parts = []
    for kind, of, texts in (
        (KEY, of_word, words),
        (TAGS, every[_there(tags)], tags.filter(pa.array(_there(tags)))),
        (UNIQUE, every, None),
    ):
        kept = wanted[of]
        of = of[kept]
        named = [topics.take(pa.array(of)), pa.scalar(kind)]
        if texts is not None:
            named.append(texts.filter(pa.array(kept)))
        named.append(unique.take(pa.array(of)))
        middle = pc.binary_join_element_wise(pa.scalar(""), *named, pa.scalar(""), pa.scalar("@"))
        hours = _longs(times[of] // HOUR * HOUR)
        place = _longs(places[of])
        keys = pc.binary_join_element_wise(hours, middle.cast(pa.binary()), place, b"")
        parts.append(
            pa.record_batch(
                [keys, _longs(times[of]), pa.array(places[of]), pa.array(times[of])],
                names=["key", "value", "place", "time"],
            )
        )
    return pa.Table.from_batches(parts)


def _there(texts: pa.Array) -> np.ndarray:
    """One bool for each text: whether it is neither null nor empty."""
    lengths = pc.fill_null(pc.binary_length(texts), 0)
    return np.asarray(lengths) > 0


def _longs(numbers: np.ndarray) -> pa.Array:
    raw = pa.py_buffer(numbers.astype(">i8").tobytes())
    return pa.Array.from_buffers(pa.binary(8), len(numbers), [None, raw]).cast(pa.binary())


def index_cuts(runs: list[dict[str, Any]], ranges: int, most: int) -> tuple[bytes, ...]:
    """The first key of each range but the first; ranges have about as many rows each.

    runs: RUN_OF_ROWS; most: rows in a range, about.
    """
    firsts = sorted(key for run in runs for key in run["firsts"])
    total = sum(run["rows"] for run in runs)
    ranges = min(max(ranges, -(-total // most)), len(firsts))
    cuts = {firsts[len(firsts) * number // ranges] for number in range(1, ranges)}
    return tuple(sorted(cuts - set(firsts[:1])))


def merged_rows(
    staging: Staging, runs: tuple[dict[str, Any], ...], start: bytes, stop: bytes | None
) -> pa.Table:
    """All rows with keys in [start, stop), sorted, each key once."""
    found = []
    for run in runs:
        firsts = run["firsts"]
        low = max(bisect_right(firsts, start) - 1, 0)
        high = len(firsts) if stop is None else bisect_right(firsts, stop)
        if low >= high:
            continue
        for batch in _batches(staging, run, low, high):
            kept = pc.greater_equal(batch.column("key"), pa.scalar(start, pa.binary()))
            if stop is not None:
                before = pc.less(batch.column("key"), pa.scalar(stop, pa.binary()))
                kept = pc.and_(kept, before)
            found.append(batch.filter(kept))
    rows = pa.Table.from_batches(found, ROW).sort_by("key").combine_chunks()
    if len(rows) > 1:
        keys = rows["key"].combine_chunks()
        new = pc.not_equal(keys[1:], keys[:-1])
        rows = rows.filter(pa.concat_arrays([pa.array([True]), new]))
    return rows


def _batches(
    staging: Staging, run: dict[str, Any], low: int, high: int
) -> Iterator[pa.RecordBatch]:
    """The batches [low, high) of a run; no more of its file is read."""
    bounds = [0, *run["ends"]][low : high + 1]
    raw = np.empty(bounds[-1] - bounds[0], np.uint8)
    with closing(staging.storage.open(staging.path(run["name"]))) as reader:
        reader.read_into(bounds[0], raw)
    whole = pa.py_buffer(raw)
    for begin, end in pairwise(bounds):
        yield pa.ipc.read_record_batch(whole.slice(begin - bounds[0], end - begin), ROW)


@dataclass(frozen=True)
class BuildIndexTables:
    """Writes the tables of the ranges whose numbers arrive in `id`; INDEX_TABLE rows."""

    staging: Staging
    runs: tuple[dict[str, Any], ...]
    cuts: tuple[bytes, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bounds = (b"", *self.cuts, None)
        for number in ids_of(batches):
            rows = merged_rows(self.staging, self.runs, bounds[number] or b"", bounds[number + 1])
            if not len(rows):
                continue
            with NewTable(self.staging) as table:
                for batch in rows.to_batches(_ROWS_A_BATCH):
                    table.put_rows(*(column.to_pylist() for column in batch.columns))
                table.finish()
            row = {"name": table.name, "rows": len(rows)}
            yield from in_batches(iter([row]), INDEX_TABLE)


# ---
# Compares ranges of an index in RocksDB with the rows that the log gives, by key.

# A row for each range. Places are physical offsets of messages that the log still has; first_: the
# least such place, -1 for none.
COMPARED = schema(
    rows=pa.int64(),  # that the log gives
    begin=pa.int64(),  # the least place of a row in RocksDB; -1 for none
    lost=pa.binary(),  # the place of each row that is missing in RocksDB, as int64
    extra=pa.int64(), first_extra=pa.int64(),  # rows in RocksDB that the log does not give
    other=pa.int64(), first_other=pa.int64(),  # rows that have another value
    unread=pa.string(),  # why RocksDB cannot be read; all else is then null
)  # fmt: skip


@dataclass(frozen=True)
class CompareIndexRows:
    """COMPARED rows of the ranges whose numbers arrive in `id`."""

    storage: InputStorage  # of the database
    folder: str
    staging: Staging
    runs: tuple[dict[str, Any], ...]  # RUN_OF_ROWS
    cuts: tuple[bytes, ...]
    log_start: int
    again_from: int  # a broker writes the rows of messages from here on again

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            found = self._all(list(ids_of(batches)))
        except RocksDBError as error:
            found = [{"unread": error.reason}]
        yield from in_batches(iter(found), COMPARED)

    def _all(self, numbers: list[int]) -> list[dict[str, Any]]:
        bounds = (b"", *self.cuts, BEHIND_HOURS)
        if not numbers:
            return []
        with closing(open_database(Folder(self.storage, self.folder))) as database:
            return [self._compared(database, *bounds[n : n + 2]) for n in numbers]

    def _compared(self, database: Database, start: bytes, stop: bytes) -> dict[str, Any]:
        table = merged_rows(self.staging, self.runs, start, stop)
        wanted = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))
        rows, places, extra, other = len(wanted), list[int](), list[int](), list[int]()
        for key, value in database.rows(FAMILY, start, stop):
            place, should = _place(key), wanted.pop(key, None)
            places.append(place)
            if should is None:
                extra.append(place)
            elif should != value:
                other.append(place)
        lost = np.array([_place(key) for key in wanted], np.int64)
        extra = [place for place in extra if self.log_start <= place < self.again_from]
        other = [place for place in other if place < self.again_from]
        return {
            "rows": rows, "lost": lost.tobytes(),
            "begin": min((place for place in places if place >= self.log_start), default=-1),
            "extra": len(extra), "first_extra": min(extra, default=-1),
            "other": len(other), "first_other": min(other, default=-1),
        }  # fmt: skip


def _place(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big", signed=True)
