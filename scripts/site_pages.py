"""Pages of the site (`make docs`) that are made from the code and the repository's own files.

A hook of mkdocs: commands.md from argparse, and the change log and its like, which stand at the
root of the repository, with their links turned.
"""

import argparse
import re
from pathlib import Path
from typing import Any

from reput.jobs.cli import _COMMANDS, _parser

ROOT = Path(__file__).resolve().parent.parent
_OF_THE_ROOT = {
    "changes.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
}
_TO_THE_ROOT = re.compile(r"\]\(((?:\.\./)*)\.\./(CHANGELOG\.md|SECURITY\.md|CONTRIBUTING\.md)")
_COMMANDS_HEAD = """\
# Commands

What each command says of itself (`reput help COMMAND`), from the code. Exit codes and `--json` are
the same for all: see [quick start](quick-start.md#what-it-says).

"""


def on_files(files: Any, config: Any) -> Any:
    """Add the made pages, as mkdocs asks its hooks."""
    from mkdocs.structure.files import File

    made = {"commands.md": commands_page()}
    made |= {
        name: moved((ROOT / source).read_text("utf-8")) for name, source in _OF_THE_ROOT.items()
    }
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Turn links to the files at the repository's root, as mkdocs asks its hooks."""
    names = {source: name for name, source in _OF_THE_ROOT.items()}
    return _TO_THE_ROOT.sub(lambda link: f"]({link[1]}{names[link[2]]}", markdown)


def moved(text: str) -> str:
    """A page of the repository's root as one of docs/, whose links lead on."""
    text = re.sub(r"\]\(docs/", "](", text)
    for name, source in _OF_THE_ROOT.items():
        text = text.replace(f"]({source}", f"]({name}")
    return text


def commands_page() -> str:
    """All commands, with their options, as argparse shows them."""
    choices = next(
        action.choices
        for action in _parser(False)._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    text = _COMMANDS_HEAD
    for name, says in _COMMANDS.items():
        command = choices[name]
        command.fill()
        command.formatter_class = _Wide
        text += f"## reput {name}\n\n{says[0].upper()}{says[1:]}.\n\n"
        text += f"```text\n{command.format_help().strip()}\n```\n\n"
    return text


class _Wide(argparse.RawDescriptionHelpFormatter):
    """As the terminal's, but of one width, so that the page is the same everywhere."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=92, max_help_position=28)
