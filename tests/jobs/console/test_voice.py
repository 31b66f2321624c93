"""What every command says alike: forms, loudness, colour, short summaries, help, the man page."""

import argparse
import csv
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest

from reput.jobs import cli
from reput.jobs.console import voice
from reput.jobs.console.options import show
from reput.jobs.console.voice import camel_case, complain, discard, duration, flush, safe
from tests.golden_stores import as_left
from tests.jobs.console.running import ROOT, options_of

ROWS = ("topics", "queues", "groups", "stats", "query", "trace", "transactions", "delayed", "dump",
        "backups", "send")  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(as_left("small_all_5.3.3", tmp_path_factory.mktemp("said")))


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert cli.main(words) == code
    return capsys.readouterr().out


def on_terminal(*words: str, **env: str) -> str:
    """What a command writes where standard output is a terminal."""
    ours, theirs = pty.openpty()
    given = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    with subprocess.Popen(
        [sys.executable, "-m", "reput", *words], cwd=ROOT, env={**given, "TERM": "xterm", **env},
        stdout=theirs, stderr=theirs,
    ):  # fmt: skip
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("command", list(cli._COMMANDS))
def test_each_command_has_the_same_output_options_and_two_examples_that_it_takes(command) -> None:
    actions = options_of(command)
    named = {word: action for action in actions for word in action.option_strings}
    for word in ("--format", "--json", "--quiet", "-v", "--verbose"):
        assert word in named, word
    assert [a.option_strings or a.dest for a in actions if not a.help] == []
    assert named["--json"].help == (voice.ROWS if command in ROWS else voice.ONE_OBJECT)
    parser = cli._parser(False)
    choices: Any = next(a.choices for a in parser._actions if a.choices)
    choices[command].fill()
    examples = re.findall(rf"^ *reput ({command}\b.*)$", choices[command].epilog, re.M)
    assert len(examples) >= 2
    for example in examples:
        words = shlex.split(re.split(r"   +| #", example)[0])
        if "<" not in example:
            parser.parse_args(words)


