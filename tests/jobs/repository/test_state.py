"""What a broker keeps besides its log: what is taken, and what changes meanwhile."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.backups import backups
from reput.jobs.repository import log_pieces, state
from tests.built import Built
from tests.jobs.repository.backing import CONFIG, catalogue, content, run, store


def test_secrets_are_kept_or_left_out_and_never_listed(tmp_path: Path) -> None:
    built = Built().put(count=3).file("broker.conf", "brokerName=broker-a\naclFile=s3cret\n")
    built.file("config/users/CURRENT", "MANIFEST-1\n").file("config/users/000001.log", "s3cret")
    built.file("plain_acl.yml", "s3cret").file("config/users/LOG", "chatter")
    about = run(tmp_path, built)
    assert about.name == "broker-a"
    there = catalogue(tmp_path, "broker-a").run(1)
    own = ["broker.conf", "config/consumerOffset.json", "config/topics.json",
           "config/users/000001.log", "config/users/CURRENT", "plain_acl.yml"]  # fmt: skip
    assert [each.path for each in there.state] == own
    without = run(tmp_path, secrets=False)
    there = catalogue(tmp_path, "broker-a").run(2)
    assert [each.path for each in there.state] == own[1:3]
    assert (without.without, there.without) == (["secrets"], ("secrets",))
    shown = json.dumps([row._asdict() for row in backups(str(tmp_path / "repo"))])
    assert "s3cret" not in shown
    assert "aclFile" not in shown


def test_what_is_done_is_of_the_time_before_the_log_and_topics_of_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a restore would lose what is done only behind its end, or have messages of no topic."""
    path = Path(store(tmp_path, Built().put(count=3)))
    real = log_pieces.LogPacker.packed

    def packed(self: Any) -> Any:
        yield from real(self)
        for name in CONFIG:
            (path / name).write_text('{"late":1}')

    monkeypatch.setattr(log_pieces.LogPacker, "packed", packed)
    run(tmp_path)
    made = catalogue(tmp_path).run(1)
    kept = {name: content(tmp_path, made, name) for name in CONFIG}
    offsets = "config/consumerOffset.json"
    assert kept == {"config/topics.json": b'{"late":1}', offsets: CONFIG[offsets].encode()}


def test_files_that_change_meanwhile_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(store(tmp_path, Built().put(count=3)))
    real, changes = state.Snapshot._read, iter(range(3))

    def read(self: Any, there: Any, put: Any) -> None:
        real(self, there, put)
        if there.path.endswith("Offset.json") and (n := next(changes, None)) is not None:
            (path / "config/consumerOffset.json").write_text(f'{{"offsetTable":{{"n":{n}}}}}')

    monkeypatch.setattr(state.Snapshot, "_read", read)
    about = run(tmp_path)
    assert about.warnings == []
    kept = content(tmp_path, catalogue(tmp_path).run(1), "config/consumerOffset.json")
    assert kept == b'{"offsetTable":{"n":2}}'
