"""What is put before the judge: reput itself, and the slow reference."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from reput.jobs.engines.local import local_engine
from reput.jobs.engines.session import local_session
from reput.jobs.rebuild import rebuild
from tests.reference import derive
from tests.rocketmq.case import Case
from tests.rocketmq.judge import Rebuild


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
    """`reput.jobs.rebuild.rebuild` from this process, on one engine or session for all cases."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __call__(self, case: Case, store: Path, output: Path) -> None:
        self.rebuild(case.version, case.settings, store, output)

    def rebuild(
        self, version: str, settings: Mapping[str, object], store: Path, output: Path
    ) -> None:
        rebuild(
            self.engine,
            str(store),
            str(output),
            rocketmq=version,
            settings={name: _text(value) for name, value in settings.items()},
            on_damage="truncate",
        )


def _text(value: object) -> str:
    """As a broker's properties file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def engine(name: str) -> Iterator[Rebuild]:
    if name == "reference":
        yield reference
    elif name == "local":
        with local_engine(2) as here:
            yield Reput(here)
    else:
        with local_session("local[2]") as spark:
            yield Reput(spark)
