"""Goes round the tests that explore (the mark `explore`), each time with a seed that is new.

A failure is a line in tests/ledger/failures.tsv: when, on which commit, the seed, the test. The
line that repeats it is printed. It becomes a fixed test so: a seed is added to the test's own
(`seeds(...)` in its file), an example that hypothesis shows becomes its `@example`, and a fuzzer's
crash lies in tests/fuzz/corpus already. explored.tsv: the rounds and seconds of each, and the last.
"""

from __future__ import annotations

import random
import re
import sys
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.ledger import batches, budget, records, sources

FAILURES = Path(__file__).parent / "failures.tsv"
EXPLORED = Path(__file__).parent / "explored.tsv"
ROUND_SECONDS = 90.0  # what a round of a test is taken for that has had none
HANG_SECONDS = 1800.0


class Explored(NamedTuple):
    test: str
    rounds: int
    seconds: float
    commit: str
    at: str


def read_explored(path: Path = EXPLORED) -> dict[str, Explored]:
    """The last line of each test: a merge may have left two."""
    found: dict[str, Explored] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        test, rounds, seconds, commit, at = line.split("\t")
        reported = Explored(test, int(rounds), float(seconds), commit, at)
        if test not in found or found[test].at < at:
            found[test] = reported
    return found


def repeats(test: str, seed: int) -> str:
    """The line that repeats a round."""
    words = f".venv/bin/python -m pytest -n0 --hypothesis-seed={seed}"
    return f"REPUT_SEED={seed} {words} '{test}'"


class Rounds:
    """One test after the other, those that had none for longest first, and round again."""

    def __init__(self, tests: list[str], until: float, root: Path = sources.ROOT) -> None:
        self._explored = read_explored()
        self._tests = sorted(tests, key=lambda test: (self._at(test), test))
        self._until = until
        self._root, self._logs = root, root / records.FOLDER.name / "logs"
        self._commit = sources.commit() or "?"
        self._number = count()
        self._running: set[str] = set()
        self.red: list[str] = []
        self.done = 0

    def _at(self, test: str) -> str:
        return self._explored[test].at if test in self._explored else ""

    def _expected(self, test: str) -> float:
        reported = self._explored.get(test)
        return reported.seconds / reported.rounds if reported and reported.rounds else ROUND_SECONDS

    def next(self) -> budget.Job | None:
        left = self._until - time.time() - batches.START_SECONDS
        for test in self._tests:
            if test not in self._running and self._expected(test) <= left:
                self._tests.remove(test)
                self._tests.append(test)
                return self._job(test)
        return None

    def _job(self, test: str) -> budget.Job:
        seed = random.SystemRandom().randrange(1, 1 << 31)
        log = self._logs / f"explore-{next(self._number)}.txt"
        words = [
            sys.executable, "-m", "pytest", "-q", "-x", "-rs", "-p", "no:cacheprovider",
            f"--hypothesis-seed={seed}", test,
        ]  # fmt: skip
        begun = time.time()
        self._running.add(test)
        return budget.Job(
            words, log, lambda code: self._ended(test, seed, log, code, time.time() - begun),
            limit=HANG_SECONDS, env={"REPUT_SEED": str(seed)}, folder=self._root,
        )  # fmt: skip

    def _ended(self, test: str, seed: int, log: Path, code: int | None, seconds: float) -> None:
        self._running.discard(test)
        said = log.read_text("utf-8", "replace")
        if code is None or (code == 0 and " passed" not in said):
            if code == 0:  # skipped: as it would be each time
                self._tests.remove(test)
                print(f"skipped: {test}: {_skipped(said)}", flush=True)
            log.unlink()
            return
        now = records.moment(time.time())
        reported = self._explored.get(test) or Explored(test, 0, 0.0, "", "")
        self._explored[test] = Explored(
            test, reported.rounds + 1, reported.seconds + seconds, self._commit, now
        )
        self.done += 1
        if code == 0:
            print(f"{time.strftime('%H:%M:%S')} {test} {seed}: {seconds:.0f} s", flush=True)
            log.unlink()
            return
        failed = log.with_name(f"seed-{seed}.txt")
        log.rename(failed)
        self.red.append(test)
        print(f"FAILED (pytest: {code}): {repeats(test, seed)}\n  {failed}", flush=True)
        _add(FAILURES, f"{now}\t{self._commit}\t{seed}\t{test}\n")

    def write(self) -> None:
        lines = ("\t".join(map(str, [*e[:2], round(e.seconds), *e[3:]])) for e in
                 sorted({**read_explored(), **self._explored}.values()))  # fmt: skip
        records.write_lines(EXPLORED, [f"{line}\n" for line in lines])


def _skipped(said: str) -> str:
    found = re.search(r"^SKIPPED \[\d+\] (.*)", said, re.M)
    return found[1] if found else "nothing ran"


def _add(path: Path, line: str) -> None:
    there = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    records.write_lines(path, sorted({*there, line}))


def explore(end: float, cores: int, only: str = "") -> int:
    """Until that time since 1970; 1 where a seed failed, 130 after ctrl-c."""
    found = batches.collect(["-m", "explore"], {"REPUT_SEED": "1"})
    until = end - budget.GRACE_SECONDS
    rounds = Rounds([each["test"] for each in found if only in each["test"]], until)
    to_its_end = budget.run_all(rounds.next, until, cores)
    rounds.write()
    print(
        f"{rounds.done} rounds, {len(rounds.red)} failed" + (f": {FAILURES}" if rounds.red else "")
    )
    return 130 if not to_its_end else 1 if rounds.red else 0
