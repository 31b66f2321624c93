"""What lies in the current folder is data: no process of ours imports a module from there."""

import contextlib
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.cli import main
from tests.golden_stores import as_left, unpack
from tests.trees import held

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
    "words", [["--help"], ["dump", "STORE/config/topics.json"], ["clean", "."]])  # fmt: skip
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
def test_a_session_that_spark_submit_starts(planted: Path, tmp_path: Path) -> None:
    store = unpack("broker_clean_5.3.3").root / "input"
    words = ["rebuild", store, "--output", tmp_path / "out", *SIZES]
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


# --- What others may lay into a store: links, FIFOs, sockets, devices, notes of other shapes.
def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)  # a socket's path has at most 108 bytes


SHAPES: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo, "socket": _socket, "folder": Path.mkdir,
    "device": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": lambda path: path.symlink_to("/nonexistent/file"),
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero")}  # fmt: skip
NOTES = {"list": b"[]", "null": b"null", "number": b"17", "cut": b'{"topicConfigTable": {',
         "other shape": b'{"topicConfigTable": [1], "settings": 5, "rocketmq": [], "damage": 1}',
         "empty": b"", "not UTF-8": b'{"a": "\xff\xfe"}', "NULs": b"\0" * 4096,
         "deep": b"[" * 100_000 + b"]" * 100_000}  # fmt: skip
QUEUE = "consumequeue/Topic0/0"
PLACES = (f"commitlog/{0:020d}", "commitlog/notes", "consumequeue", "consumequeue/planted",
          "consumequeue/Topic0", QUEUE, f"{QUEUE}/planted", f"{QUEUE}/{0:020d}", "index",
          "index/planted", "config", "config/topics.json", "checkpoint", "abort", "lock",
          "manifest.json", ".reput-install-planted", ".reput-planted",
          "batchconsumequeue")  # fmt: skip
NOTE_PLACES = ("config/topics.json", "checkpoint", "abort", "manifest.json", ".reput-planted")
READS = ("rebuild {store} --output {out}", "verify {store}", "check {store}",
         "recover {store} --dry-run", "repair {store} --output {out}2", "clean {store} --dry-run",
         "dump {place}")  # fmt: skip
# At each place two shapes and two notes, by turns.
CASES = [(place, [*of][(number + more) % len(of)])
         for places, of in ((PLACES, SHAPES), (NOTE_PLACES, NOTES))
         for number, place in enumerate(places) for more in (0, 3)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("place", "shape"), CASES)
def test_what_is_planted_is_named_or_passed_by(place, shape, tmp_path, commands_in_process, capfd):
    """In time: pytest's limit ends what waits for a FIFO."""
    store = as_left("small_all_5.3.3", tmp_path)
    planted = store / place
    if planted.is_dir():
        shutil.rmtree(planted)
    planted.unlink(missing_ok=True)
    planted.parent.mkdir(parents=True, exist_ok=True)
    if shape in NOTES:
        planted.write_bytes(NOTES[shape])
    else:
        SHAPES[shape](planted)
    before = held(store)
    for command in READS:
        words = command.format(store=store, out=tmp_path / "out", place=planted).split()
        code = main(words + ["--rocketmq", "5.3.3"] * (words[0] not in ("dump", "clean")))
        said = capfd.readouterr()
        assert "Traceback" not in said.err + said.out, command
        errors = re.findall(r"^reput(?: \w+)?: (?!warning).*", said.err, re.M)
        assert code in (0, 1) or (code in (2, 3) and len(errors) == 1), (command, code, said.err)
        assert held(store) == before, command
