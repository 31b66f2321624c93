"""Which engine a job runs on: the one it is given, the one that is named, or this machine's."""

from dataclasses import KW_ONLY, dataclass
from inspect import signature

import pytest

from reput.jobs.console.declared import option
from reput.jobs.engines.choice import alone, chosen, engine_of, on_engine
from reput.jobs.engines.engine import Engine
from reput.jobs.engines.local import LocalEngine
from reput.jobs.engines.workers import start_early
from tests.in_process import Session

GATEWAY, DATABRICKS = "PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION"


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither spark-submit nor Databricks runs this."""
    for name in (GATEWAY, DATABRICKS):
        monkeypatch.delenv(name, raising=False)


def test_a_named_engine_comes_first_then_a_session_that_is_meant(monkeypatch) -> None:
    for engine, master, submitted, wanted in [
        (None, None, None, "local"), (None, "local[2]", None, "spark"),
        (None, None, GATEWAY, "spark"), (None, None, DATABRICKS, "spark"),
        ("local", None, GATEWAY, "local"), ("local", "local[2]", None, "local"),
        ("spark", None, None, "spark"), (None, "", None, "local"),
    ]:  # fmt: skip
        with monkeypatch.context() as patch:
            if submitted:
                patch.setenv(submitted, "1")
            assert chosen(engine, master) == wanted
    started: list[int] = []
    monkeypatch.setattr("reput.jobs.engines.workers.prepare", lambda: started.append(1))
    for words, starts in [
        ([], 1), (["-v"], 1), (["--engine=spark"], 0), (["--master", "local"], 0), (["--help"], 0),
        (["--engine", "local"], 1), (["--engine=local"], 1), (["--engine", "spark"], 0),
    ]:  # fmt: skip
        started.clear()
        start_early(["rebuild", "S", *words])
        assert len(started) == starts


@dataclass(frozen=True)
class Asked:
    """What is asked."""

    store: str
    to: str = option("where to write", "")
    _: KW_ONLY
    more: int = 0


@on_engine(Asked)
def job(engine: Engine, asked: Asked) -> tuple[Engine, str, str, int]:
    """What it was given."""
    return engine, asked.store, asked.to, asked.more


@alone(Asked)
def lonely(asked: Asked) -> Asked:
    """As it was asked."""
    return asked


def test_a_job_takes_an_engine_first_or_none_and_its_options_also_as_one_object() -> None:
    mine = Session()
    assert engine_of(mine) is mine
    assert job(mine, "store", "to", more=3) == (mine, "store", "to", 3)
    assert job(mine, Asked("store", more=3)) == (mine, "store", "", 3)
    for made in (job("store", "to", more=3), job(None, "store", to="to", more=3)):
        assert isinstance(made[0], LocalEngine)
        assert made[1:] == ("store", "to", 3)
    assert isinstance(job(store="store")[0], LocalEngine)
    assert lonely("store", to="to") == lonely(Asked("store", "to")) == Asked("store", "to")
    assert job.__name__ == "job"  # type: ignore[attr-defined]
    assert job.__doc__ == "What it was given.\n\nWhat is asked.\n\nto: where to write"
    assert str(signature(job)).startswith("(store: str, to: str = '', *, more: int = 0) -> tuple[")
