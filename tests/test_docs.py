"""Pages for people: what they link to is there, and the commands that they name are commands."""

import ast
import html
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

import reput
from reput.jobs import cli
from reput.jobs.cli import _COMMANDS
from reput.store_format.release.setting_table import SETTINGS
from scripts import flowchart, pictures, settings_page, site_pages
from tests import golden_stores
from tests.golden_stores import as_left
from tests.pages import _TEXTS, PAGES, ROOT, blocks, told
from tests.processes import run_python

_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_COMMAND = re.compile(r"(?:^|[`$(\s])reput ([a-z][a-z-]*)\b(?= |`|$)", re.M)
_WORDS = {"help"}  # no row of the table
# pages of the site that scripts/site_pages.py makes: none of them is a file of docs/
_MADE = {"api.md", "changes.md", "commands.md", "contributing.md", "imports.md",
         "security.md"}  # fmt: skip
# test_docs.py of tests/store_format/query and of fate run these, each on stores of its own
_RUN_THERE = (ROOT / "docs/query.md", ROOT / "docs/fate.md")
_RUN = [p for p in PAGES if "```console" in _TEXTS[p] and p not in _RUN_THERE]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


_MODULE = re.compile(r"(?<![\w./*<>{}$-])((?:[\w.-]+/)*\w+\.py)\b")
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
# names of examples, not of modules: what a recipe or a walk of CONTRIBUTING.md makes, a user's own
_NO_MODULES = re.compile(
    r"(?:^|/)(?:(?:test_)?(?:NAME(?:_PART)?|largest|queue_runs)|x/y|pandas)\.py$"
)
_CODE = ("store_format", "broker", "udfs", "jobs", "reput", "tests", "scripts", "benchmarks",
         "notebooks")  # fmt: skip


def code() -> list[Path]:
    return [path for folder in _CODE for path in (ROOT / folder).rglob("*.py")
            if not path.is_relative_to(ROOT / "tests/rocketmq/driver")]  # fmt: skip


