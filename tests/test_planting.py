"""A planted bug is found by the function that it is in, wherever that stands."""

from pathlib import Path

import pytest

from tests.planting import Bug, same_tree

_SOURCE = """\
LIMIT = 4  # of all


def first(n):
    return n + 1


class Table:
    size = 1

    @property
    def second(self):
        return self.size + 1


def third(n):
    return n + 1
"""


def bug(module: str, sound: str, broken: str) -> Bug:
    return Bug("a rule", module, sound, broken, ("tests/test_a.py",))


def test_the_function_of_the_rule_is_changed_and_no_other() -> None:
    planted = bug("jobs/a.py::third", "n + 1", "n").planted_in(_SOURCE)
    assert planted == "".join(_SOURCE.rpartition("n + 1")[0]) + "n\n"
    assert "def first(n):\n    return n + 1\n" in planted


def test_it_is_found_where_the_module_changes_around_it() -> None:
    moved = "def zeroth(n):\n    return n + 1\n\n\n" + _SOURCE
    planted = bug("jobs/a.py::first", "n + 1", "n").planted_in(moved)
    assert planted.startswith("def zeroth(n):\n    return n + 1\n")
    assert "def first(n):\n    return n\n" in planted


@pytest.mark.parametrize(
    ("name", "sound", "line"),
    [
        ("Table.second", "self.size + 1", "        return 0"),
        ("Table.second", "@property\n    def second(self):\n        return self.size + 1", "    0"),
        ("Table.size", "1", "    size = 0"),
        ("LIMIT", "4", "LIMIT = 0  # of all"),
    ],
)
def test_methods_decorators_and_what_is_assigned_are_places(
    name: str, sound: str, line: str
) -> None:
    assert line in bug(f"jobs/a.py::{name}", sound, "0").planted_in(_SOURCE).splitlines()


def test_without_a_function_it_is_the_whole_module() -> None:
    whole = bug("jobs/a.py", "n + 1", "n")
    assert (whole.path, whole.planted_in(_SOURCE)) == (
        "jobs/a.py", _SOURCE.replace("n + 1", "n", 1),
    )  # fmt: skip


@pytest.mark.parametrize("module", ["jobs/a.py::first", "jobs/a.py::gone", "jobs/a.py::Table"])
def test_a_place_that_is_gone_is_said(module: str) -> None:
    with pytest.raises(LookupError, match=f"^a rule: its place is gone from {module}$"):
        bug(module, "n - 1", "n").planted_in(_SOURCE)


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
