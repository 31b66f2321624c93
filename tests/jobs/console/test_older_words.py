"""One set of words for times and places, the same for every command; the older ones say so."""

import argparse
import time
from pathlib import Path

import pytest

from reput.jobs.cli import _COMMANDS, main
from reput.jobs.console.store_questions import before, milliseconds
from tests.damaged import damaged, messages
from tests.jobs.console.running import options_of
from tests.jobs.sources.reading import write

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
        with pytest.raises(argparse.ArgumentTypeError, match="is no time: milliseconds"):
            milliseconds(wrong)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write(damaged(messages(3)).log, tmp_path / "store")


def test_a_time_never_becomes_a_folder(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for to in ("1700000000000", "2026-01-31", "now"):
        with pytest.raises(SystemExit) as ended:
            main(["export", str(store), "--from", "2025-01-31", "--to", to])
        assert ended.value.code == 2
        assert f"{to} is a time: say --until for it" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["store"]
    with pytest.raises(SystemExit):
        main(["export", str(store)])
    assert "one of the arguments --output is required" in capsys.readouterr().err


def test_older_words_work_and_say_what_they_are_called_now(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(store), "--format", "delta", "--to", str(tmp_path / "out")]
    assert main([*words, "--from", "0"]) == 0
    said = capsys.readouterr().err
    assert "reput: --to will go; say --output" in said
    assert "reput: --from will go; say --since" in said
    stored = damaged(messages(3)).messages[1].store_timestamp
    asked = ["query", str(store), "--scan", "--json"]

    def lines(*more: str) -> int:
        assert main([*asked, *more]) == 0
        return len(capsys.readouterr().out.splitlines())

    assert lines("--since", str(stored)) - lines("--from", str(stored)) == 0
    until, to = lines("--until", str(stored)), lines("--to", str(stored))
    assert to > until  # what was stored in that very millisecond is within --to alone
