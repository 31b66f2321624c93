"""What all tests share: hypothesis profiles, and one local SparkSession for those that want it."""

import os
import signal
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.leftovers import left_since, open_now
from tests.local_time import ZONES, time_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reput.jobs.engines.engine import Engine
pytest_plugins = ["tests.ledger.plugin", "tests.scheduling"]

# Rooms whose files have a local time of their own, and those whose files leave nothing behind.
# An engine's pool, a JVM or a server that a session shares would be what others leave.
LOCAL = ("broker/change/", "broker/serving/", "broker/services/", "jobs/exporting/",
         "jobs/opening/", "jobs/replicating/", "jobs/sockets/", "store_format/derived/",
         "store_format/fate/", "store_format/files/", "store_format/query/",
         "store_format/rocksdb/")  # fmt: skip
# These leave nothing open where they run real things too; all others' quick tests do.
LEAVES_NOTHING = ("broker/change/", "broker/services/", "broker/serving/", "broker/wire/",
                  "jobs/judging/", "jobs/replicating/", "jobs/sockets/", "store_format/derived/",
                  "store_format/describe/", "store_format/fate/", "store_format/log/",
                  "store_format/query/", "store_format/rocksdb/",
                  "store_format/state/")  # fmt: skip

# Their quick tests have commands run in this process, but those marked `own_engine`.
IN_PROCESS = ("attack/", "chains/", "faults/", "jobs/", "store_format/describe/",
              "store_format/discover/", "store_format/files/test_queue_logs",
              "store_format/rocksdb/")  # fmt: skip

# A kernel may have to be compiled during an example, so no example has a deadline.
# The same examples are drawn each time, here and on CI, so that a red run is the change's own;
# `make explore` draws new ones, by --hypothesis-seed. HYPOTHESIS_PROFILE=long draws more.
_SETTINGS = {"deadline": None, "print_blob": True}
hypothesis.settings.register_profile("default", **_SETTINGS, derandomize=True)
hypothesis.settings.register_profile("explore", **_SETTINGS, derandomize=False)
hypothesis.settings.register_profile("long", **_SETTINGS, derandomize=False, max_examples=2000)
# For planted bugs: that a test turns red is all that is asked, not by how small an example.
hypothesis.settings.register_profile(
    "planted", deadline=None, derandomize=True,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)  # fmt: skip
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE")
hypothesis.settings.load_profile(_PROFILE or "default")


@pytest.fixture(scope="module", autouse=True)
def _in_its_time_zone(request: pytest.FixtureRequest) -> Iterator[None]:
    """A file of tests has one of three local times, by its name: each time the same.

    Index files are named, and deleteWhen is looked at, by the local clock."""
    place = _place(request.path)
    with time_zone(ZONES[zlib.crc32(place.encode()) % len(ZONES)] if _in(place, LOCAL) else "UTC"):
        yield


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest, _in_its_time_zone: None) -> Iterator[None]:
    """A file of tests leaves no descriptor, thread or child: a test's own, and its fixtures'."""
    if request.path in _sharing(request.session):
        yield
        return
    before = open_now()
    yield
    left = left_since(before)
    assert not left, f"left behind, by its name in its test's folder: {left}"


@cache
def _sharing(session: pytest.Session) -> set[Path]:
    """Files of which a test that runs asks for what others share: an engine, a JVM, a server."""
    return {
        item.path for item in session.items
        if not {"spark", "local", "engine"}.isdisjoint(getattr(item, "fixturenames", ()))
        or (
            any(map(item.get_closest_marker, ("real", "long")))
            and not _in(_place(item.path), LEAVES_NOTHING)
        )
    }  # fmt: skip


def _place(path: Path) -> str:
    return path.as_posix().rpartition("/tests/")[2]


def _in(place: str, some: tuple[str, ...]) -> bool:
    return place.startswith(some)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator["SparkSession"]:
    """A session as the command starts it, on two cores.

    A process has one JVM, so it has Delta's jars if any test of this run wants them."""
    from reput.jobs.engines.session import local_session
    from tests.jobs.sources import delta_session

    with_delta = any("delta" in item.fixturenames for item in request.session.items)  # type: ignore[attr-defined]
    settings = delta_session.settings() if with_delta and not delta_session.missing() else None
    with local_session("local[2]", settings=settings) as session:
        yield session


