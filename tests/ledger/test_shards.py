"""What the plugin writes down, also of a test that hangs, a worker that dies, a pytest killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.ledger import batches, budget, records, sources
from tests.ledger.due import Due
from tests.ledger.projects import git, project

__all__ = ["project"]  # a fixture

PLUGIN = ["-q", "-p", "tests.ledger.plugin", "-p", "no:cacheprovider"]


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", *PLUGIN, *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)


def shard(folder: Path) -> Path:
    (found,) = records.shards(folder / ".ledger")
    return found


def wait_until_deaf(folder: Path) -> None:
    end = time.time() + 60
    while time.time() < end:
        for path in records.shards(folder / ".ledger"):
            if any("deaf" in test for test, *_ in records.started(path)):
                return
        time.sleep(0.05)
    raise TimeoutError


def verdicts(runs: Sequence[records.Run]) -> dict[str, str]:
    return {run.test.rpartition("::")[2]: run.verdict for run in runs}


def test_each_verdict_is_written_by_the_controller_of_two_workers(project: Path) -> None:
    assert start(project, "-n2", "checks/test_verdicts.py").wait(60) == 1
    runs = records.read_shard(shard(project))
    got = verdicts(runs)
    assert got.pop("checks/test_verdicts.py") in (
        "failed",
        "hang",
        "lost",
    )  # all quick ones of it
    assert got == {
        "test_ok": "ok", "test_failed": "failed", "test_skipped": "skipped", "test_expected": "ok",
        "test_that_cannot_end": "failed", "test_hang": "hang", "test_crash": "lost",
    }  # fmt: skip
    head = git(project, "rev-parse", "--short=9", "HEAD").strip()
    assert {run.commit for run in runs} == {head}
    assert {len(run.sources) for run in runs} == {8}
    assert [run.test for run in runs if run.long] == ["checks/test_verdicts.py::test_hang"]
    assert 0.9 < next(run.seconds for run in runs if "hang" in run.test) < 30


def test_a_pytest_that_is_killed_leaves_what_it_had_written(project: Path) -> None:
    process = start(project, "checks/test_slow.py")
    wait_until_deaf(project)
    assert verdicts(records.read_shard(shard(project))) == {"test_before": "ok"}
    assert records.is_held(shard(project))
    process.kill()
    process.wait()
    with shard(project).open("a") as file:
        file.write('{"test": "checks/test_slow.py::test_de')  # torn
    got = verdicts(records.read_shard(shard(project)))
    assert got == {"test_before": "ok", "test_deaf": "lost"}


def test_ctrl_c_is_no_fault_of_the_test(project: Path) -> None:
    process = start(project, "checks/test_slow.py")
    wait_until_deaf(project)
    os.kill(process.pid, signal.SIGINT)
    process.wait(30)
    assert verdicts(records.read_shard(shard(project)))["test_deaf"] == "cut"


def due(test: str, seconds: float = 1.0) -> Due:
    return Due(f"checks/{test}", False, None, "never run", seconds)


def run(project: Path, tests: list[Due], seconds: float) -> tuple[batches.Batches, float]:
    begun = time.time()
    made = batches.Batches(tests, begun + seconds, project)
    assert budget.run_all(made.next, begun + seconds, 1)
    return made, time.time() - begun


def test_what_hangs_in_spite_of_its_limit_is_killed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "LATE_SECONDS", 0.5)
    made, _ = run(project, [due("test_slow.py::test_deaf"), due("test_slow.py::test_before")], 60)
    got = verdicts(records.read_shard(shard(project)))
    assert got == {"test_before": "ok", "test_deaf": "hang"}
    assert made.red == 1
    assert (project / ".ledger/logs/checks.test_slow.py.txt").exists()


def test_nothing_begins_that_does_not_fit(project: Path) -> None:
    tests = [due("test_verdicts.py::test_ok", 500), due("test_slow.py::test_deaf", 80)]
    made = batches.Batches(tests, time.time() + 100, project)
    job = made.next()
    assert job is not None
    assert job.words[-1] == "checks/test_slow.py"
    assert made.next() is None


def test_a_budget_ends_in_time(tmp_path: Path) -> None:
    """One heeds ctrl-c, the other does not, and both have what they started with them."""
    ended: list[int | None] = []
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    jobs = iter(
        budget.Job(
            [sys.executable, "-c", f"{how}import time; print('here', flush=True); time.sleep(60)"],
            tmp_path / f"{number}.txt",
            ended.append,
        )
        for number, how in enumerate(["", deaf])
    )
    begun = time.time()
    grace, budget.GRACE_SECONDS = budget.GRACE_SECONDS, 1.0
    try:
        assert budget.run_all(lambda: next(jobs, None), begun + 2, 2)
    finally:
        budget.GRACE_SECONDS = grace
    assert ended == [None, None]
    assert time.time() - begun < 30


def test_a_batch_that_pauses_is_taken_up_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that nobody has timed are given to one pytest all, and what it leaves to another."""
    monkeypatch.setattr(batches, "START_SECONDS", -100)
    tests = [due(f"test_verdicts.py::test_{name}") for name in ("ok", "failed", "expected")]
    made, _ = run(project, tests, 60)
    assert len(records.shards(project / ".ledger")) == 3
    assert made.begun == {each.test for each in tests}
    assert made.red == 1


def test_no_ledger_of_a_tree_without_git_nor_of_a_seed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPUT_SEED", "1")
    assert start(project, "checks/test_verdicts.py::test_ok").wait(60) == 0
    assert not (project / ".ledger").exists()
    (project / ".git").rename(project / "git")
    assert sources.commit(project) is None
