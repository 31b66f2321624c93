"""The ledger's lines: shards, which pytest writes as it runs, folded into tables.

A shard is a file of JSON lines in .ledger/ (not committed), one for each pytest, held by a lock
while that runs. `fold` puts them together: .ledger/tests.tsv has every test, tests/ledger/records/
(committed) a line for each long test, and one for all quick tests of a file.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tests.ledger.sources import ROOT

FOLDER = ROOT / ".ledger"
RECORDS = Path(__file__).parent / "records"
GREEN = ("ok", "partly")  # partly: all quick tests of a file, some of them skipped
RED = ("failed", "hang", "lost")  # lost: its process died
_KEEP = (
    "skipped",
    "cut",
)  # these take no proof away: cut is one that a budget's end or ctrl-c ended


class Run(NamedTuple):
    """A test's last run; `test` without :: stands for all quick tests of its file."""

    test: str
    verdict: str
    seconds: float
    commit: str
    sources: str  # of what the test depends on: sources.Tree.digest
    at: str
    why: str = ""  # not committed: it may name this machine's paths
    long: bool = False

    @property
    def green(self) -> bool:
        return self.verdict in GREEN

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


Runs = dict[str, Run]


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def newest(runs: Iterable[Run]) -> Runs:
    """The last run of each test; a skip or a cut does not replace what was green on the same."""
    found: Runs = {}
    for run in sorted(runs, key=lambda run: run.at):
        before = found.get(run.test)
        same = before is not None and before.green and before.sources == run.sources
        if not (same and run.verdict in _KEEP):
            found[run.test] = run
    return found


def read_table(path: Path, prefix: str = "tests/") -> Iterator[Run]:
    """The lines of a table that are whole; a merge may have left a test twice."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        fields = line.split("\t")
        if len(fields) >= 6:
            test, verdict, seconds, commit, sources, at, *local = fields
            why, long = local if len(local) == 2 else ("", "long" if "::" in test else "")
            run = Run(f"{prefix}{test}", verdict, float(seconds), commit, sources, at, why)
            yield run._replace(long=bool(long))


def write_table(
    path: Path, runs: Iterable[Run], local: bool = False, prefix: str = "tests/"
) -> None:
    lines = []
    for run in sorted(runs):
        fields = [run.test.removeprefix(prefix), run.verdict, f"{run.seconds:.1f}", *run[3:6]]
        fields += [run.why, "long" if run.long else ""] if local else []
        lines.append("\t".join(fields) + "\n")
    write_lines(path, lines)


def write_lines(path: Path, lines: list[str]) -> None:
    """In the place of what is there, at once; nothing where it is the same."""
    if path.exists() and path.read_text("utf-8") == "".join(lines):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text("".join(lines), "utf-8")
    beside.replace(path)


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for line in path.read_text("utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one, of a pytest that was killed as it wrote
            continue
    return found


def read_shard(path: Path) -> list[Run]:
    """What a shard tells, also one whose pytest was killed."""
    lines = _lines(path)
    if not lines or "commit" not in lines[0]:
        return []
    head, runs = lines[0], []
    started: dict[str, float] = {}
    end: dict[str, Any] = {}

    def run(test: str, verdict: str, seconds: float, at: float, why: str = "") -> Run:
        sources = head["sources"].get(test.partition("::")[0], "")
        return Run(test, verdict, seconds, head["commit"], sources, moment(at), why)

    for line in lines[1:]:
        if "start" in line:
            started[line["start"]] = line["at"]
        elif "killed" in line:
            end = {"verdict": line["killed"], "at": line["at"]}
        elif "test" in line:
            begun = started.pop(line["test"], None)
            lost = line["verdict"] == "lost" and begun is not None
            seconds = line["at"] - begun if lost else line["seconds"]
            done = run(line["test"], line["verdict"], seconds, line["at"], line["why"])
            runs.append(done._replace(long=line["long"]))
        elif "sources" in line:
            head["sources"].update(line["sources"])
        elif "end" in line:
            end = line
    if end or not is_held(path):
        for test, at in started.items():
            ended = end.get("at", at)
            runs.append(run(test, end.get("verdict", "lost"), ended - at, ended))
    if end.get("whole"):
        runs += _by_file([each for each in runs if not each.long])
    return runs


def started(path: Path) -> list[tuple[str, float, float]]:
    """The tests of a shard that run now: since when, and for how long they may."""
    found: dict[str, tuple[str, float, float]] = {}
    for line in _lines(path):
        if "start" in line:
            found[line["start"]] = (line["start"], line["at"], line["limit"])
        elif "test" in line:
            found.pop(line["test"], None)
    return list(found.values())


def ended(path: Path) -> bool:
    """Whether a shard's pytest came to its end, be it by ctrl-c."""
    return any("end" in line for line in _lines(path))


def _by_file(runs: list[Run]) -> Iterator[Run]:
    """A line for all quick tests of a file."""
    files: dict[str, list[Run]] = {}
    for run in runs:
        files.setdefault(run.file, []).append(run)
    for file, of_file in files.items():
        verdicts = {run.verdict for run in of_file}
        if verdicts & {*RED, "cut"}:
            verdict = next(each for each in (*RED, "cut") if each in verdicts)
        else:
            verdict = (
                "ok" if verdicts == {"ok"} else "skipped" if "ok" not in verdicts else "partly"
            )
        last = max(of_file, key=lambda run: run.at)
        yield last._replace(
            test=file, verdict=verdict, seconds=sum(run.seconds for run in of_file), why=""
        )


def is_held(shard: Path) -> bool:
    """Whether the pytest that writes a shard still runs."""
    with shard.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def shards(folder: Path) -> list[Path]:
    """All that were not folded; below `running` those of a runner, also of one that was killed."""
    return sorted([*folder.glob("*.jsonl"), *folder.glob("running/*/*.jsonl")])


def read(folder: Path = FOLDER, records: Path = RECORDS) -> Runs:
    """All that is known here: committed, folded, and what shards have."""
    runs = [run for path in records.glob("*.tsv") for run in read_table(path)]
    runs += read_table(folder / "tests.tsv")
    runs += [run for path in shards(folder) for run in read_shard(path)]
    return newest(runs)


def fold(
    known: Mapping[str, bool] | None = None,
    folder: Path = FOLDER,
    records: Path = RECORDS,
    root: Path = ROOT,
) -> Runs:
    """Shards into tables. `known`: all tests that were just collected, and whether each is long.

    A test that its file no longer has is dropped; one of a file without any is kept, as such a file
    may only lack something on this machine.
    """
    with _alone(folder):
        done = [path for path in shards(folder) if not is_held(path)]
        runs = read(folder, records)
        files = {test.partition("::")[0] for test in known or ()}
        for run in list(runs.values()):
            gone = run.file in files and run.test not in {*(known or ()), run.file}
            if gone or not (root / run.file).exists():
                del runs[run.test]
            elif known:
                runs[run.test] = run._replace(long=known.get(run.test, run.long))
        tables: dict[str, list[Run]] = {path.stem: [] for path in records.glob("*.tsv")}
        for run in runs.values():
            if run.long or "::" not in run.test:
                parts = run.file.split("/")
                tables.setdefault(parts[1] if len(parts) > 2 else "tests", []).append(run)
        for name, rows in tables.items():
            write_table(records / f"{name}.tsv", rows)
        write_table(folder / "tests.tsv", runs.values(), local=True)
        for path in done:
            path.unlink()
    return runs


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
