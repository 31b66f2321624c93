"""Runs due tests within a budget: a pytest for some tests of one file, one a core at a time."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.ledger import budget, digests, records
from tests.ledger.records import Run, total

FOLDER = ".ledger"  # below the root, not committed
BATCH_SECONDS = 600.0  # of one pytest, and no more than a tenth of what is left
START_SECONDS = 8.0  # until a pytest's first test begins


def collect(mark: str, env: dict[str, str] | None = None, root: Path = digests.ROOT) -> list[str]:
    """The ids of all tests that have a mark."""
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", mark]
    env = {**os.environ, **(env or {})}
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 5):
        sys.exit(f"tests could not be collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return [line for line in done.stdout.splitlines() if "::" in line]


class Batches:
    """The due tests in their order, taken file by file, each time as many as the time allows."""

    def __init__(self, tests: Iterable[Run], until: float, root: Path = digests.ROOT) -> None:
        self._left, self._until, self._root = list(tests), until, root
        self._number = self.red = 0
        self.verdicts: dict[str, str] = {}  # of what ran

    def next(self) -> budget.Job | None:
        """The pytest for the first test that fits, and for others of its file."""
        left = self._until - time.time() - START_SECONDS
        first = next((each for each in self._left if each.seconds <= left), None)
        if first is None:
            return None
        room = max(first.seconds, min(BATCH_SECONDS, left / 10))
        chosen = [first]
        for each in self._left:
            if each.file == first.file and each != first and total([*chosen, each]) <= room:
                chosen.append(each)
        self._left = [each for each in self._left if each not in chosen]
        self._number += 1
        lines = self._root / FOLDER / f"batch-{os.getpid()}-{self._number}.tsv"
        log = self._root / FOLDER / "logs" / f"{lines.stem}.txt"
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        words += ["--ledger", str(lines), *(each.test for each in chosen)]
        digest = digests.Tree(self._root).digest(first.file)  # as files are before the first test
        commit = digests.commit(self._root)

        def done(code: int | None) -> None:
            begun = [*records.read(lines)]
            runs = [run for run in begun if run.verdict != records.RUNNING]
            if begun and (run := begun[-1]).verdict == records.RUNNING:  # it ended with its process
                took = time.time() - lines.stat().st_mtime
                hung = 0 < run.seconds < took  # its watchdog has ended it
                verdict = "cut" if code is None else "hang" if hung else "lost"
                runs.append(run._replace(verdict=verdict, seconds=took))
            lines.unlink(missing_ok=True)
            runs = [run._replace(commit=commit, digest=digest) for run in runs]
            records.keep(runs, (), self._root)
            self._ended(chosen, {run.test: run.verdict for run in runs}, log, code)

        return budget.Job(words, log, done, folder=self._root)

    def _ended(self, chosen: list[Run], ran: dict[str, str], log: Path, code: int | None) -> None:
        self.verdicts |= ran
        if ran:  # else they would be taken again for ever: they cannot be collected
            self._left = [*(each for each in chosen if each.test not in ran), *self._left]
        counts = [f"{count} {verdict}" for verdict, count in Counter(ran.values()).items()]
        said = ", ".join(counts) or f"pytest: {code}, {log}"
        print(f"{time.strftime('%H:%M:%S')} {chosen[0].file}: {said}", flush=True)
        bad = [test for test in ran if ran[test] in records.RED]
        for test in bad:
            print(f"  {ran[test]}: {test}\n  {log}", flush=True)
        self.red += len(bad) or code not in (0, 1, 2, None)
        if not bad and code in (0, None):
            log.unlink(missing_ok=True)
