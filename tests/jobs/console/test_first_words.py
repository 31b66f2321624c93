"""The words of commands: the same ones everywhere; wrong ones answered at once, in one line."""

import argparse
import json
import re
import time
from pathlib import Path

import pytest

from reput.jobs import cli
from reput.jobs.cli import _COMMANDS, main
from reput.jobs.console.options import before, milliseconds
from tests import golden_stores
from tests.built import Built
from tests.jobs.console.running import options_of
from tests.processes import run_python


@pytest.mark.parametrize(
    "words", [("check", "/nowhere"), ("check",), ("check", "x", "--nonsense"), ("chek", "x")]
)
def test_an_error_in_json_is_json(words: tuple[str, ...], capsys) -> None:
    assert cli.main([*words, "--json"]) == 2
    out, errors = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["code"] == 2
    assert errors == f"reput: error: {error['message']}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [(("help",), "COMMAND"), (("help", "check"), "usage: reput check"), ((), "COMMAND"),
     (("-v",), "COMMAND"), (("-v", "help", "check"), "usage: reput check"), (("-V",), "reput 0."),
     (("--version",), "reput 0.")],
)  # fmt: skip
def test_help_and_version(words: tuple[str, ...], says: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    assert says in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [(("rebuild", "--output", "out"), "Which RocketMQ release should this store follow"),
     (("verify", "--set", "mappedFileSizeCommitLog=4096"), "segments have 8192 bytes")],
)  # fmt: skip
def test_what_the_store_does_not_tell_is_asked_before_spark_starts(words, says) -> None:
    log = golden_stores.unpack("small_all_5.3.3").input
    modules, said = loaded(words[0], str(log), *words[1:], "--engine", "spark")
    assert says in said
    assert not modules & {"numba", "pyspark", "pandas"}


def loaded(*words: str, without: str = "-s") -> tuple[set[str], str]:
    """(modules that a command loads, what it says)."""
    program = (
        "import sys; from reput.jobs.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = run_python(without, "-c", program, *words, timeout=60, check=True)
    return set(done.stdout.split()), done.stderr


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_imports_nothing_that_it_does_not_show(word: str) -> None:
    heavy = {"numpy", "numba", "pyspark", "subprocess", "secrets", "dataclasses", "logging",
             "reput.store_format.release.settings", "reput.store_format.release.profiles",
             "reput.jobs.console.endings", "reput.jobs.console.options"}  # fmt: skip
    assert loaded(word, without="-S")[0] & heavy == set()


# --- One set of words for times and places, the same for every command.
HOUR = 3_600_000
_OF_SEND = (set[str](), {"--to"})  # there it is no time and no folder, but a name server


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_each_command_has_the_same_words(command: str) -> None:
    named = {word: action for action in options_of(command) for word in action.option_strings}
    shown = {word for word, action in named.items() if action.help != argparse.SUPPRESS}
    for word in {"--since", "--until"} & shown:  # --at: tests/jobs/console/test_moment.py
        assert named[word].type in (milliseconds, before), word
    other = {"--to-time"} if command == "offsets" else _OF_SEND[command == "send"]
    assert not {"--to", "--to-time", "--destination"} & (shown - other)
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


# --- the table of docs/exit_codes.md -------------------------------------------------------
_COLUMNS = {
    "store": ("--rocketmq", "--timezone", "--scan", "--remade", "--assume-names", "--engine"),
    "selection": ("ID", "--message-id", "--topic", "--group", "--queue", "--key", "--keys-file",
                  "--unique-key", "--offset", "--tags", "--sql", "--grep", "--drop",
                  "--system-topics", "--unconsumed-by"),
    "time": ("--since", "--until", "--at"),
    "limits": ("--limit", "--max", "--skip", "--to-offset", "--max-connections", "--rate"),
    "output": ("--output", "--replace", "--picture", "--ranges", "--messages", "--body", "--keep"),
    "asks": ("--yes", "--dry-run"),
}  # fmt: skip
_PAGE = (Path(__file__).parents[3] / "docs/exit_codes.md").read_text("utf-8")
_NO_BROKER = {"install", "backups", "forget", "demo", "doctor", "warm", "clean", "completion"}
_END_ALONE = {"deliver-delayed"}  # --until: what is due
# By which each command that reads STORE reads a backup repository: a sentence of the page says so.
_OF_A_REPOSITORY = {"--store", "--at", "--to-offset", "--to-message-id"}
_LISTS = {"topics", "queues", "groups", "stats", "query", "transactions", "delayed"}


def words_of(command: str) -> set[str]:
    actions = [action for action in options_of(command) if action.help != argparse.SUPPRESS]
    words = {word for each in actions for word in (each.option_strings or [str(each.metavar)])}
    own = command in ("restore", "serve", "replicate")
    return words if own else words - _OF_A_REPOSITORY


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_commands_of_a_kind_have_the_same_options_as_the_page(command: str) -> None:
    has = words_of(command)
    cells = [" ".join(f"`{w}`" for w in words if w in has) for words in _COLUMNS.values()]
    assert "|".join(["", f"`{command}`", *cells, ""]) in _PAGE
    assert has >= {"--format", "--json", "--quiet", "--verbose"}
    broker = {"--rocketmq", "--broker-conf", "--set"}
    assert has & broker == (set() if command in _NO_BROKER else broker)
    assert ("--since" in has) == ("--until" in has and command not in _END_ALONE)
    assert has & {"--topic", "--limit"} == {"--topic", "--limit"} or command not in _LISTS
    assert ("--yes" in has) <= ("--dry-run" in has)
    found = re.search(rf"^\|`{command}`\|[^|`]*\|(.*)\|$", _PAGE, re.M)
    assert found is not None
    assert ("--dry-run" in has) == ("`--dry-run`" in found[1])


def test_an_option_is_written_whole(capsys: pytest.CaptureFixture[str]) -> None:
    for words, meant in ((["convert", "s", "--to-r", "5"], "--to-rocketmq"),
                         (["check", "s", "--stagin=x"], "--staging")):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
        assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["report", "s", "--output", "x.pdf"], ["check", "s", "--picture", "x.png"],
    ["stats", "s", "--output", "x.csv"],
])  # fmt: skip
def test_a_file_is_what_its_name_says(words: list[str], tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(Built().put("T").write(tmp_path / "s").parent)
    assert main(words) == 2
    assert f"{words[-2]} {words[-1]}: writes a" in capsys.readouterr().err


def test_settings_can_be_listed_without_the_pages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "settings"])
    assert "\nmaxIndexNum " in capsys.readouterr().out


def test_a_dry_run_with_something_to_do_ends_with_one(tmp_path, monkeypatch, capsys) -> None:
    built = Built().put("T", count=3).derive()
    monkeypatch.chdir(built.write(tmp_path / "s").parent)
    sets = [word for name, value in built.given().items() for word in ("--set", f"{name}={value}")]
    as_ = ["--rocketmq", "5.3.3", *sets]
    assert main(["rebuild", "s", "--output", "d", *as_]) == 0
    for words in (["install", "d", "s"], ["replicate", "s", "r", *as_],
                  ["append", "new", "--from-store", "s", *as_]):  # fmt: skip
        assert main([*words, "--dry-run"]) == 1, words
    said = capsys.readouterr().out
    assert "would install" in said
    assert "2 derived files and" in said
    assert main(["replicate", "s", "r", *as_]) == 0
    assert main(["replicate", "s", "r", *as_, "--dry-run"]) == 0
