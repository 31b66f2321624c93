"""An index in RocksDB against the rows that the log gives: what is lost, extra, or other."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import TableWriter, make_database, table_options
from reput.udfs.staging import Staging
from reput.udfs.table.rocksdb_index import COMPARED, ROW, CompareIndexRows
from tests.memory_storage import MemoryStorage

HOUR = 472_222 * 3_600_000


def key(place: int) -> bytes:
    return struct.pack(">q", HOUR) + b"@T@U@u%05d@" % place + struct.pack(">q", place)


def value(place: int) -> bytes:
    return struct.pack(">q", HOUR + place)


PLACES = range(1000, 2000, 100)
# In RocksDB: 1100, 1500 and 1900 are not; 1300 and 1800 have another time; 900, 1050 and 1850 are
# extra; and what is no message's row.
STORED = {key(place): value(place) for place in PLACES if place not in (1100, 1500, 1900)}
STORED |= {key(1300): value(0), key(1800): value(0)}
STORED |= {key(place): value(place) for place in (900, 1050, 1850)}
STORED |= {b"lastOffsetPy": bytes(8), b"lastStoreTimeStamp": bytes(8)}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("index")
    (folder / "rocksdbstore").mkdir()
    options = table_options(True, True)
    writer = TableWriter(str(folder / "table"), options)
    rows = sorted(STORED.items())
    writer.put([name for name, _ in rows], [content for _, content in rows])
    writer.finish()
    make_database(str(folder / "rocksdbstore"), {"default": (options, [str(folder / "table")])})
    return str(folder / "rocksdbstore")


def compared(
    folder: str, *cuts: int, log_start: int = 1000, again_from: int = 1800
) -> list[dict[str, Any]]:
    """COMPARED rows of the ranges that begin at these places."""
    batch = pa.RecordBatch.from_pylist(
        [{"key": key(place), "value": value(place)} for place in PLACES], ROW
    )
    raw = batch.serialize().to_pybytes()
    staging = Staging(MemoryStorage({"s/rows": raw}), "s")
    run = {"name": "rows", "rows": 10, "firsts": [key(1000)], "ends": [len(raw)]}
    ranges = tuple(map(key, cuts))
    task = CompareIndexRows(LocalStorage(), folder, staging, (run,), ranges, log_start, again_from)
    ids = pa.RecordBatch.from_pydict({"id": list(range(len(cuts) + 1))})
    batches = list(task(iter([ids])))
    assert all(each.schema == COMPARED for each in batches)
    return [row for each in batches for row in each.to_pylist()]


def lost(row: dict[str, Any]) -> list[int]:
    found: list[int] = np.frombuffer(row["lost"], np.int64).tolist()
    return found


def test_each_row_of_either_side_counts_once(database: str) -> None:
    (row,) = compared(database)
    assert lost(row) == [1100, 1500, 1900]
    assert (row["rows"], row["begin"], row["unread"]) == (10, 1000, None)
    assert (row["extra"], row["first_extra"]) == (1, 1050)
    assert (row["other"], row["first_other"]) == (1, 1300)


@pytest.mark.parametrize(
    ("log_start", "again_from", "extra", "other"),
    [
        (900, 1800, (2, 900), (1, 1300)),
        (1051, 1800, (0, -1), (1, 1300)),
        (1000, 1801, (1, 1050), (2, 1300)),
        (1000, 1851, (2, 1050), (2, 1300)),
        (1000, 1050, (0, -1), (0, -1)),
    ],
)
def test_expired_messages_and_those_that_a_broker_writes_again_are_no_difference(
    database: str, log_start: int, again_from: int, extra: tuple[int, int], other: tuple[int, int]
) -> None:
    (row,) = compared(database, log_start=log_start, again_from=again_from)
    assert (row["extra"], row["first_extra"]) == extra
    assert (row["other"], row["first_other"]) == other
    assert row["begin"] == min(p for p in (900, 1000, 1050, 1200) if p >= log_start)


def test_ranges_share_the_rows_between_them(database: str) -> None:
    rows = compared(database, 1100, 1500, 1950)
    assert [row["rows"] for row in rows] == [1, 4, 5, 0]
    assert [lost(row) for row in rows] == [[], [1100], [1500, 1900], []]
    assert [row["begin"] for row in rows] == [1000, 1200, 1600, -1]
    assert [row["first_extra"] for row in rows] == [1050, -1, -1, -1]


def test_a_database_that_cannot_be_read_is_reported_with_the_reason(tmp_path: Path) -> None:
    (row,) = compared(str(tmp_path), 1500)
    assert row["unread"]
    assert row["rows"] is None
