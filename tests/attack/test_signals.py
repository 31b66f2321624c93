"""Commands that are ended: one line, the signal's code, and nothing of theirs stays behind."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.clean import clean
from reput.jobs.engines import folders
from reput.store_format.names import MANIFEST
from tests.golden_stores import unpack
from tests.processes import runs, tree, until

SIZES = ("--rocketmq", "5.3.3", "--set", "mappedFileSizeCommitLog=16777216")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short $TMPDIR of our own."""
    folder = Path(folders._ALWAYS) / f"r{os.getpid()}{time.monotonic_ns() % 10**6}"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder  # type: ignore[misc]
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def start(output: Path, engine: str = "spark") -> subprocess.Popen[str]:
    """A rebuild."""
    store = unpack("broker_clean_5.3.3").root / "input"
    return subprocess.Popen([sys.executable, "-m", "reput", "rebuild", str(store), "--output",
                             str(output), *SIZES, "--engine", engine], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip


def wait_for(process: subprocess.Popen[str], what: Callable[[], object]) -> None:
    assert until(lambda: process.poll() is not None or bool(what()))


def wait_for_session(process: subprocess.Popen[str], temporary: Path) -> None:
    """Until its JVM and session are there, or nearly."""
    wait_for(process, lambda: list(temporary.glob("reput-spark-*/blockmgr-*")))


def wait_for_staging(process: subprocess.Popen[str], folder: Path) -> None:
    """Until its staging folder is there: processes of this machine are about to run tasks."""
    wait_for(process, lambda: list(folder.iterdir()))


def without_progress(errors: str) -> list[str]:
    """What stands on standard error but lines of progress, which a busy machine has time for."""
    reported = r"reput: (\w+ .* s( left)?|compiling kernels, .*)"
    return [line for line in errors.splitlines() if not re.fullmatch(reported, line)]


def gone(processes: list[int]) -> bool:
    return until(lambda: not any(map(runs, processes)))


@pytest.mark.parametrize("moment", [None, 0.0, 0.3])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_processes_of_this_machine(tmp_path, temporary, number, moment) -> None:
    """None: as soon as there is a process below it, which still imports what it needs."""
    process = start(tmp_path / "out", "local")
    if moment is None:
        wait_for(process, lambda: len(list(tree(process.pid))) > 2)
    else:
        wait_for_staging(process, tmp_path)
        time.sleep(moment)
    processes = list(tree(process.pid))
    os.killpg(process.pid, number)
    said, errors = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was done before the signal came")
    assert (process.returncode, said) == (128 + number, "")
    assert without_progress(errors) == [f"reput: error: ended by {number.name}"]
    assert gone(processes)
    assert list(temporary.iterdir()) == []
    # nothing, or all of it: the signal may come between publishing, the last step, and the end
    for left in tmp_path.iterdir():
        assert left.name == "out"
        assert (left / MANIFEST).is_file()


def test_nothing_runs_on_when_a_command_is_killed(tmp_path: Path, temporary: Path) -> None:
    process = start(tmp_path / "out", "local")
    wait_for_worker(process)
    processes = list(tree(process.pid))
    process.kill()
    process.communicate(timeout=60)
    assert gone(processes)
    (left,) = temporary.iterdir()  # for the socket of the process that forks: `clean` finds it
    assert str(left) in folders.abandoned_session_folders()
    assert folders.remove_session_folder(str(left))


def wait_for_worker(process: subprocess.Popen[str]) -> None:
    """Until there is a child of the process that forks them."""
    ours = process.pid, parent(process.pid)
    wait_for(process, lambda: any(parent(pid) not in ours for pid in tree(process.pid)))


def parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return os.getpid()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(("number", "moment"), [
    (signal.SIGINT, 1.0), (signal.SIGTERM, 0.0), (signal.SIGHUP, 2.0)])  # fmt: skip
def test_a_signal_ends_with_one_line_and_leaves_nothing(
    tmp_path: Path, temporary: Path, number: signal.Signals, moment: float
) -> None:
    process = start(tmp_path / "out")
    wait_for_session(process, temporary)
    time.sleep(moment)
    processes = list(tree(process.pid))
    os.killpg(process.pid, number)  # as a terminal does it: to the JVM and the daemon as well
    said, errors = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was done before the signal came")
    assert (process.returncode, said) == (128 + number, "")
    assert without_progress(errors) == [f"reput: error: ended by {number.name}"]
    assert gone(processes)
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.spark
def test_a_killed_jvm_is_named(tmp_path: Path, temporary: Path) -> None:
    process = start(tmp_path / "out")
    wait_for_session(process, temporary)
    for each in tree(process.pid):
        if Path(f"/proc/{each}/comm").read_text() == "java\n":
            os.kill(each, signal.SIGKILL)
            break
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said) == (3, "")
    (line,) = without_progress(errors)
    assert line.startswith("reput: error: the Java process ended, killed by SIGKILL: ")
    assert list(temporary.iterdir()) == []


@pytest.mark.long
@pytest.mark.spark
def test_the_next_session_removes_what_a_killed_one_left(tmp_path: Path, temporary: Path) -> None:
    process = start(tmp_path / "out")
    wait_for_session(process, temporary)
    processes = list(tree(process.pid))
    process.kill()
    process.communicate(timeout=60)
    assert gone(processes)  # nothing runs on, though nobody could tell it to end
    (left,) = temporary.glob("reput-spark-*")
    done = start(tmp_path / "out")
    _, errors = done.communicate(timeout=120)
    assert (done.returncode, without_progress(errors)) == (0, [])
    assert not left.exists()


def test_clean_removes_folders_of_killed_sessions(temporary: Path, tmp_path: Path) -> None:
    left, let_go = folders.make_session_folder()
    let_go()
    assert left in clean(str(tmp_path), dry_run=True).sessions
    assert os.path.exists(left)
    clean(str(tmp_path))
    assert not os.path.exists(left)
