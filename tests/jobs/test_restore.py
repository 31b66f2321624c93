"""Stores restored to moments: all that the broker had then, and nothing where it failed."""

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from reput import restore
from reput.jobs import cli
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.files import disk
from tests.backed_up import ends, log_of, made, state
from tests.built import SIZES, T0, Built
from tests.in_process import Session
from tests.reference.repository import Repository
from tests.trees import contents

__all__ = ["made"]  # a fixture


def kept(folder: Path) -> dict[str, bytes]:
    return {path: raw for path, raw in contents(folder).items() if path != "manifest.json"}


def of_messages(count: int) -> dict[str, bytes]:
    """The files of a store of so many messages, by the slow reference, but its index's names."""
    files = Built().put(count=count, keys="k").derive().contents()
    return {path.replace("index/202601010000", "index/"): raw for path, raw in files.items()}


@pytest.mark.parametrize(
    ("wanted", "messages", "offset"),
    [({}, 70, 68), ({"at": T0 + 45_000}, 46, 18), ({"to_offset": ends()[29] + 1}, 30, 18)],
)
def test_a_restored_store_is_what_the_broker_had(made, tmp_path, wanted, messages, offset) -> None:
    about = restore(Session(), str(made.root), str(tmp_path / "out"), **wanted)
    assert about.good
    found, reference = kept(tmp_path / "out"), of_messages(messages)
    derived = {path for path in reference if path.startswith(("commitlog", "consumequeue"))}
    assert {path: found[path] for path in derived} == {path: reference[path] for path in derived}
    index = [raw for path, raw in sorted(found.items()) if path.startswith("index")]
    assert index == [raw for path, raw in sorted(reference.items()) if path.startswith("index")]
    assert "checkpoint" in found
    assert json.loads(found["config/consumerOffset.json"].replace(b"{0:", b'{"0":')) == {
        "offsetTable": {"T@g": {"0": offset}}
    }
    topics = tmp_path / "out/config/topics.json"
    assert stat.S_IMODE(topics.stat().st_mode) == 0o600


def test_all_stores_are_restored_to_one_moment(made: Repository, tmp_path: Path) -> None:
    other = Repository(made.root, "broker-b", settings=SIZES)
    other.run(log_of(Built().put("B", count=90)), T0 + 90_000, state=state(0))
    with pytest.raises(StoreError, match="--store says which"):
        restore(Session(), str(made.root), str(tmp_path / "out"))
    restore(Session(), str(made.root), str(tmp_path / "out"), at=T0 + 30_000)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["broker-a", "broker-b"]
    assert any((tmp_path / "out/broker-b/consumequeue/B/0").iterdir())
    assert cli.main(["restore", str(made.root), "--output", f"{tmp_path}/all", "--at", "now"]) == 0
    logs = [[segment.name for segment in (tmp_path / "all" / name / "commitlog").iterdir()]
            for name in ("broker-a", "broker-b")]  # fmt: skip
    assert sorted(map(len, logs)) == [4, 5]


@pytest.mark.parametrize("there", [False, True])
def test_of_several_stores_all_are_there_or_none(made, tmp_path, monkeypatch, there) -> None:
    """there: the output is, and is empty."""
    other = Repository(made.root, "broker-b", settings=SIZES)
    other.run(log_of(Built().put("B", count=90)), T0 + 90_000, state=state(0))
    out = tmp_path / "out"
    if there:
        out.mkdir()
    before = sorted(tmp_path.glob("**/*"))

    def stopped(*_: Any) -> None:
        assert len(list(tmp_path.glob("**/.out.reput-*/stores/*/consumequeue"))) == 2
        raise OSError("stopped")

    monkeypatch.setattr(disk, "put_in_place", stopped)
    with pytest.raises(OSError, match="stopped"):
        restore(Session(), str(made.root), str(out), at=T0 + 30_000)
    monkeypatch.undo()
    assert sorted(tmp_path.glob("**/*")) == before
    about = restore(Session(), str(made.root), str(out), at=T0 + 30_000)
    assert [each.output for each in about.stores] == [f"{out}/broker-a", f"{out}/broker-b"]
    assert sorted(path.name for path in out.iterdir()) == ["broker-a", "broker-b"]
    with pytest.raises(StoreError, match="is not empty; give another folder"):
        restore(Session(), str(made.root), str(out), at=T0 + 30_000)


def test_a_store_is_written_anew_and_each_of_several_says_all_that_it_has(
    made: Repository, tmp_path, capsys
) -> None:
    about = restore(Session(), str(made.root), str(tmp_path / "out"), at=T0 + 45_000,
                    to_settings={"mappedFileSizeCommitLog": "4096"})  # fmt: skip
    sizes = {path.stat().st_size for path in (tmp_path / "out/commitlog").iterdir()}
    assert sizes == {4096}
    assert about.stores[0].messages == 46
    shutil.copytree(made.root / "broker-a", made.root / "broker-b")
    words = ["restore", str(made.root), "--at", "now", "--output", str(tmp_path / "all")]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines.count(next(line for line in lines if line.startswith("  log "))) == 2


@pytest.mark.parametrize(("out", "what"), [
    ("repo", "is"), ("repo/broker-a/new", "lies inside"), (".", "holds"),
    ("full", "is not empty"), ("whole", "is not empty"), ("file", "is not a folder")])  # fmt: skip
def test_a_folder_that_is_not_for_it_stays(made: Repository, tmp_path, out: str, what: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine")
    restore(Session(), str(made.root), str(tmp_path / "whole"))
    (tmp_path / "file").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=what) as refused:
        restore(Session(), str(made.root), str(tmp_path / out))
    assert "--replace" not in str(refused.value)
    assert contents(tmp_path) == before


def test_damage_leaves_nothing(made: Repository, tmp_path: Path) -> None:
    piece = sorted((made.folder / "log").iterdir())[2]
    raw = piece.read_bytes()
    piece.write_bytes(raw[:50] + b"\xff" + raw[51:])
    with pytest.raises(StoreError, match=piece.name):
        restore(Session(), str(made.root), str(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["repo"]
    restore(Session(), str(made.root), str(tmp_path / "out"), to_offset=int(piece.name[:20]))


def test_a_log_with_damage_is_restored_as_it_was(tmp_path: Path) -> None:
    log = bytearray(log_of(Built().put(count=20)))
    log[5 * 98 + 91] ^= 1  # in a body
    made = Repository(tmp_path / "repo", settings=SIZES)
    made.run(bytes(log), T0 + 20_000, state=state(0))
    with pytest.raises(DamageFound):
        restore(Session(), str(made.root), str(tmp_path / "out"))
    restore(Session(), str(made.root), str(tmp_path / "out"), on_damage="salvage")
    assert (tmp_path / f"out/commitlog/{0:020d}").read_bytes() == bytes(log[:2048])


def test_the_command_says_what_it_made(made: Repository, tmp_path: Path, capsys) -> None:
    words = ["restore", str(made.root), "--output", str(tmp_path / "out"), "--to-offset", "3000"]
    assert cli.main(words) == 0
    out, errors = capsys.readouterr()
    assert out.startswith(f"restored broker-a of {made.root} -> {tmp_path}/out (RocketMQ 5.3.3)")
    assert out.endswith(f"next      start a broker on {tmp_path}/out\n")
    assert "no record ends at 3,000" in errors
    assert cli.main(["verify", str(tmp_path / "out"), "--rocketmq", "5.3.3", "--quiet",
                     *(f"--set={name}={value}" for name, value in SIZES.items())]) == 0  # fmt: skip
