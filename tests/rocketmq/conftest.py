"""Fixtures of the tests that need the real RocketMQ: one JVM a version, one of each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rocketmq.engines import Reput, engine
from tests.rocketmq.judge import Drivers


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    with Drivers() as made:
        yield made


@pytest.fixture(
    scope="session",
    params=["local", pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.long))],
)
def reput(request: pytest.FixtureRequest) -> Iterator[Reput]:
    with engine(request.param) as made:
        assert isinstance(made, Reput)
        yield made


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Like tmp_path, but gone at once if the test passed: a thousand stores are many."""
    from tests.rocketmq.judge import clear

    yield tmp_path
    report = getattr(request.node, "call_report", None)
    if report is None or report.passed:
        clear(tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call":
        item.call_report = report  # type: ignore[attr-defined]
    return report
