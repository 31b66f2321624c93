"""Writes docs/reput.1, the manual page, from what the commands say of themselves: `make man`."""

import argparse
import re
from pathlib import Path

from reput import __version__
from reput.jobs.cli import _COMMANDS, _EPILOG, _GROUPS, _parser

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reput.1"


def man_page() -> str:
    """All commands and options, in man's own language."""
    choices = next(
        action.choices
        for action in _parser(False)._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    parts = [
        f'.TH REPUT 1 "" "reput {__version__}" "User Commands"',
        ".SH NAME",
        "reput \\- check, rebuild, repair and read the files of a RocketMQ store",
        ".SH SYNOPSIS",
        ".B reput\n.I COMMAND\n[options]",
        ".SH COMMANDS",
        *(f".TP\n.B {_text(group)}\n{_text(', '.join(each))}" for group, each in _GROUPS.items()),
        ".SH EXIT CODES AND COMMON WORDS",
        f".nf\n{_text(_EPILOG)}\n.fi",
    ]
    for name, says in _COMMANDS.items():
        command = choices[name]
        command.fill()
        parts += [f".SH reput {_text(name)}", _text(f"{says[0].upper()}{says[1:]}.")]
        for action in command._actions:
            if action.help and action.help != argparse.SUPPRESS:
                parts.append(f".TP\n.B {_text(_words(action))}\n{_text(action.help)}")
        if command.epilog:
            parts.append(f".PP\n.nf\n{_text(command.epilog.strip())}\n.fi")
    return "\n".join(parts) + "\n"


def _words(action: argparse.Action) -> str:
    """An option with what it takes, or an argument's name."""
    metavar = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    value = metavar if isinstance(metavar, str) else " ".join(metavar)
    if not action.option_strings:
        return value or action.dest
    takes = action.nargs != 0 and not isinstance(action, argparse._HelpAction)
    return " ".join([", ".join(action.option_strings), *([value or action.dest.upper()] * takes)])


def _text(text: str) -> str:
    """Text of which troff takes nothing for its own."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.M)


if __name__ == "__main__":
    PAGE.write_text(man_page(), "utf-8")
