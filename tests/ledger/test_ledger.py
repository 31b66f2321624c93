"""What is due, what becomes of a run, and that a budget ends in time, in projects of their own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ledger import batches, budget, digests, records
from tests.ledger.__main__ import FAILURES, explore
from tests.ledger.records import Run

FILES = {
    "tests/test_layers.py": 'LAYERS = (\n    "low",\n    "mid mid/side",\n    "top",\n)\n',
    "tests/mid/test_b.py": "from tests.help import golden\nTOOL = 'scripts/tool.sh', 'ledger'\n",
    "tests/low/test_a.py": "from reput.mid import b\n", "tests/low/test_run.py": "['reput']\n",
    "tests/test_all.py": "", "tests/help/golden.py": "STORES = HERE / 'stores'\n",
    "tests/conftest.py": "", "tests/mid/data/x.bin": "", "tests/stores/x.bin": "",
    "low/a.py": "", "mid/b.py": "", "mid/side/c.py": "", "top/d.py": "", "scripts/tool.sh": "",
    "docs/a.md": "", "tests/ledger/records/long.tsv": "", "pyproject.toml": "",
    "requirements/x.lock": "", ".gitignore": ".ledger/\n",
}  # fmt: skip
A, B, ALL = "tests/low/test_a.py", "tests/mid/test_b.py", "tests/test_all.py"
RUN, X = "tests/low/test_run.py", "checks/test_x.py::test_"
CHECKS = """
import os, signal, time, pytest

def test_ok(): pass
def test_failed(): assert 1 == 2
def test_skipped(): pytest.skip("not here")
@pytest.mark.xfail(reason="known")
def test_expected(): assert 0
@pytest.fixture
def broken():
    yield
    raise OSError("no end")
def test_that_cannot_end(broken): pass
@pytest.mark.timeout(1)
def test_hang(): time.sleep(600)
@pytest.mark.timeout(1)
def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(600)
def test_crash(): os._exit(3)
def test_slow(): time.sleep(600)
def test_odd(): assert os.environ["REPUT_SEED"] == "1"
"""


def git(folder: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.check_output([*named, *words], cwd=folder, text=True)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings = "[pytest]\ntimeout = 50\nmarkers =\n    long: takes minutes\n"
    checks = {"checks/test_x.py": CHECKS, "conftest.py": GRACE, "pytest.ini": settings}
    write(tmp_path, {**FILES, **checks})
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    monkeypatch.setenv("PYTHONPATH", str(digests.ROOT))
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p tests.ledger.plugin -p tests.scheduling")
    monkeypatch.setattr(batches, "START_SECONDS", 0.0)
    return tmp_path


HANGS = """
import collections, itertools, os, time, pytest

@pytest.fixture
def deaf():
    yield
    time.sleep(600)
def test_before(): pass
@pytest.mark.timeout(1)
def test_c(): # in C, with a fork that holds xdist's pipe
    if os.fork() == 0:
        time.sleep(600)
    collections.deque(itertools.repeat(0), 0)
