"""What docs/query.md shows is what the commands print."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from tests import golden_stores
from tests.planting import ROOT
from tests.query.stores import DERIVED

PAGE = ROOT / "docs" / "query.md"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of the page, in the current folder: links, since it is only read."""
    golden = golden_stores.unpack("broker_clean_5.3.3")
    (tmp_path / "store").mkdir()
    for path in [*golden.input.iterdir(), *(golden.expect / name for name in DERIVED)]:
        link = tmp_path / "store" / path.name
        if path.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def test_the_commands_print_what_the_page_says(store: Path, capsys: Any) -> None:
    (page,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = re.split(r"^\$ reput ", page, flags=re.MULTILINE)[1:]
    assert len(shown) == 4
    for each in shown:
        words, _, wanted = each.partition("\n")
        assert main(shlex.split(words)) == 0
        said = capsys.readouterr()
        assert said.out + said.err == wanted, words


def test_the_python_example_runs_as_it_stands(store: Path, capsys: Any) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == [
        "Live2 2 0 TagB ['order603']",
        "3 []",
        "722 292",
        "[('Live0', 1420), ('Live1', 993), ('Live2', 920)]",
    ]
