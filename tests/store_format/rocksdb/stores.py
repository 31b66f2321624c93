"""Small stores of real brokers with data in RocksDB (python -m tests.rocketmq.rocksdb_stores)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from tests.unpacking import unpack as unpack_archive

ARCHIVES = Path(__file__).parent / "stores"
SUFFIX = ".tar.xz"
# kind_release: what is in RocksDB. alone: queues, and config of v1; index: keys too, and no index
# files; double: queues in files as well; v2, single: config of these kinds.
ALONE = ("alone_5.2.0", "alone_5.3.3", "alone_5.5.0")
INDEX = ("index_5.4.0", "index_5.5.1")
DOUBLE = ("double_5.3.3", "double_5.4.0")
CONFIG = ("v2_5.4.0", "single_5.5.0")
NAMES = (*ALONE, *INDEX, *DOUBLE, *CONFIG)


def unpack(name: str, folder: Path) -> tuple[Path, list[list[Any]]]:
    """The store, and what a client sent: [topic, queue, position, UNIQ_KEY, message id]."""
    unpack_archive(ARCHIVES / f"{name}{SUFFIX}", folder)
    sent: list[list[Any]] = json.loads((folder / "sent.json").read_text())
    return folder / "store", sent


def make(folder: Path, families: Mapping[str, Mapping[bytes, bytes]]) -> Path:
    """A database with these rows of its families; its folder."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    names = dict.fromkeys({"default", *families}, options)
    with rocksdict.Rdict(str(folder), options, names) as database:
        for family, rows in families.items():
            of = database.get_column_family(family)
            for key, value in rows.items():
                of[key] = value
    return folder


def quick(*names: str) -> list[Any]:
    """All stores as parameters of a test, those not named here as long ones."""
    return [pytest.param(n, marks=() if n in names else (pytest.mark.long,)) for n in NAMES]
