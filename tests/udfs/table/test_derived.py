"""Entries of queue and index files as batches, as docs/formats lays them out."""

import struct
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.files.protocol import FileState
from reput.udfs.table import derived
from tests.logs.index_bytes import pack_index
from tests.memory_storage import MemoryStorage

QUEUE_SCHEMA = pa.schema([each.field for each in derived.QUEUES.values()])
INDEX_SCHEMA = pa.schema([each.field for each in derived.INDEX.values()])
BLANK = (0, 0x7FFFFFFF, 0)
FIRST = [BLANK, BLANK, (1000, 100, -5), (1100, 100, 65), (1200, 100, 0)]  # positions 5 to 9
SECOND = [(1300, 100, 1 << 40), (1400, 1 << 30, 0)]  # positions 10 and 11


def queue_file(entries: list[tuple[int, int, int]]) -> bytes:
    return b"".join(struct.pack(">qiq", *each) for each in entries).ljust(100, b"\0")


STORAGE = MemoryStorage({
    f"q/T/3/{100:020d}": queue_file(FIRST), f"q/T/3/{200:020d}": queue_file(SECOND),
    f"b/T/0/{0:020d}": struct.pack(">qiqqqhii", 500, 90, 7, 1_700_000_000_000, 3, 40, -1, 0)
    + struct.pack(">qiqqqhii", 590, 90, 7, -1, 43, 1, -1, 0) + bytes(46),
})  # fmt: skip


def queues(*ranges: derived.QueueRange, schema: pa.Schema = QUEUE_SCHEMA) -> list[dict[str, Any]]:
    batches = list(derived.queue_batches(STORAGE, ranges, schema))
    assert all(batch.schema == schema and batch.num_rows for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def queue(first: int = 0, stop: int = 1 << 63) -> derived.QueueRange:
    return derived.QueueRange("q/T/3", "T", 3, False, first, stop)


def test_an_entry_of_a_queue_is_a_row_and_a_pre_blank_is_none() -> None:
    rows = queues(queue())
    assert rows[0] == {
        "topic": "T", "queueId": 3, "queueOffset": 7, "physicalOffset": 1000, "size": 100,
        "tagsCode": -5, "messages": 1, "storeTimestampMillis": None, "batch": False,
    }  # fmt: skip
    assert [row["queueOffset"] for row in rows] == [7, 8, 9, 10, 11]
    assert [row["tagsCode"] for row in rows] == [-5, 65, 0, 1 << 40, 0]


@pytest.mark.parametrize(("first", "stop", "offsets"), [
    (8, 9, [8]), (9, 11, [9, 10]), (10, 11, [10]), (0, 10, [7, 8, 9]), (11, 12, [11]),
    (12, 13, []), (5, 7, []), (0, 5, []), (9, 9, []), (15, 99, []),
])  # fmt: skip
def test_a_range_of_positions_goes_over_the_files_borders(first, stop, offsets) -> None:
    assert [row["queueOffset"] for row in queues(queue(first, stop))] == offsets


def test_a_batch_queue_has_times_and_its_entries_own_positions() -> None:
    rows = queues(derived.QueueRange("b/T/0", "T", 0, True), queue(11))
    names = ("queueOffset", "messages", "storeTimestampMillis", "batch")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (3, 40, 1_700_000_000_000, True), (43, 1, -1, True), (11, 1, None, False),
    ]  # fmt: skip
    few = pa.schema([derived.QUEUES[name].field for name in ("size", "topic")])
    assert queues(queue(11), schema=few) == [{"size": 1 << 30, "topic": "T"}]


INDEX_FILE = pack_index(
    (1_700_000_000_123, 1_700_000_002_000, 0, 900, 2, 5), [4, 0, 3],
    [(6, 0, 0, 0), (5, 0, 0, 0), (5, 300, 1, 2), (0x7FFFFFFE, 1 << 50, 0x7FFFFFFF, 1)], 6,
)  # fmt: skip


@pytest.mark.parametrize(("first", "stop"), [(1, 5), (1, 2), (3, 5), (4, 4), (5, 6)])
def test_entries_of_an_index_file_have_its_time_and_their_slot(first: int, stop: int) -> None:
    path = "index/20231114221320123"
    part = derived.IndexPart(path, FileState(len(INDEX_FILE), 0, 0), 3, 6, first, stop)
    batches = list(derived.index_batches(MemoryStorage({path: INDEX_FILE}), part, INDEX_SCHEMA))
    whole = [
        (1, 0, 6, 0, 0, 1_700_000_000_123, 0), (2, 2, 5, 0, 0, 1_700_000_000_123, 0),
        (3, 2, 5, 300, 1, 1_700_000_001_123, 2),
        (4, 0, 0x7FFFFFFE, 1 << 50, 0x7FFFFFFF, 1_700_000_000_123 + 0x7FFFFFFF * 1000, 1),
        (5, 0, 0, 0, 0, 1_700_000_000_123, 0),
    ]  # fmt: skip
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert rows == [("20231114221320123", *each) for each in whole[first - 1 : stop - 1]]
    assert all(batch.schema == INDEX_SCHEMA for batch in batches)
