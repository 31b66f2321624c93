"""What lies in the current folder is data: no process of ours imports a module from there."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput.jobs.cli import main
from tests import golden_stores
from tests.golden_stores import unpack
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

SECONDS = 30  # the first command of a process loads kernels
STORE = "small_all_5.3.3"
NOTES = {"list": b"[]", "null": b"null", "number": b"17", "cut": b'{"topicConfigTable": {',
         "other shape": b'{"topicConfigTable": [1], "settings": 5, "rocketmq": [], "damage": 1}',
         "empty": b"", "not UTF-8": b'{"a": "\xff\xfe"}', "NULs": b"\0" * 4096,
         "deep": b"[" * 100_000 + b"]" * 100_000}  # fmt: skip


class HangError(Exception):
    """A command did not end in time."""


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("device files are made by root alone")


def _note(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


SHAPES: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo, "socket": _socket, "device": _device, "folder": Path.mkdir,
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": lambda path: path.symlink_to("/nonexistent/file"),
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero")}  # fmt: skip
NOTE_SHAPES = {name: _note(content) for name, content in NOTES.items()}
# Places by what is there: {topic} and {index} stand for the first that the store has.
PLACES = ("commitlog/{segment}", "commitlog/notes", "consumequeue", "consumequeue/planted",
          "consumequeue/{topic}", "consumequeue/{topic}/0", "consumequeue/{topic}/0/planted",
          "consumequeue/{topic}/0/{segment}", "index", "index/{index}", "index/planted", "config",
          "config/topics.json", "checkpoint", "abort", "lock", "manifest.json",
          ".reput-install-planted", ".reput-planted", "batchconsumequeue")  # fmt: skip
NOTE_PLACES = ("config/topics.json", "checkpoint", "abort", "manifest.json", ".reput-planted")
READS = (
    ("rebuild", "{store}", "--output", "{out}"), ("verify", "{store}"), ("check", "{store}"),
    ("recover", "{store}", "--dry-run"), ("repair", "{store}", "--output", "{out}"),
    ("clean", "{store}", "--dry-run"), ("dump", "{place}"))  # fmt: skip


@contextmanager
def in_time() -> Iterator[None]:
    """Raise HangError in what runs longer; a signal ends a call into the kernel as well."""

    def ended(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGUSR2, ended)
    timer = threading.Timer(SECONDS, os.kill, (os.getpid(), signal.SIGUSR2))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR2, before)


def _store(folder: Path) -> tuple[Path, list[str], dict[str, str]]:
    """A whole store with its derived files, the words of its settings, what places stand for."""
    golden = golden_stores.unpack(STORE)
    store = folder / "store"
    shutil.copytree(golden.input, store)
    for derived in golden.expect.iterdir():
        target = store / derived.name
        if derived.is_dir():
            shutil.copytree(derived, target, dirs_exist_ok=True)
        else:
            shutil.copy(derived, target)
    words = ["--rocketmq", golden.version]
    for name, value in golden.settings.items():
        words += ["--set", f"{name}={json.dumps(value).strip(chr(34))}"]
    queues = (p.parent.name for p in sorted(store.glob("consumequeue/*/0/")))
    stands = {"segment": "0" * 20, "topic": next(queues),
              "index": sorted(p.name for p in (store / "index").iterdir())[0]}  # fmt: skip
    return store, words, stands


def _plant(place: Path, shape: Callable[[Path], None]) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shape(place)


def _cases() -> list[tuple[str, str]]:
    """At each place two shapes and two notes, by turns."""
    return [(place, [*of][(number + more) % len(of)]) for places, of in ((PLACES, SHAPES),
                                                                         (NOTE_PLACES, NOTE_SHAPES))
            for number, place in enumerate(places) for more in (0, 3)]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("place", "shape"), _cases())
def test_what_is_planted_is_named_or_passed_by(
    place: str, shape: str, tmp_path: Path, commands_in_process: None,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    store, words, stands = _store(tmp_path)
    planted = store / place.format(**stands)
    _plant(planted, {**SHAPES, **NOTE_SHAPES}[shape])
    before = held(store)
    wrong = []
    for number, command in enumerate(READS):
        output = tmp_path / f"out{number}"
        line = [word.format(store=store, out=output, place=planted) for word in command]
        if command[0] not in ("dump", "clean"):
            line += words
        said = _run(line, capfd)
        if said:
            wrong.append(f"{command[0]}: {said}")
        if held(store) != before:
            wrong.append(f"{command[0]}: the store was changed")
            break
    assert not wrong, "\n".join(wrong)


def _run(line: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """What is wrong with how a command ended; empty where nothing is."""
    began = time.monotonic()
    try:
        with in_time():
            code = main(line)
    except HangError:
        return f"did not end in {SECONDS} s"
    except SystemExit as error:
        code = int(str(error.code or 0))
    except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked for
        return f"{type(error).__name__} after {time.monotonic() - began:.1f} s: {str(error)[:200]}"
    finally:
        said = capfd.readouterr()
    errors = [text for text in said.err.splitlines() if re.match(r"reput( \w+)?: ", text)
              and ": warning" not in text]  # fmt: skip
    if "Traceback" in said.err + said.out:
        return "a trace"
    if code in (2, 3) and len(errors) != 1:
        return f"exit code {code} with {len(errors)} lines: {said.err[-200:]}"
    return "" if code in (0, 1, 2, 3) else f"exit code {code}"
