"""Fixtures of the tests that need the real RocketMQ: one JVM a version, one of each engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.jobs.engines.local import local_engine
from reput.jobs.engines.session import local_session
from tests.rocketmq.judge import Drivers, Reput


@pytest.fixture(scope="session")
def drivers() -> Iterator[Drivers]:
    with Drivers() as made:
        yield made


@pytest.fixture(
    scope="session",
    params=["local", pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.long))],
)
def reput(request: pytest.FixtureRequest) -> Iterator[Reput]:
    with local_engine(2) if request.param == "local" else local_session("local[2]") as engine:
        yield Reput(engine)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
