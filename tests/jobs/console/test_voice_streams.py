"""The standard streams at the end of a command: what cannot be written any more, and errors."""

import os
import pty
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest

from reput.jobs.console.voice import complain, discard, flush


@pytest.fixture
def full() -> Iterator[TextIO]:
    """A file on a full disk, with something to be flushed."""
    with open("/dev/full", "w") as file:
        file.write("said")
        yield file
        discard(file)


@pytest.fixture
def unread() -> Iterator[TextIO]:
    """A pipe whose reader has gone."""
    reader, writer = os.pipe()
    with open(writer, "w") as file:
        os.close(reader)
        file.write("said")
        yield file
        discard(file)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_what_was_flushed_ends_as_it_ended(code: int) -> None:
    assert flush(code) == code


@pytest.mark.parametrize(("code", "ends"), [(0, 3), (1, 1), (2, 2)])
def test_a_full_disk_is_told_and_is_a_failure_unless_there_was_another(
    code: int, ends: int, full: TextIO, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "stdout", full)
    assert flush(code) == ends
    assert capsys.readouterr().err == ("reput: error: standard output: No space left on device\n")
    full.flush()  # as the interpreter does at its end: silently


@pytest.mark.parametrize("code", [0, 1])
def test_a_reader_that_has_seen_enough_is_no_failure(
    code: int, unread: TextIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", unread)
    assert flush(code) == code
    assert capsys.readouterr().err == ""
    unread.flush()


def test_nobody_reads_an_error_either(full: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", full)
    complain("what is wrong")
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
