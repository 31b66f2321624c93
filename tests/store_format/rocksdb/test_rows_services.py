"""Timers and half messages in RocksDB, row by row."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import rocksdict

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import Database, open_database
from reput.store_format.rocksdb.rows import (
    HALVES,
    LAST_OFFSET,
    READ_POSITION,
    READ_TIME,
    TIMERS,
    HalfRows,
    Timers,
    read_half_rows,
    read_timers,
)

Rows = dict[str, dict[bytes, bytes]]


def long(value: int) -> bytes:
    return value.to_bytes(8, "big")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "rocksdbstore"


def made(folder: Path, rows: Rows) -> Database:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    families = dict.fromkeys((TIMERS, HALVES), options)
    with rocksdict.Rdict(str(folder), options, families) as database:
        for family, some in rows.items():
            for key, value in some.items():
                database.get_column_family(family)[key] = value
    return open_database(Folder(LocalStorage(), str(folder)))


def test_timers_wait_from_the_time_on_that_was_read(folder: Path) -> None:
    timer = {long(due) + b"key": (100).to_bytes(4, "big") + long(place)
             for due, place in ((4, 400), (5, 300), (6, 100))}  # fmt: skip
    timer |= {READ_POSITION: long(7), READ_TIME: long(5), long(9) + b"odd": b"x"}
    with closing(made(folder, {TIMERS: timer})) as database:
        found = read_timers(database)
        assert isinstance(found, Timers)
        assert found[:2] == (7, 5)
        assert found.waiting.tolist() == [100, 300]
        assert [found.waits(place) for place in (100, 200, 300, 400)] == [True, False, True, False]


def test_timers_that_no_broker_has_had_are_none(folder: Path) -> None:
    with closing(made(folder, {HALVES: {long(1) + b"@T@k": bytes(8)}})) as database:
        assert read_timers(database) is None


def test_half_messages_are_known_by_their_places(folder: Path) -> None:
    row = (3).to_bytes(4, "big") + (200).to_bytes(4, "big")
    half = {long(5) + b"@T@key": row, long(9) + b"@T@k": b"odd", LAST_OFFSET: long(70)}
    with closing(made(folder, {HALVES: half})) as database:
        assert read_half_rows(database) == HalfRows({5: 3}, 70)


def test_without_its_row_what_is_there_tells_how_far_a_broker_was(folder: Path) -> None:
    with closing(made(folder, {HALVES: {long(5) + b"@T@key": bytes(8)}})) as database:
        assert read_half_rows(database) == HalfRows({5: 0}, 5)
