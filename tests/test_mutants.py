"""Each planted bug still has its place and its tests; planting them all takes half an hour."""

import collections
import subprocess
from pathlib import Path

import pytest

from tests.mutants import PACKAGES, ROOT, Bug, Code, Lost, bugs_of, changed_since, due, same_tree

_SOURCE = """\
LIMIT, LEAST = 4, 2  # of all


def first(n):
    return n + 1


class Table:
    size = 1

    @property
    def second(self):
        return self.size + 1


def third(n):
    return n + 1


if LIMIT:
    async def fourth(n):
        return n
"""


def test_every_bug_can_be_planted() -> None:
    bugs, code, lost = bugs_of(), Code(ROOT), []
    for bug in bugs:
        for looked_for in (code.planted, code.tests):
            try:
                looked_for(bug)
            except Lost as error:
                lost.append(str(error))
    assert not lost, f"{len(lost)} have lost their place:\n" + "\n".join(lost)
    assert len(bugs) > 1300
    (name, times), *_ = collections.Counter(bug.name for bug in bugs).most_common(1)
    assert times == 1, name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in (*PACKAGES, "tests"):
        (tmp_path / package).mkdir()
    (tmp_path / "jobs/a.py").write_text(_SOURCE)
    (tmp_path / "tests/test_a.py").write_text("def test_it() -> None: ...\n")
    return tmp_path


def bug(place: str, sound: str, broken: str = "0", *tests: str) -> Bug:
    return Bug("a rule", place, sound, broken, tests or ("test_it",))


def test_the_function_of_the_rule_is_changed_and_no_other(tree: Path) -> None:
    before, _, after = _SOURCE.rpartition("n + 1")
    path, source = Code(tree).planted(bug("a.third", "n + 1", "n"))
    assert (path, source) == (tree / "jobs/a.py", f"{before}n{after}")


def test_code_and_tests_may_move(tree: Path) -> None:
    (tree / "jobs/a.py").write_text("def first(n):\n    return 2 * n\n")
    (tree / "udfs/b.py").write_text(_SOURCE)
    (tree / "tests/test_a.py").rename(tree / "tests/test_b.py")
    for name in ("third", "Table.second"):
        assert Code(tree).planted(bug(f"a.{name}", "+ 1"))[0] == tree / "udfs/b.py"
    assert Code(tree).tests(bug("a.third", "1", "0", "test_it[x-1]")) == [
        "tests/test_b.py::test_it[x-1]"
    ]


def test_where_a_name_is_there_twice_the_module_is_asked_for(tree: Path) -> None:
    (tree / "udfs/b.py").write_text(_SOURCE)
    assert Code(tree).planted(bug("b.first", "+ 1"))[0] == tree / "udfs/b.py"
    with pytest.raises(Lost, match=r"could be in jobs/a.py, udfs/b.py: begin with its module"):
        Code(tree).planted(bug("c.first", "+ 1"))


def test_a_test_that_is_gone_is_said(tree: Path) -> None:
    with pytest.raises(Lost, match=r"^a rule: no test is called test_gone, Test$"):
        Code(tree).tests(bug("a.first", "n", "0", "test_it", "test_gone[1]", "Test"))


def test_what_changed_is_a_room_or_a_test(tree: Path) -> None:
    def git(*words: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *own, *words], cwd=tree, check=True, capture_output=True)

    (tree / "broker/b.py").write_text("def other():\n    return 1\n")
    (tree / "tests/test_b.py").write_text("class Test: ...\n")
    bugs = [bug("a.first", "1"), bug("b.other", "1", "0", "Test"), bug("b.gone", "1")]
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    assert due(bugs, Code(tree), changed_since("HEAD", tree)) == bugs[2:]
    (tree / "broker/b.py").rename(tree / "broker/c.py")
    assert due(bugs, Code(tree), changed_since("HEAD", tree)) == bugs[1:]
    (tree / "tests/test_a.py").write_text("def test_it(): ...\n")
    assert due(bugs, Code(tree), changed_since("HEAD", tree)) == bugs


def test_a_copy_of_the_tree_is_made_once_and_then_kept_the_same(tmp_path: Path) -> None:
    root, copy = tmp_path / "root", tmp_path / "copy"
    for path in ("a/b.py", "a/c.py", "gone.py", ".git/x", "tests/golden/store.tar"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    (root / "link").symlink_to("a")
    same_tree(root, copy)
    kept = (copy / "a/b.py").stat().st_ino
    (copy / "a/c.py").write_text("a bug")
    (root / "gone.py").unlink()
    (root / "a/d.py").write_text("new")
    (copy / "link").unlink()
    (copy / "link").write_text("no link any more")
    same_tree(root, copy)
    assert (copy / "a/b.py").stat().st_ino == kept
    assert [(copy / "a" / name).read_text() for name in ("c.py", "d.py")] == ["a/c.py", "new"]
    assert sorted(each.name for each in copy.iterdir()) == ["a", "link", "tests"]
    assert (copy / "tests/golden").readlink() == root / "tests/golden"
    assert (copy / "link").readlink() == Path("a")
