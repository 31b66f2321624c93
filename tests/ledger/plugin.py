"""A pytest plugin: each test has a limit, and another process sees that it is kept.

With --ledger FILE a line as a test begins, and one as it ends, each at once.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger import records
from tests.watchdog import Watchdog

QUICK_SECONDS = 300  # of others pyproject.toml says it
GRACE_SECONDS = 60  # after which what pytest-timeout did not end is ended with its process


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("ledger").addoption("--ledger", metavar="FILE", help="append each run there")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Limits(), "reput-limits")
    if config.option.ledger:
        config.pluginmanager.register(Recorder(config), "reput-ledger")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(map(item.get_closest_marker, ("long", "rocketmq", "hadoop", "timeout"))):
            item.add_marker(pytest.mark.timeout(QUICK_SECONDS))


def _limit(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    own = (mark.args[0] if mark.args else mark.kwargs.get("timeout")) if mark else None
    return float(own or item.config.getini("timeout") or 0)


class Limits:
    def __init__(self) -> None:
        self._watchdog = Watchdog(GRACE_SECONDS)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._watchdog.begins(item.nodeid, _limit(item))
        try:
            return (yield)
        finally:
            self._watchdog.ends()

    def pytest_unconfigure(self) -> None:
        self._watchdog.close()


class Recorder:
    def __init__(self, config: pytest.Config) -> None:
        self._file = Path(config.option.ledger)

    def _write(self, test: str, verdict: str, seconds: float) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(records.Run(test, verdict, seconds, at=records.moment()).line())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._reports = []
        self._write(item.nodeid, records.RUNNING, _limit(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)
        if report.when == "teardown":
            took = (each.duration for each in self._reports)
            self._write(report.nodeid, _verdict(self._reports), sum(took))


def _verdict(reports: list[pytest.TestReport]) -> str:
    """Of setting up, the test and tearing down together."""
    if failed := [str(report.longrepr) for report in reports if report.failed]:
        return "hang" if "Failed: Timeout" in failed[0] else "failed"
    skipped = any(report.skipped and not hasattr(report, "wasxfail") for report in reports)
    return "skipped" if skipped else "ok"
