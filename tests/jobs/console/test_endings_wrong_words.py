"""A first word that is not a command: the nearest one is named, if any is near."""

import pytest

from reput.jobs.console.endings import WrongWords, no_such_command
from reput.store_format.faults import StoreError

COMMANDS = ("rebuild", "check", "queues", "query")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("rebuid", "did you mean rebuild?"),
        ("chekc", "did you mean check?"),
        ("quer", "did you mean query?"),
        ("Check", "did you mean check?"),
        ("x", "reput --help lists them"),
        ("", "reput --help lists them"),
        ("/data/store", "reput --help lists them"),
    ],
)
def test_the_nearest_command_is_named(word: str, hint: str) -> None:
    error = no_such_command(word, iter(COMMANDS))
    assert str(error) == f"{word!r} is not a command of reput; {hint}"


def test_it_is_an_error_of_use_that_is_shown_like_all_others() -> None:
    assert isinstance(no_such_command("x", ()), WrongWords)
    assert isinstance(no_such_command("x", ()), StoreError)


def test_what_a_terminal_would_obey_is_escaped() -> None:
    assert "\x1b" not in str(no_such_command("\x1b[2J", COMMANDS))
