"""Completion in a shell: the command in the line is loaded, and no other."""

import argparse
import sys
from typing import Any

import pytest

from reput.jobs.cli import complete


class Lazy(argparse.ArgumentParser):
    """A command that knows its options once it is filled."""

    filled = False

    def fill(self) -> None:
        self.filled = True


def commands(*names: str) -> tuple[argparse.ArgumentParser, dict[str, Any]]:
    parser = argparse.ArgumentParser()
    choices = parser.add_subparsers(parser_class=Lazy)
    return parser, {name: choices.add_parser(name) for name in names}


@pytest.mark.parametrize(("line", "filled"),
                         [("reput check --js", ["check"]), ("reput query /data/check", ["query"]),
                          ("reput ", []), ("reput che", []), ("", []), (None, [])])  # fmt: skip
def test_only_the_command_in_the_line_is_loaded(line, filled, monkeypatch) -> None:
    monkeypatch.delenv("_ARGCOMPLETE", raising=False)  # so that no shell is answered
    monkeypatch.delenv("COMP_LINE", raising=False)
    if line is not None:
        monkeypatch.setenv("COMP_LINE", line)
    parser, known = commands("check", "query")
    complete(parser)
    assert [name for name, command in known.items() if command.filled] == filled


def test_a_parser_without_commands_is_completed_too() -> None:
    complete(argparse.ArgumentParser())


def test_without_argcomplete_the_shell_gets_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    with pytest.raises(SystemExit) as ended:
        complete(argparse.ArgumentParser())
    assert ended.value.code == 1
