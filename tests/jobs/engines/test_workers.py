"""What is said when no worker can be started, and what workers are given."""

import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from reput.jobs.engines.engine import EngineFailed
from reput.jobs.engines.workers import failures_said, of_workers

ROOT = Path(__file__).parents[3]


def test_whatever_keeps_a_process_from_being_started_is_one_error() -> None:
    for error in (
        OSError(24, "Too many open files"), EOFError("gone"),
        RuntimeError("can't start new thread"), BlockingIOError(11, "unavailable"),
    ):  # fmt: skip
        with pytest.raises(EngineFailed) as failed, failures_said():
            raise error
        assert str(failed.value) == f"no worker process can be started: {error}"
        assert failed.value.__cause__ is error
    for other in (BrokenProcessPool("x"), NotImplementedError(), RecursionError(), ValueError("x")):
        with pytest.raises(type(other)) as raised, failures_said():
            raise other
        assert raised.value is other


def test_workers_find_our_packages_and_have_no_threads_of_openblas(monkeypatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
    given = of_workers()
    assert given["OPENBLAS_NUM_THREADS"] == "1"
    assert any((Path(folder) / "reput").exists() for folder in given["PYTHONPATH"].split(":"))
    assert os.environ["OPENBLAS_NUM_THREADS"] == "8"


def test_a_command_leaves_no_semaphores(tmp_path: Path) -> None:
    """Python's resource tracker says on standard error what a process has left."""
    script = (
        "import sys; from reput.jobs.cli import command; "
        "from reput.jobs.engines.workers import Workers, prepare; "
        "prepare(); held = Workers().SimpleQueue(); "
        "sys.argv = ['reput', 'dump', sys.argv[1]]; command()"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "missing")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "leaked" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_forkserver_that_was_told_to_end_is_no_zombie() -> None:
    """In a process of its own: here a pool of other tests may still live on the forkserver."""
    script = (
        "from reput.jobs.engines.workers import let_go, prepare; "
        "from tests.leftovers import left_since, open_now; "
        "before = open_now(); prepare(); let_go(); print(left_since(before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("\n", "")
