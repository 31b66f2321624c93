"""An index in RocksDB against the rows that the log gives: what is lost, extra, or other."""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.files.local import LocalStorage
from reput.store_format.log.segments import Splits
from reput.store_format.rocksdb.database import TableWriter, make_database, table_options
from reput.udfs.staging import Staging
from reput.udfs.table import rocksdb_index as module
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode, properties
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of
from tests.udfs.tables import rows_of

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
        [{"key": key(place), "value": value(place)} for place in PLACES], module.ROW
    )
    raw = batch.serialize().to_pybytes()
    staging = Staging(MemoryStorage({"s/rows": raw}), "s")
    run = {"name": "rows", "rows": 10, "firsts": [key(1000)], "ends": [len(raw)]}
    ranges = tuple(map(key, cuts))
    task = module.CompareIndexRows(
        LocalStorage(), folder, staging, (run,), ranges, log_start, again_from
    )
    return rows_of(task, *range(len(cuts) + 1), schema=module.COMPARED)


def lost(row: dict[str, Any]) -> list[int]:
    found: list[int] = np.frombuffer(row["lost"], np.int64).tolist()
    return found


def test_each_row_of_either_side_counts_once_in_one_range_and_an_unread_database_is_reported(
    database, tmp_path
) -> None:
    (row,) = compared(database)
    assert lost(row) == [1100, 1500, 1900]
    assert (row["rows"], row["begin"], row["unread"]) == (10, 1000, None)
    assert (row["extra"], row["first_extra"]) == (1, 1050)
    assert (row["other"], row["first_other"]) == (1, 1300)
    rows = compared(database, 1100, 1500, 1950)
    assert [row["rows"] for row in rows] == [1, 4, 5, 0]
    assert [lost(row) for row in rows] == [[], [1100], [1500, 1900], []]
    assert [row["begin"] for row in rows] == [1000, 1200, 1600, -1]
    assert [row["first_extra"] for row in rows] == [1050, -1, -1, -1]
    (row,) = compared(str(tmp_path), 1500)
    assert row["unread"]
    assert row["rows"] is None


@pytest.mark.parametrize(("log_start", "again_from", "extra", "other"), [
    (900, 1800, (2, 900), (1, 1300)), (1051, 1800, (0, -1), (1, 1300)),
    (1000, 1801, (1, 1050), (2, 1300)), (1000, 1851, (2, 1050), (2, 1300)),
    (1000, 1050, (0, -1), (0, -1)),
])  # fmt: skip
def test_expired_messages_and_those_that_a_broker_writes_again_are_no_difference(
    database: str, log_start: int, again_from: int, extra: tuple[int, int], other: tuple[int, int]
) -> None:
    (row,) = compared(database, log_start=log_start, again_from=again_from)
    assert (row["extra"], row["first_extra"]) == extra
    assert (row["other"], row["first_other"]) == other
    assert row["begin"] == min(p for p in (900, 1000, 1050, 1200) if p >= log_start)


# --- Which messages have rows in an index in RocksDB.
HOUR_INDEX = 3_600_000
TIME = 472_222 * HOUR_INDEX + 5
SEGMENT = 4096


def message(number: int, *pairs: tuple[str, str], **more: Any) -> Message:
    unique = (("UNIQ_KEY", f"u{number}"),)
    return Message(**{"store_timestamp": TIME, "properties": properties(*pairs, *unique), **more})


def listed(messages: list[Message]) -> tuple[Staging, tuple[dict[str, Any], ...]]:
    """RUN_OF_ROWS of a log that is one split."""
    log = log_of(messages, SEGMENT)
    end = record_places(build_log(messages, SEGMENT))[-1] + len(encode(messages[-1], 0))
    cut, staging = Splits(list(log.segments), SEGMENT, SEGMENT), Staging(MemoryStorage(), "s")
    task = module.ListIndexRows(
        log.storage, staging, cut, log.rules.records, True, ((0, 0, end),)
    )  # fmt: skip
    return staging, tuple(rows_of(task, 0))


@pytest.mark.parametrize(("more", "rows"), [
    ({}, 3),
    ({"properties": properties(("KEYS", "k"), ("TAGS", "t"))}, 0),  # no UNIQ_KEY
    ({"sys_flag": 0xC}, 0),  # rolled back
    ({"sys_flag": 0x4}, 3), ({"sys_flag": 0x8}, 3), ({"store_timestamp": HOUR_INDEX}, 3),
    ({"store_timestamp": -1}, 0), ({"properties": properties(("KEYS", " "), ("UNIQ_KEY", "u"))}, 1),
])  # fmt: skip
def test_which_messages_have_rows(more: dict[str, Any], rows: int) -> None:
    made = [message(1, ("KEYS", "k"), ("TAGS", "t"), **more), message(2)]
    assert module.merged_rows(*listed(made), b"", None).num_rows == rows + 1


def test_each_range_that_has_rows_is_a_table() -> None:
    staging, runs = listed([message(n) for n in range(4)])
    keys = module.merged_rows(staging, runs, b"", None).column("key").to_pylist()
    made = rows_of(module.BuildIndexTables(staging, runs, (keys[2], b"\x01")), 0, 1, 2)
    assert [each["rows"] for each in made] == [2, 2]


@pytest.mark.parametrize(("firsts", "rows", "ranges", "most", "cuts"), [
    ([[b"a", b"c"], [b"b", b"d"]], 8, 2, 100, (b"c",)),
    ([[b"a", b"c"], [b"b", b"d"]], 8, 1, 4, (b"b", b"c", b"d")),
    ([[b"a", b"c"], [b"b", b"d"]], 8, 99, 100, (b"b", b"c", b"d")),
    ([[b"a"], [b"a"], [b"a"]], 3, 3, 1, ()), ([[b"a", b"c"]], 8, 1, 100, ()), ([], 0, 4, 100, ()),
])  # fmt: skip
def test_ranges_begin_at_keys_that_are_known(firsts, rows, ranges, most, cuts) -> None:
    runs = [{"firsts": each, "rows": rows} for each in firsts]
    assert module.index_cuts(runs, ranges, most) == cuts
