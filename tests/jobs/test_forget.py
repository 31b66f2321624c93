"""`reput forget` on the command line: it asks, and says what goes."""

import json
from pathlib import Path

import pytest

from reput.jobs import cli
from tests.built import Built
from tests.jobs.repository.backing import catalogue, run


def test_it_asks_before_it_removes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, Built().put(count=20))
    run(tmp_path)
    words = ["forget", f"{tmp_path}/repo", "--keep-last", "1"]
    assert cli.main([*words, "--dry-run"]) == 1
    assert "store: would remove 1 backup: 0 bytes; kept: 1 backup" in capsys.readouterr().out
    assert cli.main(words) == 2
    assert "--yes does it" in capsys.readouterr().err
    assert cli.main([*words, "--yes", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["stores"]
    assert (found["removed"], found["done"]) == ([1], True)
    assert [each.run for each in catalogue(tmp_path).backups()] == [2]


@pytest.mark.parametrize("words", [
    [], ["--keep", "30d", "--keep-last", "1"], ["--keep-last", "0"], ["--keep", "soon"],
    ["--keep", "1d", "--store", "x"]])  # fmt: skip
def test_wrong_words(tmp_path: Path, words: list[str]) -> None:
    run(tmp_path, Built().put())
    try:
        code = cli.main(["forget", f"{tmp_path}/repo", *words, "--yes"])
    except SystemExit as ended:
        code = ended.code
    assert code == 2
