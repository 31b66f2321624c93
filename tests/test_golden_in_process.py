"""RocketMQ's own bytes without Spark: what `make mutants` breaks rules against, one by one."""

from pathlib import Path

import pytest

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE, rebuild
from tests import golden_stores
from tests.in_process import Session, as_text
from tests.rocketmq.judge import difference

STORES = [name for name in golden_stores.names() if not name.startswith(("default_", "broker_"))]


# three slot ranges an index file, or one, as where files are many; and queues in shares then
CASES = [(name, 3) for name in STORES] + [(n, 1) for n in STORES if n.startswith("mixed_")]


@pytest.mark.parametrize(("name", "ranges"), CASES)
def test_a_golden_store_in_this_process(name: str, ranges: int, tmp_path: Path) -> None:
    store = golden_stores.unpack(name)
    rebuild(
        Session(),
        str(store.input),
        str(tmp_path / "out"),
        rocketmq=store.version,
        settings=as_text(store.settings),
        on_damage=TRUNCATE,
        cut=Cut(100_000, ranges, 3 if ranges > 1 else None),
    )
    assert difference(tmp_path / "out", store.expect) is None
