"""The session that a command runs on: quick to start, silent, and gone without a trace."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput.jobs.spark import archive as archives
from reput.jobs.spark import prepare, session
from reput.jobs.spark.archive import archive_flags, archive_path, is_unharmed, keep, making
from reput.jobs.spark.java import Java, find_java_home
from reput.jobs.spark.jvm import jvm_flags
from reput.jobs.spark.session import local_cores, local_settings, retrying
from reput.store_format.disk.cache_folder import cache_folder

ROOT = Path(__file__).parents[3]

COMMAND = """
import sys
from reput.jobs.spark.session import SparkFailed, local_session

fails = sys.argv[1] == "fail"

def task(batches):
    import pyarrow
    for batch in batches:
        if fails:
            raise ValueError("a task's own words")
        yield pyarrow.RecordBatch.from_pydict({"python": [sys.executable]})

try:
    with local_session("local[2]") as spark:
        print(spark.conf.get("spark.master"), spark.conf.get("spark.sql.session.timeZone"))
        rows = spark.range(0, 2, 1, 2).mapInArrow(task, "python string").toArrow().to_pylist()
        print({row["python"] for row in rows})
        print(spark.conf.get("spark.local.dir"))
except SparkFailed as error:
    print("failed:", "a task's own words" in str(error))
