"""The ledger's tables: folded from shards, merged by git, and what they say is due."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.ledger import budget, covers, due, explore, records
from tests.ledger.__main__ import slowest, tell
from tests.ledger.code import code
from tests.ledger.projects import git, project
from tests.ledger.records import Run
from tests.ledger.sources import ROOT, Tree

__all__ = ["project"]  # a fixture

A, B = "tests/one/test_a.py::test_1[x y-\\u2713]", "tests/one/test_a.py::test_2"


def run(
    test: str = A, verdict: str = "ok", at: str = "1", sources: str = "s", **more: float
) -> Run:
    return Run(test, verdict, more.get("seconds", 1.0), "c", sources, at, "", True)


def write_shard(folder: Path, *runs: Run, name: str = "1.jsonl", whole: bool = False) -> None:
    folder.mkdir(exist_ok=True)
    lines = [{"commit": "c", "at": 0, "sources": {each.file: each.sources for each in runs}}]
    for each in runs:
        reported = {"test": each.test, "verdict": each.verdict, "seconds": each.seconds}
        lines.append({**reported, "at": float(each.at), "why": "because", "long": each.long})
    lines.append({"end": 0, "whole": whole, "verdict": "lost", "at": 9.0})
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def tree_with(tmp_path: Path) -> Path:
    (tmp_path / "tests/one").mkdir(parents=True)
    (tmp_path / "tests/one/test_a.py").write_text("")
    return tmp_path


def test_shards_are_folded_into_a_table_a_folder(tmp_path: Path) -> None:
    root = tree_with(tmp_path)
    folder, tables = root / ".ledger", root / "records"
    quick = run("tests/one/test_a.py::test_q", at="3")._replace(long=False)
    skipped = run("tests/one/test_a.py::test_s", "skipped", at="4")._replace(long=False)
    write_shard(folder, run(at="1", verdict="failed"), run(B, at="2"), name="1.jsonl")
    write_shard(folder, run(at="2"), quick, skipped, name="2.jsonl", whole=True)
    records.fold(None, folder, tables, root)
    assert (tables / "one.tsv").read_text() == (
        "one/test_a.py\tpartly\t2.0\tc\ts\t1970-01-01T00:00:04\n"
        f"{A[6:]}\tok\t1.0\tc\ts\t1970-01-01T00:00:02\n"
        f"{B[6:]}\tok\t1.0\tc\ts\t1970-01-01T00:00:02\n"
    )
    assert records.shards(folder) == []
    assert records.read(folder, tables)[quick.test].why == "because"  # stays on this machine
    records.fold({B: True}, folder, tables, root)
    assert [line[:20] for line in (tables / "one.tsv").read_text().splitlines()] == [
        "one/test_a.py\tpartly", B[6:26],
    ]  # fmt: skip
    (root / "tests/one/test_a.py").unlink()
    records.fold(None, folder, tables, root)
    assert (tables / "one.tsv").read_text() == ""


def test_a_merge_of_two_ledgers_keeps_the_newer_run(tmp_path: Path) -> None:
    table = tmp_path / "tests/ledger/records/one.tsv"
    shutil.copy(ROOT / ".gitattributes", tmp_path)
    records.write_table(table, [run(at="1"), run(B, at="1")])
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "checkout", "-qb", "other")
    records.write_table(table, [run(at="3"), run(B, at="2")])
    git(tmp_path, "commit", "-qam", "other")
    git(tmp_path, "checkout", "-q", "main")
    records.write_table(table, [run(at="2", verdict="failed"), run(B, "failed", at="4")])
    git(tmp_path, "commit", "-qam", "ours")
    git(tmp_path, "merge", "-q", "other")
    found = records.newest(records.read_table(table))
    assert {test: (each.verdict, each.at) for test, each in found.items()} == {
        A: ("ok", "3"), B: ("failed", "4"),
    }  # fmt: skip


def test_a_skip_takes_no_proof_away() -> None:
    assert records.newest([run(at="1"), run(at="2", verdict="skipped")])[A].green
    changed = run(at="2", verdict="skipped", sources="other")
    assert not records.newest([run(at="1"), changed])[A].green
    assert not records.newest([run(at="1"), run(at="2", verdict="hang")])[A].green


class _Tree(Tree):
    def __init__(self, digest: str) -> None:
        self.digest = lambda path: digest
        self._parts = {}


def test_what_is_due_comes_first_and_longest_first() -> None:
    names = [f"tests/one/test_a.py::test_{n}" for n in range(6)]
    runs = records.newest(
        [
            run(names[0], at="5", seconds=8),
            run(names[1], at="4", sources="older", seconds=2),
            run(names[2], at="1", verdict="failed", seconds=4),
            run(names[3], at="3", verdict="cut", sources="older", seconds=30),
            run(names[4], at="2"),
        ]
    )
    found = due.look(dict.fromkeys(names, True), runs, _Tree("s"))
    assert [(each.test[-1], each.why_due) for each in found] == [
        ("5", "never run"), ("3", "changed since"), ("1", "changed since"), ("2", "failed"),
        ("4", ""), ("0", ""),
    ]  # fmt: skip
    assert {each.test[-1]: each.seconds for each in found}["5"] == 3.0  # as others of its file
    of_file = run("tests/one/test_a.py", at="9")
    (quick,) = due.look({names[5]: False}, {of_file.test: of_file}, _Tree("s"))
    assert quick.why_due == ""


def test_tested_names_what_is_red_and_counts_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    names = [A, B, "tests/one/test_a.py::test_3", "tests/two/test_b.py::test_4"]
    runs = records.newest(
        [run(A, "hang", seconds=7), run(B), run(names[2], "skipped")._replace(why="no maven")]
    )
    assert tell(due.look(dict.fromkeys(names, True), runs, _Tree("s")), False, 2) == 1
    said = capsys.readouterr().out
    assert "4 tests at" in said
    assert ": 1 green, 3 not" in said
    assert f"hang: 1, 7 s of one core\n  {A}  7 s  1  c" in said
    assert "never run: 1, 60 s of one core\n  tests/two/test_b.py: 1, 60 s" in said
    assert "skipped: 1, 1 s of one core\n  tests/one/test_a.py: 1, 1 s\n  1: no maven" in said
    assert tell([], False, 2) == 0


def test_times() -> None:
    given = ["90s", "30m", "2h", "1h30m", "5", "1h1m1s"]
    assert [budget.seconds(each) for each in given] == [90, 1800, 7200, 5400, 300, 3661]
    for wrong in ("", "h", "1d", "-5m", "5x"):
        with pytest.raises(ValueError, match="not a time"):
            budget.seconds(wrong)


def test_a_test_depends_on_what_it_imports_and_reads() -> None:
    tree = Tree()
    crc = tree.closure("tests/store_format/kernels/test_crc32.py")
    assert "store_format/kernels/crc32.py" in crc
    assert not [path for path in crc if path.startswith("jobs/")]
    kills = tree.closure("tests/attack/test_random_kills.py")
    assert {"jobs/rebuild.py", "store_format/kernels/crc32.py", "udfs/schemas.py"} <= kills
    assert "tests/golden/small_all_5.3.3.tar.xz" in kills
    judged = tree.closure("tests/rocketmq/test_expire.py")
    assert any(path.startswith("tests/rocketmq/driver/") for path in judged)
    assert "tests/rocketmq/README.md" not in judged  # its folder's page, which it does not read
    assert "README.md" in tree.closure("tests/test_docs.py")
    for path in (crc, kills, judged):
        assert "tests/conftest.py" in path
        assert not [each for each in path if each.startswith("tests/ledger/")]
    own = tree.closure("tests/ledger/test_tables.py")
    assert "tests/ledger/sources.py" in own
    tables = {path for path in own if re.fullmatch(r"tests/ledger/.*\.tsv", path)}
    assert not tables  # or each fold would make it due again


def test_of_what_starts_spark_only_a_test_that_names_it_depends() -> None:
    tree, session = Tree(), "jobs/spark/session.py"
    for path in (
        "tests/jobs/spark/test_session.py",
        "tests/attack/test_random_kills.py",  # by the fixture `spark`
        "tests/rocketmq/test_repair.py",  # by the fixture `reput`, for one of its parameters
        "tests/test_cluster.py",
    ):
        assert session in tree.closure(path), path
    for path in ("tests/rocketmq/test_chains.py", "tests/jobs/serve/test_groups.py"):
        assert session not in tree.closure(path)
    assert "jobs/engines/local_engine.py" in tree.closure("tests/rocketmq/test_chains.py")
    assert "broker/serving/pop.py" in tree.closure("tests/rocketmq/test_popped.py")


def test_a_change_of_what_a_test_uses_changes_its_digest(tmp_path: Path) -> None:
    files = {
        "jobs/a.py": "from reput.store_format.b import x\n", "store_format/b.py": "x = 1\n",
        "jobs/other.py": "", "tests/test_a.py": "from reput.jobs import (\n    a,\n)\n",
        "tests/conftest.py": "import pytest\nfrom reput.jobs import other\n"
                             "@pytest.fixture\ndef others(): return other\n",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    first = Tree(tmp_path).digest("tests/test_a.py")
    (tmp_path / "jobs/other.py").write_text("# changed")
    assert Tree(tmp_path).digest("tests/test_a.py") == first
    (tmp_path / "store_format/b.py").write_text("x = 2\n")
    assert Tree(tmp_path).digest("tests/test_a.py") != first
    (tmp_path / "store_format/b.py").write_text("x = 1\n")
    assert Tree(tmp_path).digest("tests/test_a.py") == first
    (tmp_path / "store_format/b.py").write_text('"""Of b."""\n\nx = 1  # why\n')
    assert Tree(tmp_path).digest("tests/test_a.py") == first
    (tmp_path / "tests/test_a.py").write_text(files["tests/test_a.py"] + "def test(others): ...\n")
    assert "jobs/other.py" in Tree(tmp_path).closure("tests/test_a.py")


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("x = 1  # why\n\n\n# more\ny = 2\n", "x = 1\ny = 2\n"),
        ('def f():\n    """Two.\n\n    More.\n    """\n    return 1\n', "def f():\n    return 1\n"),
        ('"""Of all."""\nx = """a\n\n# no comment\n"""\n', 'x = """a\n\n# no comment\n"""\n'),
        ('"""Of all."""\nprint(__doc__)\n', '"""Of all."""\nprint(__doc__)\n'),
        ('x = 1\n"""no docstring"""\n', 'x = 1\n"""no docstring"""\n'),
        ('class A:\n    """Of A."""\n    x = "#"  # \u00e4\n', 'class A:\n    x = "#"\n'),
    ],
)  # fmt: skip
def test_code_is_what_python_runs(text: str, runs: str) -> None:
    assert code(text) == runs


