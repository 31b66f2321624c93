"""A 5.5.0 broker with half messages in RocksDB indexes its last message again at each start.

tests/rocketmq/chains.py has kept the store of one that was started five times.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.store_format.discover.purpose import CHECK, LOOK
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.files.local import LocalStorage
from tests.chains.kept import FIRST_ENTRY, STORES, index_files
from tests.quiet.said import run_check, run_verify, said
from tests.unpacking import unpack as unpack_archive

ENTRY = 20


@pytest.fixture
def store(tmp_path: Path) -> Path:
    unpack_archive(STORES / "again_5.5.0.tar.xz", tmp_path)
    return tmp_path / "again_5.5.0"


def test_nothing_is_said_of_it(store: Path) -> None:
    assert said(store, None, {}) == []  # type: ignore[arg-type]
    discovered = discover(StoreAt(LocalStorage(), str(store)), CHECK)
    times = [extra // 4 for _, extra in discovered.again]  # UNIQ_KEY, two keys, a tag
    assert times == [2, 1]  # two starts behind the second half message, one behind the third
    # who does not read all of it looks at what each file begins with, and finds these too
    assert discover(StoreAt(LocalStorage(), str(store)), LOOK).again == discovered.again


def test_an_entry_of_a_message_that_is_there_again_is_compared(store: Path) -> None:
    (place, _), *_ = discover(StoreAt(LocalStorage(), str(store)), CHECK).again
    for path in index_files(store):
        raw = bytearray(path.read_bytes())
        for at in range(FIRST_ENTRY - ENTRY, len(raw), ENTRY):
            if int.from_bytes(raw[at + 4 : at + 12]) == place:
                raw[at + 2 * ENTRY + 1] ^= 4
                path.write_bytes(raw)
                assert not run_check(store, None, {}).sound  # type: ignore[arg-type]
                assert not run_verify(store, None, {}).same  # type: ignore[arg-type]
                return
    raise AssertionError("the message is not in the index")
