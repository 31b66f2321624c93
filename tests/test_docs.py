"""Pages for people: what they link to is there, and the commands that they name are commands."""

import re
from pathlib import Path

import pytest

from reput.jobs import cli

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"(?:^|[`$(\s])reput ([a-z][a-z-]*)\b(?= |`|$)", re.M)
_WORDS = {"help"}  # no row of the table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/troubleshooting.md", "CHANGELOG.md"])
def test_commands_are_commands(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    code = "\n".join(re.findall(r"`[^`\n]+`|```.*?```", text, re.S))
    assert set(_COMMAND.findall(code)) - set(cli._COMMANDS) - _WORDS == set()


def test_every_command_is_in_the_table_of_the_readme() -> None:
    rows = [row for row in (ROOT / "README.md").read_text("utf-8").splitlines() if row[:3] == "| `"]
    named = {word for row in rows for word in re.findall(r"`(?:reput )?([a-z-]+)", row)}
    assert set(cli._COMMANDS) - named == set()


def test_sentences_that_nobody_understood_are_gone() -> None:
    shown = [*PAGES, *(ROOT / "jobs").rglob("*.py"), ROOT / "store_format/faults.py"]
    for text in ("where nobody can tell", "proves itself", "counts slots in use, before: puts",
                 "what a queue holds already is told", "nothing was written here"):  # fmt: skip
        assert [str(p) for p in shown if text in p.read_text("utf-8")] in ([], [
            str(ROOT / "docs/planted_bugs.md")
        ]), text  # fmt: skip