"""


def run(tmp_path: Path, word: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    (tmp_path / "temporary").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(script), word],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary"), **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def link(source: str, to: str) -> None:
    """Give a file another name; copy it where that is on another disk."""
    try:
        os.link(source, to)
    except OSError:
        shutil.copy2(source, to)


@pytest.mark.parametrize(
    ("master", "becomes"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)
def test_a_local_master_tries_a_task_again(master: str, becomes: str) -> None:
    assert retrying(master) == becomes


def test_cores_of_a_local_master() -> None:
    assert local_cores("local") == 1
    assert local_cores("local[3,4]") == 3
    assert local_cores("local[*]") == len(os.sched_getaffinity(0))


def test_given_settings_go_over_ours() -> None:
    settings = local_settings("local[2]", {"spark.ui.enabled": "true", "spark.x": "y"})
    assert (settings["spark.ui.enabled"], settings["spark.x"]) == ("true", "y")
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.spark
def test_a_session_is_silent_and_leaves_nothing(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.stderr == ""
    about, pythons, folder = done.stdout.splitlines()
    assert (about, pythons) == ("local[2,4] UTC", str({sys.executable}))
    assert not Path(folder).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["command.py", "temporary"]
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.spark
def test_a_broken_archive_is_ignored_in_silence(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    before = os.environ.get("REPUT_CACHE")
    os.environ["REPUT_CACHE"] = str(cache)
    try:
        archive = archive_path(find_java_home())
    finally:
        os.environ.pop("REPUT_CACHE")
        if before is not None:
            os.environ["REPUT_CACHE"] = before
    assert archive is not None
    archive.write_bytes(b"not an archive" * 1000)
    archive.with_suffix(".size").write_text("14000")
    kernels = cache_folder().path  # those of all tests, so that none is compiled
    if kernels is not None:
        shutil.copytree(kernels, cache / "kernels", copy_function=link)
    done = run(tmp_path, REPUT_CACHE=str(cache))
    said = [line for line in done.stderr.splitlines() if "compiling kernels" not in line]
    assert said == []
    assert str({sys.executable}) in done.stdout


@pytest.mark.spark
def test_a_failed_task_is_told_in_its_own_words(tmp_path: Path) -> None:
    done = run(tmp_path, "fail")
    assert "failed: True" in done.stdout


def test_no_archive_means_no_flags(tmp_path: Path) -> None:
    assert archive_flags(None) == archive_flags(tmp_path / "none.jsa") == ()


def test_a_cut_archive_means_no_flags(tmp_path: Path) -> None:
    made, archive = tmp_path / "made.tmp", tmp_path / "key.jsa"
    made.write_bytes(b"classes" * 1000)
    keep(made, archive)
    assert archive_flags(archive)[0] == f"-XX:SharedArchiveFile={archive}"
    for length in (3500, 0):
        os.truncate(archive, length)
        assert archive_flags(archive) == ()


def test_a_changed_archive_is_not_what_was_made(tmp_path: Path) -> None:
    made, archive = tmp_path / "made.tmp", tmp_path / "key.jsa"
    made.write_bytes(b"classes" * 1000)
    keep(made, archive)
    assert is_unharmed(archive)
    archive.write_bytes(b"classe5" + b"classes" * 999)
    assert archive_flags(archive)  # as long as before: found where it is made, not at each start
    assert not is_unharmed(archive)


def test_one_process_at_a_time_makes_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "key.jsa"
    with making(archive, wait=False) as first, making(archive, wait=False) as second:
        assert (first, second) == (True, False)
    with making(archive, wait=True) as third:
        assert third


def test_another_java_or_pyspark_wants_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPUT_CACHE", str(tmp_path / "cache"))
    jars, java = tmp_path / "spark" / "jars", Java(tmp_path / "java", 17)
    for folder in (jars, java.home):
        folder.mkdir(parents=True)
    monkeypatch.setattr(archives, "pyspark_folder", lambda: tmp_path / "spark")
    paths = set()
    core = jars / "spark-core.jar"
    for change in (core, java.home / "release", jars / "spark-sql.jar", core):
        with change.open("a") as file:
            file.write("more")
        paths |= {archive_path(java)}
    assert len(paths) == 4


def test_no_java_is_told_to_open_what_it_has_not() -> None:
    """Java 25 would warn of it at each start."""
    gone = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    assert [gone in jvm_flags(version) for version in (17, 21, 25)] == [True, True, False]


def test_the_next_start_is_prepared_in_the_background(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(prepare.subprocess, "Popen", lambda words, **_: started.append(words))
    prepare.prepare_next_start()
    assert started == [[sys.executable, "-m", "reput.jobs.spark.rehearsal", "--background"]]
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("REPUT_WARM", "never")
    prepare.prepare_next_start()
    assert (len(started), capsys.readouterr().err) == (1, "")


@pytest.mark.parametrize("has_archive", [False, True])
def test_the_next_start_is_prepared_while_the_first_run_is_at_work(
    has_archive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []

    @contextmanager
    def started(
        _master: str, _memory: str, _over: None, _flags: object, meanwhile: Callable[[], None]
    ) -> Iterator[tuple[None, None]]:
        meanwhile()
        did.append("started")
        yield None, None

    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setattr(session, "archive_path", lambda _: tmp_path / "key.jsa")
    monkeypatch.setattr(session, "archive_flags", lambda _: ("-flag",) * has_archive)
    monkeypatch.setattr(session, "local_jvm_session", started)
    monkeypatch.setattr(session, "prepare_next_start", lambda: did.append("prepared"))
    with session.local_session(meanwhile=lambda: did.append("asked")):
        did.append("ran")
    wanted = ["asked", "prepared", "started", "ran"]
    assert did == [step for step in wanted if not (has_archive and step == "prepared")]


PLAIN = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
from reput.jobs.engines.spark import collect, run_in_tasks
from reput.udfs.staging import attempt_name

def task(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"name": [attempt_name("x")[:1] + sys.executable]})

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = run_in_tasks(spark.range(0, 2, 1, 2), task, pa.schema([("name", pa.string())]))
print({row["name"] for row in collect(frame)})
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_session_that_somebody_made_runs_workers_that_know_us(tmp_path: Path) -> None:
    """PATH's python3 has no udfs, nor is it told where they are."""
    env = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PLAIN}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**env, "PATH": "/usr/bin:/bin", "JAVA_HOME": str(find_java_home().home)}, timeout=600,
    )  # fmt: skip
    assert done.stdout.strip() == str({"x" + sys.executable}), done.stderr
    assert "No module named" not in done.stderr