def test_a_seed_that_fails_is_written_with_the_line_that_repeats_it(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("FAILURES", "EXPLORED"):
        monkeypatch.setattr(explore, name, project / f"{name}.tsv")
    (project / "test_odd.py").write_text(
        "import os\ndef test_odd(): assert int(os.environ['REPUT_SEED']) < 0\n"
    )
    (project / "test_none.py").write_text("import pytest\ndef test(): pytest.skip('no maven')\n")
    monkeypatch.setattr(explore, "ROUND_SECONDS", 1)
    monkeypatch.setattr(explore.batches, "START_SECONDS", 0)
    rounds = explore.Rounds(["test_none.py::test", "test_odd.py::test_odd"], 1e12, project)
    given = [rounds.next() for _ in range(3)]  # the third finds none that does not run
    assert given[2] is None
    jobs = iter(given)
    assert budget.run_all(lambda: next(jobs, None), 1e12, 2)
    rounds.write()
    (line,) = (project / "FAILURES.tsv").read_text().splitlines()
    _, _, seed, test = line.split("\t")
    assert test == "test_odd.py::test_odd"
    said = capsys.readouterr().out
    assert f"REPUT_SEED={seed} " in said
    assert "skipped: test_none.py::test: test_none.py:2: no maven" in said
    assert explore.read_explored(project / "EXPLORED.tsv")["test_odd.py::test_odd"].rounds == 1


def test_the_tests_of_a_module_are_found_by_its_path(tmp_path: Path) -> None:
    files = {
        "jobs/a.py": "x = 1\n", "jobs/b.py": "from reput.jobs.a import x\nz = x\n",
        "tests/jobs/test_a.py": "from reput.jobs.a import x\n",
        "tests/attack/test_all.py": "from reput.jobs import a, b\n",
        "tests/jobs/test_b.py": "from tests.helper import y\n",
        "tests/helper.py": "from reput.jobs.b import z\ny = z\n",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    tree = Tree(tmp_path)
    assert covers.distances(tree, "jobs/a.py") == {
        "tests/jobs/test_a.py": 1, "tests/attack/test_all.py": 1, "tests/jobs/test_b.py": 3,
    }  # fmt: skip
    assert list(covers.lines(tree, "jobs/a.py")) == [
        "tests/jobs/test_a.py",
        "tests/attack/test_all.py",
        "1 test files more depend on it through other modules",
    ]
    assert "no test names jobs/b.py" not in "".join(covers.lines(tree, "jobs/b.py"))
    with pytest.raises(KeyError):
        covers.distances(tree, "jobs/gone.py")


def test_the_slowest_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    runs = records.newest([run(A, seconds=7), run(B, seconds=9), run("tests/one/test_a.py::x")])
    slowest(runs, {A, B})
    assert capsys.readouterr().out.splitlines()[1:] == [
        "the slowest of 2 that ran here, 16 s:", f"     9.0 s  {B}", f"     7.0 s  {A}",
    ]  # fmt: skip
