"""A pytest plugin: each pytest writes its shard of the ledger, a line as a test begins and ends.

Where xdist's workers run the tests, the controller writes: it knows of a worker that died too.
REPUT_LEDGER=off writes nothing; nor does a tree without git, as one with a planted bug is.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, TextIO

import pytest

from tests.ledger import records, sources

QUICK_SECONDS = (
    300.0  # a quick test that takes longer hangs; for others pyproject.toml says how long
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ledger")
    group.addoption("--ledger", metavar="FOLDER", help="where shards are written, not .ledger")
    group.addoption("--ledger-list", metavar="FILE", help="write there what was collected")
    group.addoption("--ledger-only", metavar="FILE", help="only tests of FILE: seconds, tab, id")
    group.addoption(
        "--ledger-until", metavar="SECONDS", type=float,
        help="start no test that would end after that time since 1970, by FILE's seconds",
    )  # fmt: skip
    group.addoption(
        "--ledger-pause", metavar="SECONDS", type=float,
        help="start no test after that time but the first",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if hasattr(config, "workerinput") or option.collectonly:
        return
    folder = Path(option.ledger or config.rootpath / records.FOLDER.name)
    commit = sources.commit(config.rootpath)
    wanted = os.environ.get("REPUT_LEDGER") != "off" and not os.environ.get("REPUT_SEED")
    if wanted and commit:
        config.pluginmanager.register(Recorder(folder, commit, config), "reput-ledger")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if limit(item) is None and not is_long(item):
            item.add_marker(pytest.mark.timeout(QUICK_SECONDS))
    if config.option.ledger_only:
        lines = Path(config.option.ledger_only).read_text("utf-8").splitlines()
        wanted = {test: float(seconds) for seconds, _, test in (x.partition("\t") for x in lines)}
        config.stash[_EXPECTED] = wanted
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


_EXPECTED = pytest.StashKey[dict[str, float]]()
_BEGUN = pytest.StashKey[bool]()


def is_long(item: pytest.Item) -> bool:
    return any(map(item.get_closest_marker, ("long", "rocketmq", "hadoop")))


def limit(item: pytest.Item) -> float | None:
    """The seconds that a test's own mark allows it."""
    mark = item.get_closest_marker("timeout")
    if mark is None:
        return None
    return float(mark.args[0] if mark.args else mark.kwargs.get("timeout", 0)) or None


def pytest_collection_finish(session: pytest.Session) -> None:
    if path := session.config.option.ledger_list:
        marks = ("long", "explore")
        reported = [
            {"test": item.nodeid, **{m: bool(item.get_closest_marker(m)) for m in marks}}
            for item in session.items
        ]
        Path(path).write_text(json.dumps(reported), "utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """True, which is to say done, of a test that the budget has no time for."""
    stash, now = item.config.stash, time.time()
    until, pause = item.config.option.ledger_until, item.config.option.ledger_pause
    if until and now + stash.get(_EXPECTED, {}).get(item.nodeid, 0.0) > until:
        return True
    if pause and now > pause and stash.get(_BEGUN, False):
        return True
    stash[_BEGUN] = True
    return None


class Recorder:
    """Writes the shard of one pytest."""

    def __init__(self, folder: Path, commit: str, config: pytest.Config) -> None:
        self._config = config
        self._tree: sources.Tree | None = None
        self._files: set[str] = set()
        self._open: dict[str, list[pytest.TestReport]] = {}
        self._limits: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"{records.moment(now).replace(':', '')}-{os.getpid()}.jsonl"
        self._shard: TextIO = (folder / name).open("a", encoding="utf-8")
        fcntl.flock(self._shard, fcntl.LOCK_EX)  # held until this process ends, however it does
        self._write(commit=commit, at=now, sources={})
        self._tree = sources.Tree(config.rootpath)  # as files are before the first test

    def _write(self, **line: Any) -> None:
        """One line, at once: what is written stands when this process is killed."""
        self._shard.write(json.dumps(line) + "\n")
        self._shard.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        of_all = float(item.config.getini("timeout") or 0)
        self._limits[item.nodeid] = limit(item) or of_all
        return (yield)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        file = nodeid.partition("::")[0]
        if file not in self._files and self._tree:
            self._files.add(file)
            self._write(sources={file: self._tree.digest(file)})
        self._open[nodeid] = []
        self._write(start=nodeid, at=time.time(), limit=self._limits.get(nodeid, 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when not in ("setup", "call", "teardown"):  # a worker died in this test
            self._open.pop(report.nodeid, None)
            self._end(report.nodeid, "lost", 0.0, "its worker died", False)
            return
        reports = self._open.setdefault(report.nodeid, [])
        reports.append(report)
        if report.when == "teardown":
            del self._open[report.nodeid]
            verdict, why = _verdict(reports)
            seconds = sum(each.duration for each in reports)
            self._end(report.nodeid, verdict, seconds, why, "long" in report.keywords)

    def _end(self, test: str, verdict: str, seconds: float, why: str, long: bool) -> None:
        why = re.sub(r"\s+", " ", why)[:120]
        seconds = round(seconds, 1)
        self._write(test=test, verdict=verdict, seconds=seconds, at=time.time(), why=why, long=long)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        option = self._config.option
        narrowed = (
            option.keyword, option.markexpr not in ("", "not long"), option.ledger_only,
            getattr(option, "lf", False), option.deselect, option.ignore,
            any("::" in word for word in self._config.args),
        )  # fmt: skip
        whole = exitstatus in (0, 1) and not any(narrowed) and not _stopped(self._config)
        verdict = "cut" if exitstatus == pytest.ExitCode.INTERRUPTED else "lost"
        self._write(end=int(exitstatus), whole=whole, verdict=verdict, at=time.time())
        self._shard.close()


def _stopped(config: pytest.Config) -> bool:
    return bool(config.option.maxfail) and config.option.maxfail > 0


def _verdict(reports: list[pytest.TestReport]) -> tuple[str, str]:
    """Of setting up, the test and tearing down together, and why it is not green."""
    for report in reports:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message if crash else str(report.longrepr)
            return ("hang" if why.startswith("Failed: Timeout") else "failed"), why
    for report in reports:
        if report.skipped and not hasattr(report, "wasxfail"):
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            return "skipped", why
    return "ok", ""
