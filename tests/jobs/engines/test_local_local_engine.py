"""The local engine's processes: how they fail, end and are started, and what of the caller's they
take along."""

import inspect
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from reput.jobs.engines.engine import Engine, EngineFailed
from reput.jobs.engines.local import _raised, local_engine, packed, unpacked
from reput.udfs.staging import schema
from tests.jobs.engines import tasks
from tests.jobs.engines.tasks import ROW, SAID, Fail, Say
from tests.processes import until

ROOT = Path(__file__).parents[3]


def children() -> list[int]:
    """Processes that the process which forks workers has: all that are left, of all engines."""
    from multiprocessing import forkserver

    from reput.jobs.engines.workers import prepare

    prepare()
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return below(server)[1:]


@pytest.fixture
def one() -> Iterator[Engine]:
    """An engine of the test's own."""
    with local_engine(2) as engine:
        yield engine


@pytest.mark.parametrize(("how", "attempts", "says"), [
    ("os_error", 4, "[Errno 5] no answer: '/a/b'"),
    ("value_error", 1, "ValueError: not a number"), ("not_pickled", 1, "Odd: odd"),
    ("sys_exit", 1, "SystemExit: 7"), ("interrupted", 1, "KeyboardInterrupt: "),
    ("os_exit", 1, "a worker process was killed"), ("killed", 1, "a worker process was killed"),
])  # fmt: skip
def test_what_fails_in_a_task_fails_the_job(one, tmp_path, how, attempts: int, says: str) -> None:
    before = set(children())
    made = one.numbers(range(6)).run(Say(Fail(how, str(tmp_path))), SAID)
    with pytest.raises(EngineFailed) as failed:
        made.collect()
    assert str(failed.value).startswith(says)
    assert "\n" not in str(failed.value)
    assert (tmp_path / "attempts").read_text() == "x" * attempts
    assert until(lambda: set(children()) <= before)  # no task still runs
    assert len(one.numbers(range(2)).run(Say(str), SAID).collect()) == 2  # used again


def test_a_worker_is_killed_while_rows_are_on_their_way(one: Engine, tmp_path: Path) -> None:
    """More than a pipe holds waits for workers that are gone."""
    wide = schema(id=pa.int64(), text=pa.string())
    rows = pa.Table.from_pylist([{"id": n, "text": "x" * (1 << 20)} for n in range(12)], wide)
    made = one.table(rows, 12).run(Say(Fail("killed", str(tmp_path))), SAID)
    with pytest.raises(EngineFailed, match="a worker process was killed"):
        made.collect()


def test_workers_do_not_grow_and_a_result_may_be_large(local: Engine) -> None:
    found = local.numbers(range(4)).run(Say(tasks.large), SAID).collect()
    assert [len(row["said"]) for row in found] == [4 << 20] * 4
    found = local.numbers(range(24)).run(Say(tasks.memory), SAID).collect()
    by_worker: dict[str, list[int]] = {}
    for row in sorted(found, key=lambda row: row["id"]):
        worker, kib = row["said"].split()
        by_worker.setdefault(worker, []).append(int(kib))
    assert len(by_worker) <= 2
    for held in by_worker.values():
        assert held[-1] - min(held[:3]) < 48 << 10, held  # KiB; a task's own 32 MiB may stay


def test_a_worker_sees_the_caller_as_it_is_now(tmp_path, monkeypatch) -> None:
    for number, mask in enumerate((0o027, 0o077)):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        monkeypatch.setenv("TOLD", str(number))
        before = os.umask(mask)
        try:
            with local_engine(1) as engine:
                (row,) = engine.numbers(range(1)).run(Say(tasks.surroundings), SAID).collect()
        finally:
            os.umask(before)
        # and not the caller's script, which would run again
        assert row["said"] == f"{number} {mask:o} {tmp_path / str(number)} None"


