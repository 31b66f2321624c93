"""Both rebuild the same store; the first difference between the bytes, in words."""

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from reput.jobs.rebuild import rebuild
from tests.in_process import as_text
from tests.reference.compare import derived_files
from tests.rocketmq.case import Case, make
from tests.rocketmq.driver import Driver

CHUNK = 1 << 22


class NoVerdictError(RuntimeError):
    """There is nothing to derive, or RocketMQ fails on the store by a bug of its own.

    Of those is known: a queue whose newest file is still empty, because the first entry that
    wanted it was then skipped, makes ConsumeQueue.correctMinOffset seek to -20. By then all is
    dispatched, so that files which are the same do count."""


class Reput:
    """`reput.jobs.rebuild.rebuild` from this process, on one engine or session for all cases."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def rebuild(
        self, version: str, settings: Mapping[str, object], store: Path, output: Path
    ) -> None:
        rebuild(self.engine, str(store), str(output), rocketmq=version, settings=as_text(settings),
                on_damage="truncate")  # fmt: skip


class Drivers:
    """One JVM a version for many cases, renewed now and then: each store leaves maps behind."""

    JOBS = 60

    def __init__(self) -> None:
        self._drivers: dict[str, Driver] = {}
        self._jobs: dict[str, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def get(self, version: str) -> Driver:
        self._jobs[version] = self._jobs.get(version, 0) + 1
        if version not in self._drivers:
            self._drivers[version] = self._stack.enter_context(Driver(version))
        elif self._jobs[version] % self.JOBS == 0:
            self._drivers[version].kill()
        return self._drivers[version]


def judge(case: Case, folder: Path, drivers: Drivers, reput: Reput) -> str | None:
    """Make the store in `folder`, have both derive from it, compare; None where all agree."""
    store, theirs, output = folder / "store", folder / "theirs", folder / "ours"
    driver = drivers.get(case.version)
    make(case, store, driver)
    if not any((store / "commitlog").iterdir()):
        raise NoVerdictError(f"{case}: killed before the first segment was there")
    copy(store, theirs)
    topics, pace = case.topic_attributes, case.pace
    answer = driver.derive(theirs, case.settings, topics, case.mode, pace=pace, may_refuse=True)
    reput.rebuild(case.version, case.settings, store, output)
    found = difference(output, theirs)
    if found and answer["dispatched"] > answer.get("dispatched_by_recovery", 0) > 0:
        # 4.9.7 goes on, after a crash's recovery, at the end of what the queues hold: what comes
        # after it and is in no queue (half messages) is dispatched again, and indexed twice. The
        # running dispatch after a clean stop takes each message once.
        clear(theirs)
        copy(store, theirs)
        driver.derive(theirs, case.settings, topics, "clean", pace=pace)
        found = difference(output, theirs)
    if found and answer.get("refused"):
        raise NoVerdictError(f"{case}: RocketMQ itself cannot load this store; {found}")
    return found


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-r", "--sparse=always", str(source), str(target)], check=True)


def empty_files(store: Path) -> set[str]:
    """The names of files without a length, as a kill leaves: RocketMQ takes them from 5.1.3 on."""
    files = (path for path in store.rglob("*") if path.is_file())
    return {path.name for path in files if not path.stat().st_size} - {"abort", "lock"}


def clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def difference(ours: Path, theirs: Path) -> str | None:
    mine, right = dict(derived_files(ours)), dict(derived_files(theirs))
    for name in sorted(mine.keys() | right.keys()):
        if name not in mine:
            return f"{name}: missing ({len(right.keys() - mine.keys())} files are)"
        if name not in right:
            return f"{name}: RocketMQ has no such file ({len(mine.keys() - right.keys())} more)"
        if found := _file_difference(mine[name], right[name]):
            return f"{name}: {found}"
    return None


def _file_difference(mine: Path, right: Path) -> str | None:
    if mine.stat().st_size != right.stat().st_size:
        return f"{mine.stat().st_size} bytes, RocketMQ's has {right.stat().st_size}"
    with mine.open("rb") as a, right.open("rb") as b:
        at = 0
        while chunk := a.read(CHUNK):
            other = b.read(CHUNK)
            if chunk != other:
                i = next(i for i in range(len(chunk)) if chunk[i] != other[i])
                low = max(0, i // 20 * 20)
                return (f"byte {at + i}: {chunk[low : low + 24].hex()}, "
                        f"RocketMQ's {other[low : low + 24].hex()}")  # fmt: skip
            at += len(chunk)
    return None
