"""Runs due tests within a budget: a pytest for some tests of one file, one a core at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.ledger import budget, records
from tests.ledger.due import Due
from tests.ledger.sources import ROOT

BATCH_SECONDS = 600.0  # of one pytest, and no more than a tenth of what is left, but a minute
_UNKNOWN_SECONDS = 5.0  # of a test that was never run: a batch ends by the clock, so it may be few
START_SECONDS = 8.0  # until a pytest's first test begins
_LOOK_SECONDS = 1.0
LATE_SECONDS = 60.0  # a test's own limit has failed to end it for so long: its process hangs


def collect(
    words: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """All tests, with their marks `long` and `explore`."""
    with tempfile.TemporaryDirectory(prefix="reput-ledger-") as folder:
        got = Path(folder) / "listed.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--ledger-list"]
        done = subprocess.run(
            [*command, str(got), *words], cwd=ROOT, capture_output=True, text=True, check=False,
            env={**os.environ, **(env or {})},
        )  # fmt: skip
        if not got.exists() or done.returncode not in (0, 5):
            sys.exit(f"tests could not be collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        found: list[dict[str, Any]] = json.loads(got.read_text("utf-8"))
    return found


class Batches:
    """The due tests in their order, taken file by file, each time as many as the time allows."""

    def __init__(self, tests: Iterable[Due], until: float, root: Path = ROOT) -> None:
        self._left = list(tests)
        self._order = {each.test: number for number, each in enumerate(self._left)}
        self._until = until
        self._root, self._folder = root, root / records.FOLDER.name
        self._lists = tempfile.TemporaryDirectory(prefix="reput-ledger-")
        self._number = 0
        self._look_at = 0.0
        self.red = 0
        self.begun: set[str] = set()

    def next(self) -> budget.Job | None:
        """The pytest for the first test that fits, and for others of its file."""
        time_left = self._until - time.time() - START_SECONDS
        first = next((each for each in self._left if each.seconds <= time_left), None)
        if first is None:
            return None
        fits = [each for each in self._left if each.seconds <= time_left]
        room = min(BATCH_SECONDS, max(60.0, time_left / 10))
        chosen, taken = [], 0.0
        for each in fits:
            if each.file == first.file and taken <= 3 * room:  # the rest is for another core
                chosen.append(each)
                taken += each.seconds if each.run else _UNKNOWN_SECONDS
        gone = {each.test for each in chosen}
        self._left = [each for each in self._left if each.test not in gone]
        pause = time.time() + START_SECONDS + room
        return self._job(first.file, chosen, pause)

    def _job(self, file: str, chosen: list[Due], pause: float) -> budget.Job:
        self._number += 1
        shards = self._folder / "running" / f"{time.time():.0f}-{self._number}"
        only = Path(self._lists.name) / f"{self._number}.tsv"
        only.write_text("".join(f"{each.seconds}\t{each.test}\n" for each in chosen), "utf-8")
        log = self._folder / "logs" / f"{file.replace('/', '.')}.txt"
        words = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
            "--ledger", str(shards), "--ledger-only", str(only),
            "--ledger-until", f"{self._until:.0f}", "--ledger-pause", f"{pause:.0f}", file,
        ]  # fmt: skip
        return budget.Job(
            words, log, lambda code: self._done(file, chosen, shards, log, code),
            hangs=lambda: self._hangs(shards), folder=self._root,
        )  # fmt: skip

    def _hangs(self, shards: Path) -> bool:
        """Whether a test has gone far past its own limit; then that is its verdict."""
        if time.time() < self._look_at:
            return False
        self._look_at = time.time() + _LOOK_SECONDS
        for shard in records.shards(shards):
            for test, at, limit in records.started(shard):
                if limit and time.time() > at + limit + LATE_SECONDS:
                    killed(shard, "hang")
                    print(f"hangs, killed: {test}", flush=True)
                    return True
        return False

    def _done(
        self, file: str, chosen: list[Due], shards: Path, log: Path, code: int | None
    ) -> None:
        runs: list[records.Run] = []
        for shard in records.shards(shards):
            if code is None and not records.ended(shard):
                killed(shard, "cut")
            runs += records.read_shard(shard)
            shard.rename(self._folder / shard.name)
        if shards.exists():
            shards.rmdir()
        begun = {run.test for run in runs}
        self.begun |= begun
        if begun:  # else they would be taken again for ever: they cannot be collected
            self._left += [each for each in chosen if each.test not in begun]
            self._left.sort(key=lambda each: self._order[each.test])
        print(got(file, runs, code, log), flush=True)
        bad = [run for run in runs if run.verdict in records.RED]
        self.red += len(bad) or (code not in (0, 1, 2, 5, None))
        if not bad and code in (0, 5):
            log.unlink(missing_ok=True)


def killed(shard: Path, verdict: str) -> None:
    with shard.open("a") as file:
        file.write(json.dumps({"killed": verdict, "at": time.time()}) + "\n")


def got(file: str, runs: list[records.Run], code: int | None, log: Path) -> str:
    """What became of a batch: a line, and one for each test that is red."""
    counts = {v: sum(run.verdict == v for run in runs) for v in sorted({r.verdict for r in runs})}
    parts = [f"{count} {verdict}" for verdict, count in counts.items()] or [f"pytest: {code}"]
    seconds = budget.text(sum(run.seconds for run in runs))
    lines = [f"{time.strftime('%H:%M:%S')} {file}: {', '.join(parts)}, {seconds}"]
    bad = [run for run in runs if run.verdict in records.RED]
    lines += [f"  {run.verdict}: {run.test}: {run.why}" for run in bad]
    if bad:
        lines.append(f"  {log}")
    return "\n".join(lines)


def run(tests: Iterable[Due], end: float, cores: int) -> tuple[Batches, bool]:
    """Run tests in their order until that time since 1970; False if ctrl-c ended it."""
    until = end - budget.GRACE_SECONDS
    batches = Batches(tests, until)
    return batches, budget.run_all(batches.next, until, cores)
