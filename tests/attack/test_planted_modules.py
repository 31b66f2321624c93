"""What lies in the current folder is data: no process of ours imports a module from there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden_stores import unpack

ROOT = Path(__file__).parents[2]
REPUT = Path(sys.executable).parent / "reput"
SIZES = ("--rocketmq", "5.3.3", "--set", "mappedFileSizeCommitLog=16777216")
# Ours, those that ours import, and what Python itself imports when it starts one of them.
PLANTED = ("pandas", "numpy", "numba", "pyarrow", "pyspark", "py4j", "json", "jobs", "udfs",
           "store_format", "logging", "pathlib", "socket", "struct", "runpy", "pkgutil", "typing",
           "reput", "psutil", "yaml", "cloudpickle", "multiprocessing")  # fmt: skip
ON_SPARK = (pytest.mark.spark, pytest.mark.long)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that leave a marker when they are imported."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in PLANTED:
        marker = tmp_path / f"imported-{name}"
        (folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    return folder


def imported(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.glob("imported-*"))


def run(folder: Path, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([str(word) for word in words], cwd=folder, env={**clean, **env},
                          capture_output=True, text=True, timeout=300)  # fmt: skip


def test_the_traps_work(planted: Path) -> None:
    run(planted, sys.executable, "-c", "import json")
    assert imported(planted) == ["imported-json"]


@pytest.mark.skipif(not REPUT.exists(), reason="the command is not installed")
@pytest.mark.parametrize(
    "words", [["--help"], ["dump", "STORE/config/topics.json"], ["clean", "."]]
)
def test_commands_without_spark(planted: Path, words: list[str]) -> None:
    store = str(unpack("broker_clean_5.3.3").root / "input")
    done = run(planted, REPUT, *(word.replace("STORE", store) for word in words))
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr
    assert imported(planted) == []


@pytest.mark.skipif(not REPUT.exists(), reason="the command is not installed")
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=ON_SPARK)])
def test_a_rebuild_with_all_its_processes(planted: Path, tmp_path: Path, engine: str) -> None:
    store, words = unpack("broker_clean_5.3.3").root / "input", ("--engine", engine)
    done = run(planted, REPUT, "rebuild", store, "--output", tmp_path / "out", *SIZES, *words)
    assert done.returncode == 0, done.stderr
    assert imported(planted) == []


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("how", ["spark home", "spark-submit"])
def test_other_ways_to_start_a_session(planted: Path, tmp_path: Path, how: str) -> None:
    import pyspark

    store = unpack("broker_clean_5.3.3").root / "input"
    words = ["rebuild", store, "--output", tmp_path / "out", *SIZES]
    home = str(Path(pyspark.__file__).parent)
    if how == "spark home":
        done = run(planted, REPUT, *words, "--master", "local[2]", SPARK_HOME=home)
    else:
        done = run(planted, ROOT / "spark-submit.sh", "--master", "local[2]", *words)
    assert done.returncode == 0, done.stderr
    assert "No module named" not in done.stderr
    assert "Traceback" not in done.stderr  # not of a worker that its JVM left behind either
    assert imported(planted) == []


@pytest.mark.skipif(not REPUT.exists(), reason="the command is not installed")
def test_python_m_drops_the_folder_once_ours_runs(planted: Path) -> None:
    """What Python imports before our first line (runpy, reput itself) is out of our hands."""
    for name in ("reput", "runpy", "pkgutil", "typing", "importlib"):
        (planted / f"{name}.py").unlink(missing_ok=True)
    done = run(planted, sys.executable, "-m", "reput", "--help")
    assert done.returncode == 0, done.stderr
    assert imported(planted) == []


def test_modules_that_the_user_names_are_found(tmp_path: Path) -> None:
    """PYTHONPATH goes on: in the environment that a JVM, the daemon and workers get."""
    from reput.jobs.engines.folders import our_packages

    env = our_packages({"PYTHONPATH": f"/a{os.pathsep}/b", "HOME": "/h"})
    assert env["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/a", "/b"]
    assert env.keys() == {"PYTHONPATH", "PYTHONSAFEPATH"}
