"""Which parts of the product a test depends on: what it uses, not all of the files with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.projects import git
from tests.ledger.sources import Tree

PRODUCT = {
    "reput/__init__.py": (
        "TYPE_CHECKING = False\n"
        "if TYPE_CHECKING:\n    from reput.jobs.make import make as make\n"
        '_PUBLIC = {"make": "reput.jobs.make", "other": "reput.jobs.other"}\n'
    ),
    "store_format/rules.py": "SIZE = 4\nclass Rule:\n    size = SIZE\ndef unused(): ...\n",
    "jobs/make.py": (
        "from reput.store_format.rules import Rule\n"
        "from reput.store_format import names\n"
        "def make(kind: Rule):\n"
        "    from reput.jobs.late import late\n"
        "    return late(names.first)\n"
        "def run(arguments):\n    return make(Rule())\n"
    ),
    "store_format/names.py": "def first(): ...\ndef second(): ...\n",
    "jobs/late.py": "def late(name): ...\ndef later(): ...\n",
    "jobs/other.py": "def other(): ...\n",
    "jobs/wait/__init__.py": "def run(arguments): ...\n",
    "jobs/cli.py": "def main(words): ...\n",
    "tests/conftest.py": (
        "import pytest\nfrom reput.jobs.other import other\n"
        "@pytest.fixture\ndef others():\n    return other()\n"
    ),
    "tests/helper.py": "def on_command_line(*words):\n    return ['-m', 'reput', *words]\n",
}


def reached(tmp_path: Path, test: str) -> set[str]:
    """The parts of the product that the test depends on, as path:name."""
    files = {**PRODUCT, "tests/test_it.py": test}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    found = Tree(tmp_path).reach("tests/test_it.py")
    return {
        f"{path}:{name}" for path, name in found
        if not path.startswith("tests/") and name not in ("", "*")
    }  # fmt: skip


MAKE = {"jobs/make.py:make", "jobs/late.py:late", "store_format/names.py:first"}
UNUSED, SIZE = {"store_format/rules.py:unused"}, {"store_format/rules.py:SIZE"}
RULE = {"store_format/rules.py:Rule", "store_format/rules.py:SIZE"}
CLI = {"jobs/cli.py:main"}


@pytest.mark.parametrize(
    ("test", "parts"),
    [
        ("from reput.store_format.rules import Rule\nRule()\n", RULE),
        ("from reput.store_format import rules\nrules.unused()\n", UNUSED),
        # what annotations name does not run
        ("import reput\nreput.make(1)\n", MAKE),
        ("from reput import make\nmake(1)\n", MAKE),
        ("def test(m): m.setattr('reput.store_format.rules.SIZE', 5)\n", SIZE),
        ("def test(others): ...\n", {"jobs/other.py:other"}),
        ("def test(request): request.getfixturevalue('others')\n", {"jobs/other.py:other"}),
        ("def test(): return 'others'\n", set()),
        (
            "from tests.helper import on_command_line\non_command_line('make', 'store')\n",
            {*CLI, *MAKE, *RULE, "jobs/make.py:run"},
        ),
        ("from tests.helper import on_command_line\n", CLI),
        (
            "from tests.helper import on_command_line\nWORDS = 'wait store'\n",
            {*CLI, "jobs/wait/__init__.py:run"},
        ),
        # a module that is handed on may be asked for anything
        ("from reput.jobs import late\nprint(late)\n", {"jobs/late.py:late", "jobs/late.py:later"}),
    ],
)  # fmt: skip
def test_what_a_test_reaches(tmp_path: Path, test: str, parts: set[str]) -> None:
    assert reached(tmp_path, test) == parts


def test_a_file_that_is_half_edited_counts_whole(tmp_path: Path) -> None:
    reached(tmp_path, "from reput.store_format import names\nnames.first()\n")
    names = tmp_path / "store_format/names.py"
    before = Tree(tmp_path).digest("tests/test_it.py")
    names.write_text(
        PRODUCT["store_format/names.py"].replace("second(): ...", "second(): return 2")
    )
    assert Tree(tmp_path).digest("tests/test_it.py") == before
    names.write_text("def first(:\n")
    assert Tree(tmp_path).digest("tests/test_it.py") != before


def test_of_a_page_only_what_tests_look_at_counts(tmp_path: Path) -> None:
    page = tmp_path / "docs/use.md"
    page.parent.mkdir()
    page.write_text(
        "# Use\n\nIt takes 3 s: `reput make`.\n\n```sh\nreput make\n```\n[more](more.md)\n"
    )
    reached(tmp_path, "PAGE = 'docs/use.md'\n")
    first = Tree(tmp_path).digest("tests/test_it.py")
    page.write_text(page.read_text().replace("It takes 3 s", "Now it takes 2 s"))
    assert Tree(tmp_path).digest("tests/test_it.py") == first
    for word in ("# Use", "`reput make`", "\nreput make\n", "more.md"):
        text = page.read_text()
        page.write_text(text.replace(word, word.replace("e", "a")))
        assert Tree(tmp_path).digest("tests/test_it.py") != first, word
        page.write_text(text)
