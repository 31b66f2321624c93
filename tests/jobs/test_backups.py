"""`reput backups` lists what a repository has, and what was found by its checks."""

import json
from pathlib import Path

import pytest

from reput.jobs import cli
from reput.jobs.backups import backups
from tests.built import Built
from tests.jobs.repository.backing import run


def test_each_backup_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = Built().put(count=20)
    run(tmp_path, built)
    run(tmp_path, Built().put(count=15).put(count=9, body=b"other"))
    checks = tmp_path / "repo/store/checks"
    checks.mkdir()
    about = {"format": "reput-repository-1", "checked": 1_700_000_000_000, "runs": {"1": "whole"}}
    file = checks / "20261127T174500Z-0.json"
    file.write_text(json.dumps(about))
    assert cli.main(["backups", f"{tmp_path}/repo"]) == 2
    assert f"{file}: pieces: null is not names with texts" in capsys.readouterr().err
    file.write_text(json.dumps(about | {"pieces": {}}))
    new, old = backups(str(tmp_path / "repo"))
    assert (old.run, old.verdict, old.checked, old.branch) == (1, "whole", 1_700_000_000_000, None)
    assert (new.run, new.verdict, new.branch, new.parent) == (2, None, built.places()[15], 1)
    assert (new.last_message, new.files) == (built.messages[0].store_timestamp + 23_000, 2)
    assert cli.main(["backups", f"{tmp_path}/repo", "--limit", "1"]) == 0
    said = capsys.readouterr()
    assert f"branch of 1 at {built.places()[15]:,}" in said.out
    assert "1 more" in said.err
    assert cli.main(["backups", f"{tmp_path}/repo", "--store", "store", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["verdict"] for row in rows] == [None, "whole"]


def test_what_is_no_repository_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["backups", str(tmp_path)]) == 2
    assert "is not a backup repository" in capsys.readouterr().err
