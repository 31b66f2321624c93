"""Brokers live every fate of a message; what is reported about their stores is what was done."""

from pathlib import Path

import pytest

from tests.rocketmq.driver import Driver
from tests.rocketmq.fates import again, in_rocksdb, live, skipped
from tests.store_format.fate.judge import (
    compare_done,
    compare_in_rocksdb,
    compare_skipped,
    given_back,
)

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_what_was_done_is_reported(version: str, tmp_path: Path) -> None:
    with Driver(version) as client:
        done = live(version, tmp_path / "store", client)
    compare_done(tmp_path / "store", vars(done))


def test_what_rocksdb_tells_a_broker_of_is_reported(tmp_path: Path) -> None:
    version, store = "5.5.1", tmp_path / "store"
    with Driver(version) as client:
        done = in_rocksdb(version, store, client)
        compare_in_rocksdb(store, done)
        before, will_be = given_back(store)
        asked = again(version, store, client)
    after, _ = given_back(store)
    # the next broker does what was reported: it asks about those, and delivers these
    assert asked == {key for key, state in done["transactions"].items() if state == "asked"}
    assert {key for key in before if after[key] > before[key]} == will_be


def test_what_is_due_while_a_broker_refuses_puts(tmp_path) -> None:
    """From 5.0.0 to 5.3.2 it goes on past a delivery that failed (#9248)."""
    with Driver("5.2.0") as client:
        done = skipped("5.2.0", tmp_path / "store", client)
    states = {"before": "delivered", "meanwhile": "never delivered", "after": "delivered"}
    compare_skipped(tmp_path / "store", {"delays": done}, states)
