"""RocketMQ's own bytes without Spark: what `make mutants` breaks rules against, one by one."""

from pathlib import Path

import pytest

from tests import golden_stores
from tests.golden_rebuilds import rebuild_difference

STORES = [name for name in golden_stores.names() if not name.startswith(("default_", "broker_"))]


# three slot ranges an index file, or one, as where files are many; and queues in shares then
CASES = [(name, 3) for name in STORES] + [(n, 1) for n in STORES if n == "mixed_5.3.3"]


@pytest.mark.parametrize(("name", "ranges"), CASES)
def test_a_golden_store_in_this_process(name: str, ranges: int, tmp_path: Path) -> None:
    assert rebuild_difference(name, ranges, tmp_path) is None
