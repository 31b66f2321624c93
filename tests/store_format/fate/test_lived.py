"""What is reported about stores that real brokers wrote is what was done there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store_format.fate.judge import compare_done, compare_in_rocksdb, compare_skipped
from tests.store_format.fate.stores import IN_ROCKSDB, LIVED, SKIPPED, unpack


@pytest.mark.parametrize("name", LIVED)
def test_what_was_done_is_reported(name: str, tmp_path: Path) -> None:
    store, done = unpack(name, tmp_path)
    compare_done(store, done)


def test_what_a_broker_skipped_is_reported(tmp_path: Path) -> None:
    store, done = unpack(SKIPPED, tmp_path)
    compare_skipped(store, done, {"before": "delivered", "meanwhile": "never delivered",
                                  "after": "delivered"})  # fmt: skip


def test_half_messages_that_rocksdb_tells_of_are_known(tmp_path: Path) -> None:
    store, done = unpack(IN_ROCKSDB, tmp_path)
    compare_in_rocksdb(store, done["transactions"])
