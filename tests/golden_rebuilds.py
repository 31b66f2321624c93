"""A golden store rebuilt in this process, and compared with RocketMQ's own bytes."""

from pathlib import Path

from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE, rebuild
from tests import golden_stores
from tests.in_process import Session, as_text
from tests.rocketmq.judge import difference


def rebuild_difference(name: str, ranges: int, folder: Path) -> str | None:
    """The first difference; None where all is the same. ranges: of slots, an index file."""
    store = golden_stores.unpack(name)
    rebuild(
        Session(2 if ranges > 1 else 0),  # of seed 2 runs carry their bytes
        str(store.input),
        str(folder / "out"),
        rocketmq=store.version,
        settings=as_text(store.settings),
        on_damage=TRUNCATE,
        cut=Cut(100_000, ranges, 3 if ranges > 1 else None),
    )
    return difference(folder / "out", store.expect)
