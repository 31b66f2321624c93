"""Config that brokers keep in RocksDB, of all three kinds, and rows that cannot be read."""

import itertools
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb import rows as module
from reput.store_format.rocksdb.database import Database, open_database
from tests.store_format.rocksdb.stores import make

Rows = dict[bytes, bytes]


def config(folder: Path, file: str, rows: Rows, family: str = "default") -> dict[str, Any]:
    """What is read of a database with these rows in one family."""
    with closing(open_database(Folder(LocalStorage(), str(make(folder, {family: rows}))))) as made:
        return module.config_rows(made, file)


def name(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


def offset(group: bytes, topic: bytes, queue: int, table: int = 1) -> bytes:
    """docs/formats/rocksdb.md."""
    prefix = struct.pack(">bhb", 1, table, 2)
    return prefix + name(group) + b"\1" + name(topic) + b"\1" + struct.pack(">i", queue)


@pytest.mark.parametrize(
    ("folder", "family"), [("topics", "default"), ("metadata", "topic")], ids=["v1", "single"]
)
def test_a_row_a_name_with_its_json(tmp_path: Path, folder: str, family: str) -> None:
    rows = {b"A": b'{"perm":6}', b"B": b"{1:2}", b"bad": b"{", b"\xff": b"{}"}
    found = config(tmp_path / folder, "topics.json", rows, family)
    assert found == {"A": {"perm": 6}, "B": {"1": 2}}


def test_offsets_are_the_table_in_their_json_and_v2_has_an_offset_a_row(tmp_path: Path) -> None:
    rows = {b"T@g": b'{"offsetTable":{0:13,1:2}}', b"none": b"{}", b"list": b"[1]", b"n": b"5"}
    found = config(tmp_path / "consumerOffsets", "consumerOffset.json", rows)
    assert found == {"T@g": {"0": 13, "1": 2}}
    topic, group = struct.pack(">bhb", 1, 3, 2), struct.pack(">bhb", 1, 4, 2)
    rows = {
        topic + name(b"A"): b'\1{"perm":6}', topic + name(b"other form"): b'\2{"perm":6}',
        topic + name(b"bad"): b"\1{", topic + name(b"\xff"): b"\1{}",
        topic + name(b"rest") + b"x": b"\1{}", topic + b"\0\5four": b"\1{}", topic: b"\1{}",
        group + name(b"g"): b'\1{"groupName":"g"}',
    }  # fmt: skip
    folder = tmp_path / "rdb"
    assert config(folder, "topics.json", rows) == {"A": {"perm": 6}}
    groups = config(folder, "subscriptionGroup.json", {})
    assert groups == {"g": {"groupName": "g"}}
    value = struct.pack(">q", 13)
    rows = {
        offset(b"reading", b"Live0", 0): value,
        offset(b"reading", b"Live0", -1): struct.pack(">q", -1),
        offset(b"pulled", b"Live0", 0, table=2): value, offset(b"g", b"T", 0): value[:7],
        offset(b"g", b"T", 1) + b"x": value, offset(b"g", b"\xff", 1): value,
        struct.pack(">bhb", 1, 1, 2) + name(b"g"): value,
    }  # fmt: skip
    assert offset(b"reading", b"Live0", 0).hex(" ") == (
        "01 00 01 02 00 07 72 65 61 64 69 6e 67 01 00 05 4c 69 76 65 30 01 00 00 00 00"
    )
    found = config(tmp_path / "rdb", "consumerOffset.json", rows)
    assert found == {"Live0@reading": {"0": 13, "-1": -1}}


# --- An index of keys in RocksDB: which messages a query finds, hour by hour.
T0 = 472_222 * module.HOUR  # an hour's beginning


def row(kind: str, key: str, unique: str, place: int, time: int) -> tuple[bytes, bytes]:
    """docs/formats/rocksdb.md."""
    middle = f"@T@{kind}@{key}@{unique}@" if unique else f"@T@{kind}@{key}@"
    whole = (struct.pack(">q", time // module.HOUR * module.HOUR) + middle.encode()
             + struct.pack(">q", place))  # fmt: skip
    return whole, struct.pack(">q", time)


ROWS = [row("K", "k", "u1", 100, T0), row("U", "u1", "", 100, T0),
        row("T", "tag", "u1", 100, T0), row("K", "k", "u2", 200, T0 + module.HOUR - 1),
        row("K", "k", "u3", 300, T0 + 2 * module.HOUR + 5),
        row("K", "kk", "u4", 400, T0), row("K", "k@x", "u5", 500, T0)]  # fmt: skip


def opened(folder: Path, rows: list[tuple[bytes, bytes]]) -> module.RocksDBIndex:
    made = make(folder / "rocksdbstore", {"default": dict(rows)})
    return module.RocksDBIndex(open_database(Folder(LocalStorage(), str(made))))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[module.RocksDBIndex]:
    made = opened(
        tmp_path_factory.mktemp("store"), [*ROWS, (b"lastOffsetPy", struct.pack(">q", 300))]
    )
    yield made
    made.database.close()


@pytest.mark.parametrize(("key", "places"), [
    ("k", [100, 200, 500, 300]),  # 500: its key goes on with an @
    ("kk", [400]), ("u1", [100]), ("T#tag", [100]), ("tag", []), ("", []), ("u", []),
])  # fmt: skip
def test_a_key_finds_its_messages(index: module.RocksDBIndex, key: str, places: list[int]) -> None:
    assert list(index.places("T", key)) == places
    assert list(index.places("t", key)) == []


@pytest.mark.parametrize(("begin", "end", "places"), [
    (T0, T0, [100, 500]), (T0 + 1, None, [200, 300]),
    (T0 + module.HOUR - 1, T0 + module.HOUR - 1, [200]),
    (T0 + module.HOUR, T0 + 2 * module.HOUR + 4, []),
    (None, T0 + 2 * module.HOUR + 5, [100, 200, 500, 300]), (T0 + 2 * module.HOUR + 6, None, []),
    (None, T0 - 1, []),
])  # fmt: skip
def test_both_ends_of_a_time_belong_to_it(index, begin, end, places) -> None:
    assert list(index.places("T", "k", begin, end)) == places


def test_a_messages_own_row_is_looked_up_by_its_hour_and_what_is_not_there_is_minus_one(
    index, tmp_path
) -> None:
    assert index.has("T", "u1", T0, 100)
    assert index.has("T", "u1", T0 + module.HOUR - 1, 100)
    for topic, key, time, place in (("T", "u1", T0 + module.HOUR, 100), ("T", "u1", T0, 101),
                                    ("T", "u2", T0, 200), ("t", "u1", T0, 100)):  # fmt: skip
        assert not index.has(topic, key, time, place)
    assert (index.last_offset, index.last_timestamp, index.has_rows) == (300, -1, True)
    empty = opened(tmp_path / "empty", [])
    assert (empty.last_offset, empty.has_rows, list(empty.places("T", "k"))) == (-1, False, [])
    empty.database.close()


FAR = (1 << 56) - 1


@pytest.mark.parametrize(("begin", "end", "places"), [
    (None, None, [600, 100, 200, 300, 700]), (None, T0 + 2 * module.HOUR + 5, [600, 100, 200, 300]),
    (T0 + 2 * module.HOUR + 6, None, [700]), (FAR + 1, None, []), (1 << 62, 1 << 63, []),
    (-module.HOUR, 0, []), (0, 1, [600]),
])  # fmt: skip
def test_a_row_of_any_hour_costs_a_few_looks(begin, end, places, tmp_path, monkeypatch) -> None:
    """It may lie 20,015,526,122 hours behind the others, or not on an hour at all."""
    stray = [
        (struct.pack(">q", hour) + b"@T@K@k@u@" + struct.pack(">q", place), struct.pack(">q", hour))
        for hour, place in ((1, 600), (FAR, 700))
    ]
    short = [(b"\0\5", b""), (bytes(8), b"")]
    index = opened(tmp_path, [*ROWS[:6], *stray, *short])
    looks, rows = itertools.count(), index.database.rows

    def counted(family: str, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        assert next(looks) < 30
        return rows(family, start, stop)

    monkeypatch.setattr(index.database, "rows", counted)
    assert list(index.places("T", "k", begin, end)) == places
    index.database.close()


# --- Timers and half messages in RocksDB, row by row.
def long(value: int) -> bytes:
    return value.to_bytes(8, "big")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rocksdbstore"


def made(folder: Path, rows: dict[str, Rows]) -> Database:
    every = {module.TIMERS: {}, module.HALVES: {}, **rows}
    return open_database(Folder(LocalStorage(), str(make(folder, every))))


def test_timers_wait_from_the_time_on_that_was_read(folder: Path) -> None:
    timer = {long(due) + b"key": (100).to_bytes(4, "big") + long(place)
             for due, place in ((4, 400), (5, 300), (6, 100))}  # fmt: skip
    timer |= {module.READ_POSITION: long(7), module.READ_TIME: long(5), long(9) + b"odd": b"x"}
    with closing(made(folder, {module.TIMERS: timer})) as database:
        found = module.read_timers(database)
        assert isinstance(found, module.Timers)
        assert found[:2] == (7, 5)
        assert found.waiting.tolist() == [100, 300]
        assert found.waits(np.array([100, 200, 300, 400])).tolist() == [True, False, True, False]


def test_timers_that_no_broker_has_had_are_none(folder: Path) -> None:
    with closing(made(folder, {module.HALVES: {long(1) + b"@T@k": bytes(8)}})) as database:
        assert module.read_timers(database) is None


def test_half_messages_are_known_by_their_places(folder: Path) -> None:
    row = (3).to_bytes(4, "big") + (200).to_bytes(4, "big")
    half = {long(5) + b"@T@key": row, long(9) + b"@T@k": b"odd", module.LAST_OFFSET: long(70)}
    with closing(made(folder, {module.HALVES: half})) as database:
        assert module.read_half_rows(database) == module.HalfRows({5: 3}, 70)


def test_without_its_row_what_is_there_tells_how_far_a_broker_was(folder: Path) -> None:
    with closing(made(folder, {module.HALVES: {long(5) + b"@T@key": bytes(8)}})) as database:
        assert module.read_half_rows(database) == module.HalfRows({5: 0}, 5)
