"""The examples of docs/fate.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from tests.pages import ROOT
from tests.store_format.fate.stores import unpack

PAGE = (ROOT / "docs" / "fate.md").read_text()


@pytest.fixture(autouse=True)
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in sorted(set(re.findall(r"(\w+_[0-9.]+)/store", PAGE))):
        unpack(name, Path(name))


def block(kind: str) -> str:
    [found] = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_commands(capsys: Any) -> None:
    shown = re.split(r"^\$ reput (.*)\n", block("console"), flags=re.MULTILINE)[1:]
    assert len(shown) == 6
    for words, wanted in zip(shown[::2], shown[1::2], strict=True):
        assert main(words.split()) == 0
        said = capsys.readouterr()
        notes = [each for each in said.err.splitlines(True) if "bytes read" not in each]
        assert "".join(notes) + said.out == wanted


def test_functions(capsys: Any) -> None:
    pytest.importorskip("pyarrow")
    exec(compile(block("python"), "docs/fate.md", "exec"), {})
    assert capsys.readouterr().out == "3 Live0 3\n['delayed'] 1\n"