def prose(source: str) -> Iterator[str]:
    """The comments and docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def missing(text: str, there: set[str]) -> list[str]:
    """Modules that a text names, by name or the end of a path, and that are not there."""
    named = [name.removeprefix("reput/") for name in _MODULE.findall(text)]
    return [name for name in named if name not in there and not _NO_MODULES.search(name)]


def test_each_module_that_a_page_a_comment_or_a_docstring_names_is_there() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in code()}
    there = {"/".join(name.split("/")[n:]) for name in sources for n in range(name.count("/") + 1)}
    texts = [(name, text) for name, source in sources.items() if ".py" in source
             for text in prose(source)]  # fmt: skip
    texts += [(page.name, _TEXTS[page]) for page in PAGES]
    texts += [(str(page), page.read_text("utf-8")) for page in (ROOT / "tests").rglob("*.md")]
    assert [(name, each) for name, text in texts for each in missing(text, there)] == []
    assert missing("as `gone/zlib.py` and zlib.py have, and Maven.pyx", there) == ["gone/zlib.py",
        "zlib.py"]  # fmt: skip


def test_each_page_that_the_code_names_is_there() -> None:
    examples = {"docs/use.md", "docs/x.md", "docs/a.md"}  # of made trees
    files = [*code(), *ROOT.glob("*.*"), ROOT / "Makefile", *(ROOT / "conf").iterdir()]
    texts = [(path.name, path.read_text("utf-8", "replace")) for path in files if path.is_file()]
    named = {(name, page) for name, text in texts for page in _PAGE.findall(text)}
    gone = {(name, page) for name, page in named if not (ROOT / page).exists()}
    assert [(name, page) for name, page in sorted(gone) if page not in examples] == []


@pytest.mark.parametrize("name", ["README.md", "docs/troubleshooting.md", "CHANGELOG.md"])
def test_commands_are_commands(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    code = "\n".join(re.findall(r"`[^`\n]+`|```.*?```", text, re.S))
    assert set(_COMMAND.findall(code)) - set(cli._COMMANDS) - _WORDS == set()


def test_every_command_is_in_the_table_of_the_readme() -> None:
    rows = [row for row in (ROOT / "README.md").read_text("utf-8").splitlines() if row[0:1] == "|"]
    named = {word for row in rows for word in re.findall(r"`([a-z-]+)`", row)}
    assert set(cli._COMMANDS) - named == set()


_HEAD = re.compile(r"^(\|.*\|)\n\|[-|: ]+\|$", re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_column_of_a_table_has_a_name(page: Path) -> None:
    heads = _HEAD.findall(_TEXTS[page] + settings_page.tables() * (page.name == "settings.md"))
    assert [head for head in heads if not all(map(str.strip, head.split("|")[1:-1]))] == []


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each `reput ...` in the page's code, up to what the shell does with it."""
    for code in blocks(page):
        for line in code.replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ )?reput (.*)", line)
            if found and "..." not in found[1]:
                words = shlex.split(found[1], comments=True)
                ends = [n for n, word in enumerate(words) if word in ("|", "&&", ">", ";")]
                yield words[: ends[0] if ends else None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_are_words_that_commands_take(page: Path) -> None:
    for words in commands(page):
        if words and words[0] != "help":
            try:
                cli._parser(False).parse_args(words)
            except SystemExit:
                pytest.fail(f"{page.name}: reput {shlex.join(words)}")


def test_no_page_is_left_out_of_the_site() -> None:
    listed = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert listed - _MADE == there


def test_every_public_name_has_its_place_on_the_page_for_python() -> None:
    named = re.findall(r"^::: (\S+)\.(\w+)$", site_pages.api_page(), re.M)
    assert {name: module for module, name in named} == reput._PUBLIC


@pytest.mark.long
@pytest.mark.parametrize("page", _RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run_and_say_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    """In a folder with `store`, as a broker left it, and `damaged`, a log with a flipped bit.

    What follows a command on the page is what it prints, line by line; `...` stands for whatever.
    `<!-- first: COMMAND -->` breaks the store out of sight: who reads it has a broken one already,
    and pastes what is shown."""
    as_left("small_all_5.3.3", tmp_path)
    shutil.copytree(golden_stores.unpack("middle_crc_5.3.3").input, tmp_path / "damaged")
    here = tmp_path / "bin"
    here.mkdir()
    (here / "reput").write_text(f'#!/bin/sh\nexec {sys.executable} -m reput "$@"\n')
    (here / "reput").chmod(0o755)
    env = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def shell(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True,
                              text=True, timeout=600, check=False)  # fmt: skip

    for before, code in told(page):
        if before:
            assert shell(before).returncode == 0, before
        for step in re.split(r"^\$ ", code, flags=re.M)[1:]:
            command, *shown = step.splitlines()
            done = shell(command)
            assert done.returncode in (0, 1), (command, done.stderr)
            said = done.stdout.replace(f"{tmp_path}/", "").splitlines()
            for line in shown:
                if line.strip() != "...":
                    wanted = line.rstrip().replace("[", "[[]").replace("...", "*")
                    assert any(fnmatch(each, f"{wanted}*") for each in said), (command, line, said)


@pytest.mark.parametrize("page", [p for p in PAGES if "```mermaid" in _TEXTS[p]], ids=str)
def test_each_flowchart_is_drawn_with_all_its_texts(page: Path) -> None:
    for source in blocks(page, "mermaid"):
        chart = flowchart.Chart(source)
        shown = html.unescape(re.sub(r"<[^>]+>", "\n", flowchart.svg(source)))
        assert len(chart.edges) >= source.count("->")
        for lines in chart.nodes.values():
            assert set(lines) <= set(shown.splitlines())


def test_committed_pictures_show_what_the_pages_say() -> None:
    """Else: `python -m scripts.pictures`."""
    drawn = ROOT / "docs/pictures"
    assert (drawn / "speed.svg").read_text("utf-8") == pictures.speed(
        _TEXTS[ROOT / "docs/performance.md"]
    )
    assert (drawn / "overview.svg").read_text("utf-8") == pictures.overview()


def test_every_parameter_of_the_page_for_python_has_a_meaning() -> None:
    functions = site_pages._FUNCTION.sub(site_pages._function, site_pages.api_page())
    rows = re.findall(r"^\| `\w+` \|.*\|$", functions, re.M)
    assert len(rows) > 150
    assert [row for row in rows if re.search(r"\|\s*\|$", row)] == []


def test_the_site_shows_tables_of_all_settings_below_their_page() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="settings.md"))
    text = site_pages.on_page_markdown(_TEXTS[ROOT / "docs/settings.md"], page)
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    assert len(SETTINGS) > 500
    assert [each.name for each in SETTINGS if not any(f"`{each.name}`" in r for r in rows)] == []


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = run_python("-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "--on-damage" in (tmp_path / "commands/rebuild.html").read_text("utf-8")
    assert "index_start_name" in (tmp_path / "api.html").read_text("utf-8")


def test_exit_codes_are_in_one_table() -> None:
    """Each command has its row, and 1 means something there where the command can end with it."""
    page = (ROOT / "docs" / "exit_codes.md").read_text("utf-8")
    rows = dict(re.findall(r"^\|`([a-z-]+)`\|[^|]+\|([^|]*)\|$", page, re.M))
    assert list(rows) == list(_COMMANDS)
    for command, one in rows.items():
        source = (ROOT / "jobs" / f"{command.replace('-', '_')}.py").read_text("utf-8")
        ends = re.search(r"\b(DAMAGE\b|run_listing\b|answer\(arguments)", source)
        assert bool(one.strip()) == (ends is not None), command
