"""What docs/query.md shows is what the commands print."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.cli import main
from tests import golden_stores
from tests.built import write_log
from tests.logs import Message, build_log, properties
from tests.pages import ROOT

PAGE = ROOT / "docs" / "query.md"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of the page, in the current folder: links, since it is only read."""
    golden = golden_stores.unpack("broker_clean_5.3.3")
    (tmp_path / "store").mkdir()
    for path in [*golden.input.iterdir(),
                 *(golden.expect / name for name in golden_stores.DERIVED)]:  # fmt: skip
        link = tmp_path / "store" / path.name
        if path.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def test_the_commands_and_the_python_example_print_what_the_page_says(store, capsys) -> None:
    (page,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = re.split(r"^\$ reput ", page, flags=re.MULTILINE)[1:]
    assert len(shown) == 4
    for each in shown:
        words, _, wanted = each.partition("\n")
        assert main(shlex.split(words)) == 0
        said = capsys.readouterr()
        assert said.out + said.err == wanted, words
    (example,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == [
        "Live2 2 0 TagB ['order603']", "3 []", "722 292",
        "[('Live0', 1420), ('Live1', 993), ('Live2', 920)]",
    ]  # fmt: skip


def test_a_new_user_finds_a_message_and_its_life_from_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pairs = {"KEYS": "o-17", "UNIQ_KEY": "0" * 32, "price": "11", "region": "eu"}
    message = Message(
        topic="Orders", body=b"the body", properties=properties(*pairs.items()),
        store_host=bytes.fromhex("7F00000100002A9F"), store_timestamp=1_795_300_000_000,
    )  # fmt: skip
    write_log(tmp_path / "store", build_log([message], 4096))
    (tmp_path / "keys.txt").write_text("o-17\nnone\n")
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs/query.md").read_text().partition("## Find a message")[2]
    asked = re.findall(r"^\$ reput (.*)$", section.partition("\n## ")[0], re.MULTILINE)
    assert len(asked) == 3
    for words in asked:
        assert main(shlex.split(words, comments=True)) == 0
        shown = capsys.readouterr().out
        assert "o-17" in shown or "put    Orders/0" in shown, words
