"""Completion of reput's words in a shell, by argcomplete."""

import argparse
import os
import sys
from typing import Any


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and end the process; only the command in the line is loaded."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        sys.exit(1)
    line = os.environ.get("COMP_LINE", "").split()
    for action in parser._subparsers._group_actions if parser._subparsers else ():
        commands: Any = action.choices or {}
        for name in line:
            if name in commands:
                commands[name].fill()
    argcomplete.autocomplete(parser)
