"""Words that are no command or option of reput's."""

from collections.abc import Iterable
from difflib import get_close_matches

from reput.store_format.faults import StoreError


class WrongWords(StoreError):
    """The command line cannot be understood; the message says why."""


def no_such_command(word: str, commands: Iterable[str]) -> WrongWords:
    """The error for a first word that is no command, with the nearest one."""
    known = list(commands)
    near = get_close_matches(word, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "reput --help lists them"
    return WrongWords(f"{word!r} is no command of reput; {hint}")