@pytest.mark.timeout(1)
def test_end(deaf): time.sleep(600)
def test_after(): pass
"""
GRACE = "from tests.ledger import plugin\nplugin.GRACE_SECONDS = 1\n"


def test_a_hang_is_named_and_the_run_goes_on(project: Path) -> None:
    """Where no signal is answered, in two processes at once, and in what waits after the limit."""
    write(project, {"hangs/test_y.py": HANGS, "hangs/test_z.py": HANGS})
    began = time.monotonic()
    words = "-m pytest -rfE -n 2 --dist loadfile --no-loadscope-reorder hangs"
    said = subprocess.run(
        [sys.executable, *words.split()], cwd=project, text=True, capture_output=True, timeout=300
    )
    assert time.monotonic() - began < 300, said
    for each in ("y", "z"):
        for test in ("c", "end"):
            name = f"hangs/test_{each}.py::test_{test}"
            assert re.search(f"FAILED {name} - worker 'gw.' crashed", said.stdout), said
            assert f": '{name}'" in said.stderr
    assert re.search(r"6 failed, 4 passed", said.stdout), said


# What is due, and the files each of whose changes makes it so.
CHANGES: list[tuple[set[str], str]] = [
    ({A, B, ALL, RUN}, "mid/b.py mid/assets/new.js"),  # the folder, also of who imports it
    ({A, B, ALL, RUN}, "low/a.py"),  # below
    ({A, B, ALL, RUN}, "pyproject.toml requirements/x.lock tests/conftest.py"),
    ({ALL, RUN}, "mid/side/c.py top/d.py"),  # beside and above: of no room, or by the command
    ({B}, "tests/mid/test_b.py tests/mid/data/x.bin tests/help/golden.py"),
    ({B}, "scripts/tool.sh tests/stores/x.bin"),  # by name, the latter in a helper
    (set(), "tests/mid/test_other.py tests/ledger/records/long.tsv docs/a.md"),
]


def test_a_change_makes_due_what_may_see_it(project: Path) -> None:
    def now() -> set[str]:
        found = records.now(before, runs, digests.Tree(project))
        return {each.test for each in found if each.verdict == "changed since"}

    before = {test: digests.Tree(project).digest(test) for test in (A, B, ALL, RUN)}
    runs = {test: Run(test, "ok", 1.0, "c", was, "1") for test, was in before.items()}
    for due, path in ((due, path) for due, paths in CHANGES for path in paths.split()):
        assert now() == set(), path
        write(project, {path: FILES.get(path, "") + "# changed\n"})
        assert now() == due, path
        git(project, "add", ".")  # what is committed is no other than what is not
        assert now() == due, path
        git(project, "reset", "-q", "--hard")
    assert digests.Tree().digest("tests/conftest.py")  # the real table of layers is read


def test_what_is_due_comes_first_and_longest_first(project: Path) -> None:
    tests, on = [f"{B}::test_{n}" for n in range(5)], digests.Tree(project).digest(B)
    given = [
        (0, "ok", 8, on, "1"), (0, "cut", 1, on, "2"), (1, "ok", 4, "older", "4"),
        (2, "failed", 4, on, "0"), (2, "cut", 1, on, "1"), (3, "ok", 2, "older", "3"),
    ]  # fmt: skip
    runs = [Run(tests[n], verdict, took, "c", digest, at) for n, verdict, took, digest, at in given]
    found = records.now(tests, records.newest(runs), digests.Tree(project))
    assert [(each.test[-1], each.verdict, each.seconds) for each in found] == [
        ("4", "never run", 60), ("3", "changed since", 2), ("1", "changed since", 4),
        ("2", "failed", 4), ("0", "ok", 8),
    ]  # fmt: skip


def test_of_two_records_of_a_test_the_newer_run_is_kept(project: Path) -> None:
    """A merge keeps both sides' lines (.gitattributes)."""
    one, two = (Run(f"{B}::test_{number}", "ok", 1.0, "c", "d", "1") for number in (1, 2))
    newer, newest = one._replace(at="3"), two._replace(at="4", verdict="hang")
    records.keep([one, two, newest, one._replace(at="2", verdict="failed"), newer], root=project)
    assert [*records.keep([], root=project).values()] == [newer, newest]
    assert [*records.keep([], {two.test}, project)] == [two.test]  # the other is gone
    (project / B).unlink()
    assert records.keep([], root=project) == {}


def test_each_verdict_is_on_record(project: Path) -> None:
    wanted = {
        "ok": "ok", "failed": "failed", "skipped": "skipped", "expected": "ok", "hang": "hang",
        "that_cannot_end": "failed", "deaf": "hang", "crash": "lost",
    }  # fmt: skip
    tests = [X + name for name in wanted]
    made = batches.Batches([Run(test, "never run", 1.0) for test in tests], 1e12, project)
    assert budget.run_all(made.next, 1e12, 1)
    runs = records.keep([], root=project)
    assert [runs[test].verdict for test in tests] == [*wanted.values()]
    head = git(project, "rev-parse", "--short=9", "HEAD").strip()
    assert {run[3:5] for run in runs.values()} == {(head, digests.Tree(project).digest(X[:16]))}
    assert (made.red, 1 < runs[tests[6]].seconds < 300) == (5, True)
    assert [*project.glob(".ledger/logs/batch-*.txt")]


def test_the_end_cuts_what_runs(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test heeds ctrl-c, the other process does not; a longer test does not fit."""
    monkeypatch.setattr(budget, "GRACE_SECONDS", 3.0)
    slow, long = Run(X + "slow", "", 4), Run(X + "ok", "", 99)
    made = batches.Batches([long, slow], time.time() + 60, project)
    deaf = "trap '' INT; echo $$; while true; do sleep 1; done"
    jobs = [budget.Job(["sh", "-c", deaf], project / "deaf.txt", print)]

    def next_job() -> budget.Job | None:
        if any("slow" in path.read_text() for path in project.glob(".ledger/batch-*")):
            raise KeyboardInterrupt
        return jobs.pop() if jobs else made.next()

    assert not budget.run_all(next_job, time.time() + 60, 3)
    assert (made.verdicts, made.red) == ({slow.test: "cut"}, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "deaf.txt").read_text()), 0)


def test_a_seed_that_fails_is_written_with_the_line_that_repeats_it(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(next_job: Callable[[], budget.Job | None], until: float, cores: int) -> bool:
        jobs = iter([next_job(), next_job(), next_job()])  # the third finds none that does not run
        return run_all(lambda: next(jobs, None), until, cores)

    run_all = budget.run_all
    monkeypatch.setattr(budget, "run_all", once)
    assert explore([X + "odd", X + "skipped"], 1e12, 2, project) == 1
    seed, test = (project / FAILURES).read_text().splitlines()[0].split("\t")[2:]
    words = f".venv/bin/python -m pytest -n0 --hypothesis-seed={seed} '{test}'"
    said = capsys.readouterr().out
    assert f"REPUT_SEED={seed} {words}" in said
    assert "1 skipped" in said
