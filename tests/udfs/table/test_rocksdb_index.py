"""An index in RocksDB against the rows that the log gives: what is lost, extra, or other."""

import struct
from pathlib import Path
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
from tests.udfs.tables import rows_in, rows_of

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


# --- Rows of an index in RocksDB as docs/formats/rocksdb.md has them, sorted over all splits.
HOUR_INDEX = 3_600_000
TIME = 472_222 * HOUR_INDEX + 5
SEGMENT = 4096
Run = dict[str, Any]


def message(number: int, *pairs: tuple[str, str], **more: Any) -> Message:
    unique = (("UNIQ_KEY", f"u{number}"),)
    return Message(**{"store_timestamp": TIME, "properties": properties(*pairs, *unique), **more})


def row(middle: str, place: int, time: int = TIME) -> tuple[bytes, bytes]:
    key = (struct.pack(">q", time // HOUR_INDEX * HOUR_INDEX) + middle.encode()
           + struct.pack(">q", place))  # fmt: skip
    return key, struct.pack(">q", time)


def listed(messages: list[Message], splits: int = 1) -> tuple[Staging, list[Run]]:
    """RUN_OF_ROWS of a log that is cut into so many splits."""
    log = log_of(messages, SEGMENT)
    places = record_places(build_log(messages, SEGMENT))
    end = places[-1] + len(encode(messages[-1], 0))
    starts = [n * SEGMENT // splits for n in range(splits)]
    firsts = [next((place for place in places if place >= start), end) for start in starts]
    stretches = tuple(zip(range(splits), firsts, [*firsts[1:], end], strict=True))
    cut = Splits(list(log.segments), -(-SEGMENT // splits), SEGMENT)
    staging = Staging(MemoryStorage(), "s")
    task = module.ListIndexRows(log.storage, staging, cut, log.rules.records, True, stretches)
    return staging, rows_of(task, *range(splits))


def rows_made(messages: list[Message], start: bytes = b"", stop: bytes | None = None,
            splits: int = 1) -> list[tuple[bytes, bytes]]:  # fmt: skip
    staging, runs = listed(messages, splits)
    rows = module.merged_rows(staging, tuple(runs), start, stop)
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.parametrize(("more", "rows"), [
    ({}, 3),
    ({"properties": properties(("KEYS", "k"), ("TAGS", "t"))}, 0),  # no UNIQ_KEY
    ({"sys_flag": 0xC}, 0),  # rolled back
    ({"sys_flag": 0x4}, 3), ({"sys_flag": 0x8}, 3), ({"store_timestamp": HOUR_INDEX}, 3),
    ({"store_timestamp": -1}, 0), ({"properties": properties(("KEYS", " "), ("UNIQ_KEY", "u"))}, 1),
])  # fmt: skip
def test_which_messages_have_rows(more: dict[str, Any], rows: int) -> None:
    made = [message(1, ("KEYS", "k"), ("TAGS", "t"), **more), message(2)]
    assert len(rows_made(made)) == rows + 1


def test_a_message_has_a_row_for_each_key_tags_and_unique_key_by_its_hour_rounded_down() -> None:
    times = [HOUR_INDEX * 500_001, HOUR_INDEX * 500_001 - 1, HOUR_INDEX * 500_000]
    made = [message(n, store_timestamp=time) for n, time in enumerate(times)]
    places = record_places(build_log(made, SEGMENT))
    assert rows_made(made) == [row(f"@T@U@u{n}@", places[n], times[n]) for n in (1, 2, 0)]
    found = rows_made([message(1, ("KEYS", "b a  b"), ("TAGS", "x||y"), topic="é")])
    assert found == [row("@é@K@a@u1@", 0), row("@é@K@b@u1@", 0), row("@é@T@x||y@u1@", 0),
                     row("@é@U@u1@", 0)]  # fmt: skip


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("a_run", [1, 1000])
def test_a_range_of_keys_is_whole_however_the_log_is_cut(monkeypatch, splits, a_run) -> None:
    monkeypatch.setattr(module, "_WINDOW_BYTES", SEGMENT)
    monkeypatch.setattr(module, "_ROWS_A_RUN", a_run)
    monkeypatch.setattr(module, "_ROWS_A_BATCH", 3)
    made = [message(n, ("KEYS", f"k{n % 4}")) for n in range(20)]
    places = record_places(build_log(made, SEGMENT))
    whole = sorted(row(f"@T@{kind}@u{n}@", places[n])
                   for n in range(20) for kind in (f"K@k{n % 4}", "U"))  # fmt: skip
    assert rows_made(made, splits=splits) == whole
    for start, stop in ((0, 7), (7, 8), (7, 7), (3, 30), (39, 40)):
        stop_key = None if stop == 40 else whole[stop][0]
        assert rows_made(made, whole[start][0], stop_key, splits) == whole[start:stop]
    assert rows_made(made, whole[0][0] + b"\0", whole[2][0]) == whole[1:2]


def test_a_run_says_what_it_holds_and_each_range_that_has_rows_is_a_table(tmp_path: Path) -> None:
    staging, (run,) = listed([message(n, store_timestamp=TIME + n % 3) for n in range(4)])
    assert (run["rows"], run["first_offset"], run["last_time"]) == (4, 0, TIME + 2)
    assert run["last_offset"] == 3 * len(encode(message(0), 0))
    assert run["ends"][-1] == len(staging.storage.read_bytes(f"s/{run['name']}"))
    assert listed([Message()])[1] == []
    staging, runs = listed([message(n) for n in range(4)])
    cuts = (row("@T@U@u2@", 0)[0], b"\x01")
    made = rows_of(module.BuildIndexTables(staging, tuple(runs), cuts), 0, 1, 2)
    assert [each["rows"] for each in made] == [2, 2]
    tables = {each["name"]: staging.storage.read_bytes(f"s/{each['name']}") for each in made}
    names = [key.split(b"@")[3] for key, _ in rows_in(tables, tmp_path)]
    assert names == [b"u0", b"u1", b"u2", b"u3"]


@pytest.mark.parametrize(("firsts", "rows", "ranges", "most", "cuts"), [
    ([[b"a", b"c"], [b"b", b"d"]], 8, 2, 100, (b"c",)),
    ([[b"a", b"c"], [b"b", b"d"]], 8, 1, 4, (b"b", b"c", b"d")),
    ([[b"a", b"c"], [b"b", b"d"]], 8, 99, 100, (b"b", b"c", b"d")),
    ([[b"a"], [b"a"], [b"a"]], 3, 3, 1, ()), ([[b"a", b"c"]], 8, 1, 100, ()), ([], 0, 4, 100, ()),
])  # fmt: skip
def test_ranges_begin_at_keys_that_are_known(firsts, rows, ranges, most, cuts) -> None:
    runs = [{"firsts": each, "rows": rows} for each in firsts]
    assert module.index_cuts(runs, ranges, most) == cuts
