"""One set of words for times and places, the same for every command."""

import argparse
import time

import pytest

from reput.jobs.cli import _COMMANDS
from reput.jobs.console.options import before, milliseconds
from tests.jobs.console.running import options_of

HOUR = 3_600_000


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_each_command_has_the_same_words(command: str) -> None:
    named = {word: action for action in options_of(command) for word in action.option_strings}
    shown = {word for word, action in named.items() if action.help != argparse.SUPPRESS}
    for word in {"--since", "--until", "--at"} & shown:
        assert named[word].type in (milliseconds, before), word
    assert not {"--to", "--to-time", "--destination"} & shown
    if "--from" in shown:  # a file to be read, or an offset
        assert named["--from"].type is not milliseconds


def test_a_time_is_said_in_many_ways() -> None:
    assert milliseconds("1700000000000") == 1_700_000_000_000
    assert milliseconds("2026-01-31") == milliseconds("2026-01-31T01:00:00+01:00")
    now = time.time_ns() // 1_000_000
    for text, ago in (("now", 0), ("2h ago", 2 * HOUR), ("1 d ago", 24 * HOUR), ("5ms ago", 5)):
        assert 0 <= milliseconds(text) - (now - ago) < 5000, text
    assert before("10") == 9
    for wrong in ("soon", "h ago", "2y ago", "-2h ago", "2h", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="is not a time: milliseconds"):
            milliseconds(wrong)
