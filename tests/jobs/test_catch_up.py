"""A catch-up, whatever the steps, writes the bytes that a full rebuild and RocketMQ write."""

import random
import shutil
from pathlib import Path

import pytest

from reput.jobs.catch_up import catch_up
from reput.jobs.engine.catch_up_report import CaughtUp
from tests import golden_stores
from tests.golden_stores import GoldenStore
from tests.in_process import as_text
from tests.rocketmq.judge import difference
from tests.writer.stores import stored_records

STORES = [
    name
    for name in golden_stores.names()
    if not name.startswith(("default_", "broker_", "middle_", "many_"))
]


def record_ends(store: GoldenStore) -> list[int]:
    return [r.physical_offset + r.size for r in stored_records(store.input / "commitlog")]


def grown(store: GoldenStore, to: Path, end: int) -> None:
    """The store's log as it was when it ended at `end`."""
    (to / "commitlog").mkdir(parents=True, exist_ok=True)
    for path in sorted((store.input / "commitlog").iterdir()):
        start, data = int(path.name), path.read_bytes()
        kept = max(0, min(end - start, len(data)))
        if kept or start <= end:
            (to / "commitlog" / path.name).write_bytes(data[:kept].ljust(len(data), b"\0"))
    if (store.input / "config").is_dir():
        shutil.copytree(store.input / "config", to / "config", dirs_exist_ok=True)


def caught_up(store: GoldenStore, to: Path) -> CaughtUp:
    return catch_up(str(to), rocketmq=store.version, settings=as_text(store.settings))


@pytest.mark.parametrize("name", STORES)
def test_a_golden_store_in_steps(name: str, tmp_path: Path) -> None:
    store = golden_stores.unpack(name)
    ends = record_ends(store)
    rng = random.Random(name)
    to = tmp_path / "store"
    for end in sorted(rng.sample(ends, min(4, len(ends)))):
        grown(store, to, end)
        about = caught_up(store, to)
        assert about.done
        again = caught_up(store, to)
        assert not again.needed
    shutil.rmtree(to / "commitlog")
    shutil.copytree(store.input / "commitlog", to / "commitlog")
    caught_up(store, to)
    assert difference(to, store.expect) is None
