"""`reput completion`: a shell's code to run, as it stands or as JSON."""

import argparse
import json
import sys

import pytest

from reput.jobs.completion import add_arguments, run
from reput.store_format.faults import StoreError


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("shell", "registers"),
    [("bash", "complete "), ("zsh", "compdef "), ("fish", "complete --command reput")],
)
def test_the_code_completes_the_command_reput(shell: str, registers: str, capsys) -> None:
    assert run(parsed(shell)) == 0
    code = capsys.readouterr().out
    assert registers in code
    assert "reput" in code.partition(registers)[1] + code.partition(registers)[2]
    assert run(parsed(shell, "--json")) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": shell, "code": code[:-1]}


def test_quiet_code_is_code_still_and_other_shells_are_refused(capsys) -> None:
    assert run(parsed("bash", "--quiet")) == 0
    assert "reput" in capsys.readouterr().out
    with pytest.raises(argparse.ArgumentError, match="tcsh"):
        parsed("tcsh")


def test_without_argcomplete_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete.shell_integration", None)
    with pytest.raises(StoreError, match=r"pip install 'reput\[completion\]'"):
        run(parsed("bash"))
