"""Which tests are due: first what has gone longest without being green on what it tests now."""

from __future__ import annotations

import statistics
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.ledger.records import Run, Runs
from tests.ledger.sources import ROOT, Tree

# What a test is taken to last that was never run, nor one of its file.
LONG_SECONDS, QUICK_SECONDS = 60.0, 0.5


class Due(NamedTuple):
    """A test as it stands, and its last run."""

    test: str
    long: bool
    run: Run | None
    why_due: str  # "" if it is green on what it tests now
    seconds: float  # what it is taken to last

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


def look(
    collected: Mapping[str, bool], runs: Runs, tree: Tree, commits: int = 0, root: Path = ROOT
) -> list[Due]:
    """Each collected test (whether it is long), those first that are due longest.

    With `commits`, one is also due that was not green on one of the last so many commits.
    """
    lasts = _durations(runs)
    recent = set(_recent(root, commits)) if commits else None
    found, place = [], {}
    in_file: Counter[tuple[str, bool]] = Counter()
    for test, long in collected.items():
        file = test.partition("::")[0]
        in_file[file, long] += 1
        place[test] = in_file[file, long]  # of tests that never ran each file's first comes first
        run = runs.get(test)
        if not long:
            of_file = runs.get(file)
            run = _proof(run, of_file, tree)
        why = _why_due(run, tree.digest(file), recent)
        found.append(Due(test, long, run, why, lasts(test, long)))
    return sorted(found, key=lambda each: _order(each, place[each.test], tree))


def _proof(run: Run | None, of_file: Run | None, tree: Tree) -> Run | None:
    """Of a quick test the run that tells most: its own, or that of all its file's quick tests."""
    reported = [each for each in (run, of_file) if each is not None]
    now = [each for each in reported if each.sources == tree.digest(each.file)]
    return max(now or reported, key=lambda each: (each is run, each.at), default=None)


def _why_due(run: Run | None, sources: str, recent: set[str] | None) -> str:
    if run is None:
        return "never run"
    if run.sources != sources:
        return "changed since"
    if not run.green:
        return run.verdict
    if recent is not None and run.commit.rstrip("+") not in recent:
        return "not within the last commits"
    return ""


def _order(each: Due, place: int, tree: Tree) -> tuple[int, str, int, str]:
    """Not tried since what it tests has changed; tried and not green; the others."""
    at = each.run.at if each.run else ""
    tried = each.run is not None and each.run.sources == tree.digest(each.file)
    return (2 if not each.why_due else 1 if tried else 0, at, place, each.test)


def _durations(runs: Runs):  # type: ignore[no-untyped-def]
    """What a test is taken to last: as it did, or as others of its file did."""
    of_file: dict[tuple[str, bool], list[float]] = {}
    for run in runs.values():
        if "::" in run.test and run.verdict not in ("skipped", "cut"):
            of_file.setdefault((run.file, run.long), []).append(run.seconds)

    @cache
    def median(file: str, long: bool) -> float:
        guess = LONG_SECONDS if long else QUICK_SECONDS
        return statistics.median(of_file.get((file, long), [guess]))

    def seconds(test: str, long: bool) -> float:
        run = runs.get(test)
        return run.seconds if run else median(test.partition("::")[0], long)

    return seconds


def _recent(root: Path, commits: int) -> Iterable[str]:
    words = ["git", "log", f"-{commits}", "--abbrev=9", "--format=%h"]
    return subprocess.run(
        words, cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
