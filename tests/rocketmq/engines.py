"""What is put before the judge: reput itself, and the slow reference."""

from __future__ import annotations

import mmap
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.reference import derive
from tests.rocketmq.case import Case


def reference(case: Case, store: Path, output: Path) -> None:
    with ExitStack() as stack:
        segments: dict[int, Any] = {}
        for path in sorted((store / "commitlog").iterdir()):
            file = stack.enter_context(path.open("rb"))
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            segments[int(path.name)] = stack.enter_context(mapped)
        derivation = derive(segments, case.settings, case.version, case.topic_attributes)
    for name, (content, length) in derivation.files.items():
        path = output / _padded(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            out.write(content)
            out.truncate(length)


def _padded(name: str) -> str:
    """`index/7` sorts before `index/10` only with leading zeros."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/{int(file):020d}" if folder == "index" else name


class Reput:
    """`jobs.rebuild.rebuild` in this process, on one SparkSession for all cases."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def __call__(self, case: Case, store: Path, output: Path) -> None:
        from jobs.rebuild import rebuild

        rebuild(
            self.spark,
            store=str(store),
            output=str(output),
            rocketmq=case.version,
            settings=dict(case.settings),
            on_damage="truncate",
        )
