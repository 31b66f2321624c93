"""The last run of each long test, a line of tests/ledger/records/long.tsv, and what is due by it.

Two branches may have run a test: git keeps both lines, and the newer one counts.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.ledger.digests import ROOT, Tree

RECORDS = "tests/ledger/records/long.tsv"
RED = ("failed", "hang", "lost")  # lost: its process died
RUNNING = "running"  # of a line that is written as a test begins; its seconds are its limit
_KEEP = ("skipped", "cut")  # these take no proof away; cut: by a budget's end or ctrl-c
GUESS_SECONDS = 60.0  # what a test is taken to last that never ran


class Run(NamedTuple):
    test: str
    verdict: str
    seconds: float
    commit: str = ""  # with a + where files were not committed
    digest: str = ""  # of what the test depends on: digests.Tree
    at: str = ""

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]

    def line(self) -> str:
        return "\t".join([*self[:2], f"{self.seconds:.1f}", *self[3:]]) + "\n"


def moment() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())


def read(path: Path) -> Iterator[Run]:
    """The lines that are whole: a pytest may have been killed as it wrote."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        fields = line.split("\t")
        if len(fields) == len(Run._fields):
            yield Run(fields[0], fields[1], float(fields[2]), *fields[3:])


def newest(runs: Iterable[Run]) -> dict[str, Run]:
    """The last run of each; one that was skipped or cut says nothing, where there is another."""
    found: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.at):
        if run.verdict not in _KEEP or run.test not in found:
            found[run.test] = run
    return found


def keep(runs: Iterable[Run], known: Collection[str] = (), root: Path = ROOT) -> dict[str, Run]:
    """Add runs to the record. `known`: all tests that there are; lines of others go.

    Of a file without any the lines stay: it may only lack something on this machine.
    """
    files = {test.partition("::")[0] for test in known}
    found = {
        test: run
        for test, run in newest([*read(root / RECORDS), *runs]).items()
        if (root / run.file).exists() and (test in known or run.file not in files)
    }
    beside = root / f"{RECORDS}.new"
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.write_text("".join(sorted(run.line() for run in found.values())), "utf-8")
    beside.replace(root / RECORDS)
    return found


def now(tests: Iterable[str], runs: dict[str, Run], tree: Tree) -> list[Run]:
    """Each test with its verdict on what it depends on now: first what was not tried since that
    changed, longest ago first; then what is not green; then what is.
    """
    found = []
    for test in tests:
        file = test.partition("::")[0]
        run = runs.get(test) or Run(test, "never run", GUESS_SECONDS)
        tried = run.digest == tree.digest(file)
        verdict = "changed since" if run.at and not tried else run.verdict
        found.append((tried, verdict == "ok", run.at, run._replace(verdict=verdict)))
    return [run for *_, run in sorted(found)]


def total(runs: Iterable[Run]) -> float:
    return sum(run.seconds for run in runs)
