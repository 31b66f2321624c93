"""Config that brokers keep in RocksDB, of all three kinds, and rows that cannot be read."""

import struct
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import open_database
from reput.store_format.rocksdb.rows import config_rows

Rows = dict[bytes, bytes]


def config(folder: Path, file: str, rows: Rows, family: str = "default") -> dict[str, Any]:
    """What is read of a database with these rows in one family."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    database = rocksdict.Rdict(str(folder), options)
    of = database
    if family != "default":
        of = database.create_column_family(family, rocksdict.Options(raw_mode=True))
    for key, value in rows.items():
        of[key] = value
    database.close()
    opened = open_database(Folder(LocalStorage(), str(folder)))
    try:
        return config_rows(opened, file)
    finally:
        opened.close()


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


def test_offsets_are_the_table_in_their_json(tmp_path: Path) -> None:
    rows = {b"T@g": b'{"offsetTable":{0:13,1:2}}', b"none": b"{}", b"list": b"[1]", b"n": b"5"}
    found = config(tmp_path / "consumerOffsets", "consumerOffset.json", rows)
    assert found == {"T@g": {"0": 13, "1": 2}}


def test_v2_has_all_names_in_one_table(tmp_path: Path) -> None:
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


def test_v2_has_an_offset_a_row(tmp_path: Path) -> None:
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
