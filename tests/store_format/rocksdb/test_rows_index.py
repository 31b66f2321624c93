"""An index of keys in RocksDB: which messages a query finds, hour by hour."""

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import open_database
from reput.store_format.rocksdb.rows import HOUR, RocksDBIndex

T0 = 472_222 * HOUR  # an hour's beginning


def row(kind: str, key: str, unique: str, place: int, time: int) -> tuple[bytes, bytes]:
    """docs/formats/rocksdb.md."""
    middle = f"@T@{kind}@{key}@{unique}@" if unique else f"@T@{kind}@{key}@"
    whole = struct.pack(">q", time // HOUR * HOUR) + middle.encode() + struct.pack(">q", place)
    return whole, struct.pack(">q", time)


ROWS = [
    row("K", "k", "u1", 100, T0), row("U", "u1", "", 100, T0), row("T", "tag", "u1", 100, T0),
    row("K", "k", "u2", 200, T0 + HOUR - 1), row("K", "k", "u3", 300, T0 + 2 * HOUR + 5),
    row("K", "kk", "u4", 400, T0), row("K", "k@x", "u5", 500, T0),
]  # fmt: skip


def opened(folder: Path, rows: list[tuple[bytes, bytes]]) -> RocksDBIndex:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    database = rocksdict.Rdict(str(folder / "rocksdbstore"), options)
    for key, value in rows:
        database[key] = value
    database.close()
    return RocksDBIndex(open_database(Folder(LocalStorage(), str(folder / "rocksdbstore"))))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocksDBIndex]:
    made = opened(
        tmp_path_factory.mktemp("store"), [*ROWS, (b"lastOffsetPy", struct.pack(">q", 300))]
    )
    yield made
    made.database.close()


@pytest.mark.parametrize(
    ("key", "places"),
    [
        ("k", [100, 200, 500, 300]),  # 500: its key goes on with an @
        ("kk", [400]),
        ("u1", [100]),
        ("T#tag", [100]),
        ("tag", []),
        ("", []),
        ("u", []),
    ],
)
def test_a_key_finds_its_messages(index: RocksDBIndex, key: str, places: list[int]) -> None:
    assert list(index.places("T", key)) == places
    assert list(index.places("t", key)) == []


@pytest.mark.parametrize(
    ("begin", "end", "places"),
    [
        (T0, T0, [100, 500]),
        (T0 + 1, None, [200, 300]),
        (T0 + HOUR - 1, T0 + HOUR - 1, [200]),
        (T0 + HOUR, T0 + 2 * HOUR + 4, []),
        (None, T0 + 2 * HOUR + 5, [100, 200, 500, 300]),
        (T0 + 2 * HOUR + 6, None, []),
        (None, T0 - 1, []),
    ],
)
def test_both_ends_of_a_time_belong_to_it(
    index: RocksDBIndex, begin: int | None, end: int | None, places: list[int]
) -> None:
    assert list(index.places("T", "k", begin, end)) == places


def test_a_messages_own_row_is_looked_up_by_its_hour(index: RocksDBIndex) -> None:
    assert index.has("T", "u1", T0, 100)
    assert index.has("T", "u1", T0 + HOUR - 1, 100)
    for topic, key, time, place in (
        ("T", "u1", T0 + HOUR, 100),
        ("T", "u1", T0, 101),
        ("T", "u2", T0, 200),
        ("t", "u1", T0, 100),
    ):
        assert not index.has(topic, key, time, place)


def test_what_is_not_there_is_minus_one(index: RocksDBIndex, tmp_path: Path) -> None:
    assert (index.last_offset, index.last_timestamp, index.has_rows) == (300, -1, True)
    empty = opened(tmp_path / "empty", [])
    assert (empty.last_offset, empty.has_rows, list(empty.places("T", "k"))) == (-1, False, [])
    empty.database.close()


FAR = (1 << 56) - 1


@pytest.mark.parametrize(
    ("begin", "end", "places"),
    [
        (None, None, [600, 100, 200, 300, 700]),
        (None, T0 + 2 * HOUR + 5, [600, 100, 200, 300]),
        (T0 + 2 * HOUR + 6, None, [700]),
        (FAR + 1, None, []),
        (1 << 62, 1 << 63, []),
        (-HOUR, 0, []),
        (0, 1, [600]),
    ],
)
def test_a_row_of_any_hour_costs_a_few_looks(
    begin: int | None, end: int | None, places: list[int], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
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