def test_help_shows_groups_with_an_example_each(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    for group, commands in cli._GROUPS.items():
        assert f"\n{group}\n" in shown
        example = cli._EXAMPLES[group]
        assert f"$ {example}" in shown
        assert example.split()[1] in commands
        cli._parser(False).parse_args(example.split()[1:])


def test_the_manual_page_is_of_this_help() -> None:
    from scripts.man_page import PAGE, man_page

    assert PAGE.read_text("utf-8") == man_page(), "run `make man`"


def test_one_object_or_lines(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    one = said(capsys, "verify", store, "--format", "json")
    assert one.count("\n") == 1
    assert json.loads(one)["releases"] == "5.1.0 to 5.3.4"
    lines = said(capsys, "topics", store, "--json").splitlines()
    assert [json.loads(line)["topic"] for line in lines][-1] == "订单"
    table = said(capsys, "topics", store).splitlines()
    rows = list(csv.DictReader(io.StringIO(said(capsys, "topics", store, "--format", "csv"))))
    assert len(rows) == len(lines) == len(table) - 1
    assert [row["topic"] for row in rows] == [json.loads(line)["topic"] for line in lines]
    (row,) = csv.DictReader(io.StringIO(said(capsys, "verify", store, "--format", "csv")))
    assert (row["same"], row["differences"]) == ("true", "[]")


def test_forms_that_contradict_each_other(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--format", "csv"), ("--format", "x")):
        with pytest.raises(SystemExit) as ended:
            cli.main(["topics", store, *words, "--nonsense"])
        assert ended.value.code == 2
    capsys.readouterr()
    assert cli.main(["topics", store, "--json", "--format", "csv"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == 2


def test_no_warning_twice(capsys: pytest.CaptureFixture[str]) -> None:
    voice.begin()
    voice.remark("the index is old")
    voice.remark("the index is old")
    arguments = argparse.Namespace(json=False, format="table")
    show(arguments, {}, "done\n  warning   the index is old\n  warning   a\n  warning   a")
    out, errors = capsys.readouterr()
    assert (out, errors) == ("done\n  warning   a\n", "reput: the index is old\n")


def test_a_summary_is_short_and_details_are_for_v(store: str, tmp_path, capsys) -> None:
    words = ["rebuild", store, "--output", str(tmp_path / "out")]
    short = said(capsys, *words).splitlines()
    assert len(short) == 6
    assert short[4].startswith("  waits     3 delay levels")  # the store has no delayOffset.json
    assert short[5].startswith("  found     index files named in UTC")  # a guess is told
    assert short[0].endswith(" as RocketMQ 5.1.0 to 5.3.4 would")
    assert "44 messages, 12 queues in 14 files, 127 index keys in 7 files" in short[2]
    for command in ("check", "verify"):
        assert len(said(capsys, command, store).splitlines()) <= 3
        assert "RocketMQ 5.1.0 to 5.3.4" in said(capsys, command, store)
        assert "  found     segments of 8 KiB" in said(capsys, command, store, "-v")


def test_quiet_says_only_what_was_asked_for(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", store, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main(["query", store, "--topic", "none", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert json.loads(said(capsys, "check", store, "--quiet", "--json"))["sound"]
    assert cli.main(["check", "/nowhere", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith("reput: error: ")


def test_colour_on_a_terminal_unless_it_is_not_wanted_and_twenty_messages(store, capsys) -> None:
    assert "\x1b[1;32mchecked" in on_terminal("check", store)
    assert "\x1b[1;" not in on_terminal("check", store, NO_COLOR="1")
    assert "\x1b[1;" not in on_terminal("check", store, TERM="dumb")
    error = on_terminal("check", f"{store}s", NO_COLOR="1")
    assert re.fullmatch(r"reput: error: .*: no such folder\n  did you mean .*\?\n", error)
    said_last = "reput: {} more: --all shows them, --limit N shows N"
    for words, many in (([], 20), (["--all"], 44), (["--limit", "3"], 3)):
        lines = on_terminal("query", store, "--scan", *words, NO_COLOR="1").splitlines()
        assert sum(bool(re.match(r" +\d+  \d{4}-", line)) for line in lines) == many
        assert (lines[-1] == said_last.format(44 - many)) == (many < 44)
    assert said(capsys, "query", store, "--scan", "--json").count("\n") == 44  # a pipe gets all
    assert said(capsys, "query", store, "--scan", "--json", "--limit", "2").count("\n") == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_gets_no_control_characters_of_a_topic_s_name(terminal, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    text = voice.csv_text([["topic", "n"], ["\x1b[31mred\x07", 1]])
    assert text == (
        "topic,n\n\\x1b[31mred\\x07,1\n" if terminal else "topic,n\n\x1b[31mred\x07,1\n"
    )


# --- The standard streams at the end of a command: what cannot be written any more, and errors.
@contextmanager
def stream(where: Any) -> Iterator[TextIO]:
    """A file with something to be flushed: on a full disk, or a pipe without a reader."""
    with open(where, "w") as file:
        file.write("said")
        yield file
        discard(file)


def test_a_full_disk_is_told_and_is_a_failure_unless_there_was_another(monkeypatch, capsys) -> None:
    for code, ends in ((0, 3), (1, 1), (2, 2)):
        assert flush(code) == code
        with stream("/dev/full") as full, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            assert flush(code) == ends
            error = "reput: error: standard output: No space left on device\n"
            assert capsys.readouterr().err == error
            full.flush()  # as the interpreter does at its end: silently
        reader, writer = os.pipe()
        os.close(reader)
        with stream(writer) as unread, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", unread)
            assert flush(code) == code  # a reader that has seen enough is no failure
            assert capsys.readouterr().err == ""
            unread.flush()
    with stream("/dev/full") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", full)
        complain("what is wrong")  # nobody reads an error either
        assert flush(0) == 0


def test_an_error_is_one_line_for_grep(capsys: pytest.CaptureFixture[str]) -> None:
    complain("/a\n\x1b[2J: is wrong.; do that; Example: reput é")
    assert capsys.readouterr().err == (
        "reput: error: /a\\n\\x1b[2J: is wrong. do that; Example: reput é\n"
    )


def test_on_a_terminal_what_to_do_gets_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setenv("NO_COLOR", "1")
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        complain("is wrong; do that Example: reput check")
        shown = os.read(ours, 1 << 10).decode().replace("\r\n", "\n")
    os.close(ours)
    assert shown == "reput: error: is wrong\n  do that\n  Example: reput check\n"


def test_texts_and_times_as_a_terminal_or_json_has_them() -> None:
    for milliseconds, text in [
        (0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (59_999, "59 s"), (90_000, "1 m 30 s"),
        (3_600_000, "1 h"), (93_600_000, "1 d 2 h"), (-90_000, "-1 m 30 s"),
    ]:  # fmt: skip
        assert duration(milliseconds) == text
    named = {"state": 1, "last_physical_offset": 2}
    assert camel_case(named) == {"state": 1, "lastPhysicalOffset": 2}
    assert safe("Topic é 1") == "Topic é 1"
    assert safe("a\x1b[2J\u202e\n") == "a\\x1b[2J\\u202e\\n"
