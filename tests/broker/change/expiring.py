"""A store a week old, and what `expire` does to it."""

import os
import shutil
from pathlib import Path
from typing import Any

from reput.jobs.expire import expire
from reput.jobs.in_place.expire import Expired
from tests import golden_stores
from tests.in_process import as_text

HOUR = 3_600_000
NOW = 1_800_000_000_000


def a_store(to: Path) -> Path:
    """A store of nine segments with its queues and index, all of it a week old."""
    golden = golden_stores.unpack("mixed_5.3.3")
    store = golden_stores.copy_input(golden, to)
    for name in ("consumequeue", "index"):
        shutil.copytree(golden.expect / name, store / name)
    for path in (store / "commitlog").iterdir():
        os.utime(path, ns=((NOW - 200 * HOUR) * 1_000_000,) * 2)
    return store


def run(store: Path, **options: Any) -> Expired:
    golden = golden_stores.unpack("mixed_5.3.3")
    given = {"any_hour": True, "now": NOW, "used": lambda path: 0.1, "even_pending": True,
             "even_delayed": True, "rocketmq": "5.3.3"} | options  # fmt: skip
    return expire(str(store), settings=as_text(golden.settings), **given)