@pytest.fixture
def delta(request: pytest.FixtureRequest) -> "SparkSession":
    """The session with Delta."""
    from tests.jobs.sources import delta_session

    if reason := delta_session.missing():
        pytest.skip(reason)
    session: SparkSession = request.getfixturevalue("spark")
    return session


@pytest.fixture(scope="session")
def local() -> "Iterator[Engine]":
    """The local engine with two processes."""
    from reput.jobs.engines.local import local_engine

    with local_engine(2) as engine:
        yield engine


@pytest.fixture(scope="session", params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> "Iterator[Engine]":
    """Each engine, on two cores. On Spark the tests are long ones, but those marked `both`."""
    if request.param == "spark":
        from reput.jobs.engines.spark import SparkEngine

        yield SparkEngine(request.getfixturevalue("spark"))
    else:
        yield request.getfixturevalue("local")


@pytest.fixture(autouse=True)
def _commands_in_process(request: pytest.FixtureRequest) -> None:
    from reput.jobs.console import voice

    voice.begin()  # as a command does: another test may have said a note, which is said once
    if _in(_place(request.path), IN_PROCESS) and not any(
        map(request.node.get_closest_marker, ("real", "long", "own_engine"))
    ):
        request.getfixturevalue("commands_in_process")


@pytest.fixture
def commands_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run their jobs in this process; the engines stand aside."""
    from tests.in_process import Session

    @contextmanager
    def engine(
        _: str | None, __: str | None, meanwhile: Callable[[], None], ___: None
    ) -> Iterator[Session]:
        meanwhile()
        yield Session()

    monkeypatch.setattr("reput.jobs.console.options.command_engine", engine)
    # Where kernels are still to be compiled, a stage is long enough for progress to be reported.
    monkeypatch.setattr("reput.jobs.console.progress._LINE_SECONDS", 3600)


def pytest_configure(config: pytest.Config) -> None:
    """A shell has what it starts in the background ignore SIGINT; so would all that tests start."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--hypothesis-seed") is not None and not _PROFILE:
        hypothesis.settings.load_profile("explore")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip a test whose RocketMQ cannot be had here (build.NoMavenError); fail, not skip, a test of
    what Maven brings where it is said to be there (on CI)."""
    report = yield
    if call.excinfo and call.excinfo.typename == "NoMavenError":
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {call.excinfo.value}")
    by_maven = item.get_closest_marker("rocketmq") or item.get_closest_marker("hadoop")
    required = os.environ.get("REPUT_REQUIRE_MAVEN") and by_maven
    too_old = "does not run on Java" in str(report.longrepr)  # Hadoop's server, whatever is there
    if required and report.skipped and not too_old and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped with REPUT_REQUIRE_MAVEN set: {report.longrepr}"
    return report


# Files and tests by how their names begin, beside the marks `rocketmq`, `hadoop`, `spark`, and S3.
REAL = tuple(
    line for line in (Path(__file__).parent / "real.txt").read_text().splitlines() if line[0] != "#"
)
# Of these a few stay in `make test`: each kind of thing once.
_CORE = (
    "test_rows_by_key[spark-key0",  # Spark
    "test_a_recovered_store",  # RocketMQ
    "test_what_fails_in_a_task_fails_the_job", "test_changes_are_seen_within_a_second",
)  # fmt: skip


def _is_real(item: pytest.Item) -> bool:
    marks = any(map(item.get_closest_marker, ("rocketmq", "hadoop", "spark")))
    module = getattr(item, "module", None)
    has_s3 = any("s3_server" in str(getattr(each, "__module__", "")) or "s3_server" in name
                 for name, each in vars(module).items()) if module else False  # fmt: skip
    return marks or has_s3 or f"{_place(item.path)}::{item.name}".startswith(REAL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        params = getattr(item, "callspec", None)
        on_spark = params is not None and params.params.get("engine") == "spark"
        if on_spark and not item.get_closest_marker("both"):
            item.add_marker(pytest.mark.long)
        if _is_real(item) and not item.name.startswith(_CORE):
            item.add_marker(pytest.mark.real)
    # What waits longest begins first, so that neither of two processes is left with it alone.
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("rocketmq", "hadoop"))))