def test_engines_in_many_threads_and_the_caller_s_main_module() -> None:
    """Two jobs at once, while another thread asks for what is in the caller's script."""
    main, environment, over = sys.modules["__main__"], dict(os.environ), threading.Event()
    wrong, pids = [], []
    kept = main.marker = object()  # type: ignore[attr-defined]

    def look() -> None:
        while not over.is_set():
            if getattr(sys.modules["__main__"], "marker", None) is not kept:
                wrong.append(sys.modules["__main__"])

    def job() -> None:
        for _ in range(2):
            with local_engine(2) as engine:
                found = engine.numbers(range(4)).run(Say(tasks.pid), SAID).collect()
                pids.append({row["said"] for row in found})

    watch = threading.Thread(target=look)
    threads = [threading.Thread(target=job) for _ in range(3)]
    for thread in (watch, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    watch.join()
    assert len(pids) == 6
    assert not wrong
    assert sys.modules["__main__"] is main
    assert dict(os.environ) == environment
    del main.marker


PROGRAM = """
import json, multiprocessing, os, sys, threading
from pathlib import Path
from reput.jobs.engines.local import local_engine
from tests.jobs.engines import tasks
from tests.jobs.engines.tasks import SAID, Say

print("top")
def job(what="str"):
    with local_engine(2) as engine:
        say = str if what == "str" else getattr(tasks, what)
        print(what, len(engine.numbers(range(3)).run(Say(say), SAID).collect()), flush=True)
"""


def program(text: str, *words: object, **env: str) -> "subprocess.Popen[str]":
    """A program without a guard of `__name__`, in a session of its own."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, *map(str, words), "-c", PROGRAM + text],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, **env},
    )  # fmt: skip


def below(pid: int) -> list[int]:
    """A process and all that it and its own have started."""
    found = [pid]
    for each in found:
        try:
            for thread in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return found


def in_session(session: int) -> list[int]:
    """Living processes of a session: what is left of a program, whoever is its parent now."""
    found = []
    for path in Path("/proc").iterdir():
        try:
            about = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if about[0] != "Z" and int(about[3]) == session:
            found.append(int(path.name))
    return found


def all_gone(session: int) -> bool:
    return until(lambda: not in_session(session))


def wait_for_workers(process: "subprocess.Popen[str]", count: int) -> None:
    """Until as many processes run below it: who forks, who tracks resources, and workers."""
    assert until(lambda: process.poll() is not None or len(below(process.pid)) >= count)
    assert process.poll() is None, process.communicate()


SLEEPING = 'job("sleep")'


def test_ctrl_c_in_a_program(tmp_path: Path) -> None:
    text = "try:\n    job('sleep')\nexcept KeyboardInterrupt:\n    print('ended')\njob()"
    process = program(text, TMPDIR=str(tmp_path))
    wait_for_workers(process, 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert said.split("\n")[1:] == ["ended", "str 3", ""]
    assert all_gone(process.pid)
    assert list(tmp_path.iterdir()) == []


def test_who_forks_is_killed(tmp_path: Path) -> None:
    process = program(SLEEPING, TMPDIR=str(tmp_path))
    wait_for_workers(process, 5)
    (server,) = {
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        for pid in below(process.pid)[3:]
    }
    os.kill(int(server), signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    # one of them may have been about to start
    assert re.search("EngineFailed: (a|no) worker process (was killed|can be started): ", errors)
    assert all_gone(process.pid)


FORKS = """
job()
context = multiprocessing.get_context("fork")
for daemon in (False, True):  # a daemonic process may have no children
    child = context.Process(target=job, daemon=daemon)
    child.start()
    child.join()
    assert child.exitcode == 0
child = os.fork()
if not child:
    job()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
job()
"""


OTHERS = """
def theirs():
    print("theirs")
context = multiprocessing.get_context("forkserver")
process = context.Process(target=print, args=("theirs",))
process.start()
process.join()
job()
print(os.listdir(os.environ["TMPDIR"])[0][:5])
"""
PROGRAMS = {
    # Python 3.12 and later warn of each fork of a process that has threads, as pyarrow's.
    "forks": (FORKS, "-Wignore::DeprecationWarning", "top\n" + "str 3\n" * 5, 0),
    "a forking process of its own": (OTHERS, "-P", "top\ntheirs\nstr 3\npymp-\n", None),
    # a Unix socket's path may have 107 bytes
    "a long folder of temporary files": ("job()", "-P", "top\nstr 3\n", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_forks_or_has_processes_of_its_own(tmp_path: Path, name: str) -> None:
    text, word, wanted, left = PROGRAMS[name]
    folder = tmp_path / ("x" * 120 if "long" in name else "x")
    folder.mkdir()
    process = program(text, word, TMPDIR=str(folder))
    said, errors = process.communicate(timeout=120)
    assert (process.returncode, errors, said) == (0, "", wanted)
    assert left is None or len(list(folder.iterdir())) == left


FORKED_MEANWHILE = """
thread = threading.Thread(target=job, args=("sleep",), daemon=True)
thread.start()
import time
while len(below(os.getpid())) < 5:
    time.sleep(0.02)
if not os.fork():
    os.closerange(0, 3)
    time.sleep(600)
os._exit(0)
"""


def test_who_was_forked_meanwhile_keeps_no_worker() -> None:
    process = program(inspect.getsource(below) + FORKED_MEANWHILE)
    process.wait(60)
    until(lambda: len(in_session(process.pid)) <= 2)
    left = in_session(process.pid)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(left) == 2  # it, and who tracks resources for it


BROKEN = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
from reput.jobs.engines.engine import EngineFailed
try:
    job()
except EngineFailed as error:
    print(error)
"""


def test_too_few_open_files() -> None:
    said, errors = program(BROKEN).communicate(timeout=60)
    assert errors == ""
    assert said.startswith("top\nno worker process can be started: [Errno 24] ")


def test_kernels_that_cannot_be_kept(tmp_path: Path) -> None:
    """Who forks compiles them (tens of seconds), and ends when nobody waits for it any more."""
    cache = tmp_path / "cache"
    cache.mkdir()
    process = program("job()", NUMBA_CACHE_DIR=str(cache), REPUT_CACHE=str(cache))
    wait_for_workers(process, 3)
    until(lambda: any(cache.rglob("*.nbi")) or process.poll() is not None)
    assert process.poll() is None
    process.kill()
    assert all_gone(process.pid)  # nothing outlives a killed program
    process.communicate(timeout=60)


# --- How tasks and rows go to a worker and come back: small, and as they were.
def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"key": n, "word": None if n % 3 else "w" * n, "value": -n} for n in range(count)], ROW
    )


def test_batches_come_back_as_they_were_and_of_a_slice_only_its_own_rows_are_sent() -> None:
    for many in ([rows(3)], [rows(3), rows(0), rows(5)], [rows(0)]):
        back = list(unpacked(packed(many)))
        assert back == many
        assert all(batch.schema.equals(ROW) for batch in back)
    assert packed([]) == b""
    assert list(unpacked(b"")) == []
    whole = rows(2000)
    part = whole.slice(700, 2)
    assert list(unpacked(packed([part]))) == [part]
    assert len(packed([part])) < len(packed([whole])) // 100
    assert len(packed([part])) < len(pickle.dumps(part))
    raised = _raised(FileNotFoundError(2, "no such file", "/a/b"))
    assert raised[:2] == ("StoreChanged", "/a/b: is gone; it was there when the work began")
