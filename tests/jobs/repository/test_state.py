"""What a broker keeps besides its log: what is taken, and what changes meanwhile."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from reput.jobs import cli
from reput.jobs.backups import backups
from reput.jobs.repository import log_pieces, state
from tests.built import Built
from tests.jobs.repository.backing import CONFIG, catalogue, content, run, store
from tests.store_format.log.epoch_files import file_of


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


def test_files_that_change_meanwhile_are_read_again(tmp_path: Path, monkeypatch) -> None:
    path = Path(store(tmp_path, Built().put(count=3)))
    real, changes = state.Snapshot._read, iter(range(3))

    def read(self: Any, there: Any, put: Any) -> None:
        real(self, there, put)
        if there.path.endswith("Offset.json") and (n := next(changes, None)) is not None:
            # each of another size: two writes may have one time, to the clock's tick
            (path / "config/consumerOffset.json").write_text(f'{{"offsetTable":{{"n":{10**n}}}}}')

    monkeypatch.setattr(state.Snapshot, "_read", read)
    about = run(tmp_path)
    assert about.warnings == []
    kept = content(tmp_path, catalogue(tmp_path).run(1), "config/consumerOffset.json")
    assert kept == b'{"offsetTable":{"n":100}}'


@pytest.mark.parametrize("torn", [b"", bytes(9), b'{"topicConfigTable":{"T'])
def test_of_a_torn_file_the_bak_is_kept(torn: bytes, tmp_path: Path) -> None:
    """As a broker reads it."""
    topics, epochs = CONFIG["config/topics.json"], file_of("1-0").decode()
    built = Built().put(count=3).file("config/topics.json", torn)
    built.file("config/topics.json.bak", topics).file("config/consumerOffset.json", torn)
    built.file("epochFileCheckpoint", torn).file("epochFileCheckpoint.bak", epochs)
    run(tmp_path, built)
    made = catalogue(tmp_path).run(1)
    kept = {each.path: content(tmp_path, made, each.path) for each in made.state}
    assert kept == {"config/topics.json": topics.encode(), "epochFileCheckpoint": epochs.encode(),
                    "config/consumerOffset.json": torn}  # fmt: skip
    assert run(tmp_path).new_files == 0


@pytest.mark.parametrize("secrets", [True, False])
def test_a_secret_is_in_no_object_but_the_files_that_have_it(secrets, tmp_path, capsys) -> None:
    built, word = Built().put(count=3), "word-4711"
    conf = f"initAuthenticationUser={word}\ninnerClientAuthenticationCredentials={word}\n"
    for path in ("broker.properties", "broker.properties.bak", "users/4.log", "acls/4.log"):
        built.file(f"config/{path}", f"brokerName=store\n{conf}")
    store(tmp_path, built)
    (tmp_path / "broker.conf").write_text(conf)
    (tmp_path / "plain_acl.yml").write_text(word)
    for _ in range(2):
        run(tmp_path, conf=str(tmp_path / "broker.conf"), secrets=secrets)
    whole = {path: path.read_bytes() for path in (tmp_path / "repo").rglob("*") if path.is_file()}
    plain = {path: pyarrow.CompressedInputStream(pyarrow.BufferReader(raw), "zstd").read()
             if path.suffix == ".zst" else raw for path, raw in whole.items()}  # fmt: skip
    found = {path.parent.name for path, raw in plain.items() if word.encode() in raw}
    assert found == ({"state"} if secrets else set())
    assert cli.main(["backups", str(tmp_path / "repo"), "--json"]) == 0
    out = str(tmp_path / "page.html")
    assert cli.main(["report", str(tmp_path / "repo"), "--output", out]) == 0
    assert word not in "".join(capsys.readouterr()) + Path(out).read_text()
