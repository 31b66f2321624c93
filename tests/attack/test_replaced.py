"""What may be replaced: a set of ours that nobody has added to, and nothing else."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.outputs.output import OutputInUse, OverlapsInput
from reput.jobs.repair import repair
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import LocalStorage
from tests.attack.worlds import LOGS, World, everything, in_process, put
from tests.in_process import run


def rebuild(world: World, output: Path, **more: Any) -> Any:
    return run(str(world.store), str(output), rocketmq="5.3.3", settings=world.settings, **more)


def fixed(world: World, output: Path, **more: Any) -> Any:
    return in_process(repair, str(world.store), str(output), settings=world.settings, **more)


def manifest_of(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def files(manifest: dict[str, Any]) -> list[Any]:
    found: list[Any] = manifest["files"] if "files" in manifest else manifest["derived"]
    return found


def listed(path: str) -> dict[str, Any]:
    return {"path": path, "length": 13, "sha256": ""}


SPOILT: dict[str, Callable[[Path], object]] = {
    "a file of another": lambda out: put(out / "thesis.doc"),
    "a hidden file": lambda out: put(out / ".git" / "HEAD"),
    "a file among queues": lambda out: put(out / "consumequeue" / "T" / "0" / "thesis.doc"),
    "a segment more": lambda out: put(out / "consumequeue" / "T" / "0" / f"{1 << 40:020d}"),
    "an empty folder": lambda out: (out / "mine").mkdir(),
    "a link": lambda out: (out / "more").symlink_to("/tmp"),
    "a link for a file": lambda out: (
        (out / "checkpoint").unlink(), (out / "checkpoint").symlink_to("/etc/passwd")
    ),
    "a FIFO": lambda out: os.mkfifo(out / "fifo"),
    "a store's lock": lambda out: put(out / "lock"),
    "a file of another length": lambda out: (out / "checkpoint").write_bytes(b"longer" * 1000),
    "no manifest": lambda out: (out / "manifest.json").unlink(),
    "a note for a manifest": lambda out: put(out / "manifest.json", "my cargo: 3 tons"),
    "a manifest of another program": lambda out: put(out / "manifest.json", '{"name": "app"}'),
    "a manifest that is a list": lambda out: put(out / "manifest.json", "[]"),
    "a deep manifest": lambda out: put(out / "manifest.json", "[" * 100_000),
    "a manifest without files": lambda out: manifest_of(
        out, lambda m: [m.pop(n, 0) for n in ("files", "derived")]
    ),
    "a manifest that lists all": lambda out: (
        put(out / "thesis.doc"), manifest_of(out, lambda m: files(m).append(listed("thesis.doc")))
    ),
    "a manifest that climbs": lambda out: manifest_of(
        out, lambda m: files(m).append(listed("consumequeue/../0/" + "0" * 20))
    ),
    "a manifest of numbers": lambda out: manifest_of(out, lambda m: files(m).append(7)),
    "a marker": lambda out: ((out / "manifest.json").unlink(), put(out / ".reput-unfinished", "")),
}  # fmt: skip


@pytest.mark.parametrize("job", [rebuild, fixed], ids=["rebuild", "repair"])
def test_only_a_set_of_ours_is_replaced(world: World, job: Callable[..., Any]) -> None:
    name = "replace" if job is rebuild else "replace_output"
    out, fresh = world.root / "work" / "out", world.root / "fresh"
    job(world, out)
    made = everything(out)
    job(world, out, **{name: True})
    assert everything(out) == made
    shutil.copytree(out, fresh, symlinks=True)
    wrong = {}
    for spoilt, spoil in SPOILT.items():
        shutil.rmtree(out)
        shutil.copytree(fresh, out, symlinks=True)
        spoil(out)
        before = everything(world.root)
        for replace in (False, True):
            try:
                job(world, out, **{name: replace})
                wrong[spoilt] = "was replaced"
            except StoreError as error:
                if "--replace" in str(error):
                    wrong[spoilt] = f"recommends: {error}"
            if everything(world.root) != before:
                wrong[spoilt] = "changed"
    assert wrong == {}
    shutil.rmtree(out)
    shutil.copytree(fresh, out, symlinks=True)
    with pytest.raises(OutputInUse, match="--replace puts the new set"):
        job(world, out)


def test_a_rebuild_does_not_replace_a_repaired_store_nor_the_other_way(world: World) -> None:
    sets, stores = world.root / "work" / "set", world.root / "work" / "store"
    rebuild(world, sets)
    fixed(world, stores)
    before = everything(world.root)
    with pytest.raises(StoreError, match="is not a manifest of a set that reput has rebuilt"):
        rebuild(world, stores, replace=True)
    with pytest.raises(StoreError, match="is not a manifest of a store that reput has repaired"):
        fixed(world, sets, replace_output=True)
    for path in (stores, sets):
        link = world.root / "work" / "link"
        link.symlink_to(path)
        with pytest.raises(StoreError, match="is a link"):
            (
                rebuild
                if path is sets
                else lambda w, p, replace: fixed(w, p, replace_output=replace)
            )(world, link, replace=True)
        link.unlink()
    assert everything(world.root) == before


@pytest.mark.parametrize(
    ("owner", "step"), [(LocalStorage, "publish"), (DiskFiles, "sync_all")]
)  # fmt: skip
def test_what_came_while_the_job_ran_stays(owner, step: str, world: World, monkeypatch) -> None:
    """Checked when the job begins is not enough: asked again before the set is made durable, which
    takes long, and behind that.
    """
    out = world.root / "work" / "out"
    rebuild(world, out)
    real, exchange, exchanged = getattr(owner, step), DiskFiles.exchange, []

    def late(self: Any, *words: Any) -> None:
        put(out / "index" / "thesis.doc")
        real(self, *words)

    def seen(self: DiskFiles, *words: str) -> None:
        exchanged.append(words)
        exchange(self, *words)

    monkeypatch.setattr(owner, step, late)
    monkeypatch.setattr(DiskFiles, "exchange", seen)
    with pytest.raises(StoreError, match=r"thesis\.doc: is not in its manifest"):
        rebuild(world, out, replace=True)
    assert (out / "index" / "thesis.doc").read_text() == "years of work"
    assert sorted(p.name for p in out.parent.iterdir()) == ["out"]
    assert not exchanged  # it kept its place, too


@pytest.mark.parametrize("what", ["a file", "another folder", "the store"])
def test_what_came_at_the_last_moment_gets_its_place_back(world, monkeypatch, what: str) -> None:
    """Between the last look and the exchange of the names."""
    out, aside = world.root / "work" / "out", world.root / "work" / "aside"
    rebuild(world, out)
    real, calls = DiskFiles.exchange, []

    def late(self: DiskFiles, path: str, to: str) -> None:
        if not calls:
            if what == "a file":
                put(out / "thesis.doc")
            else:
                out.rename(aside)
                shutil.copytree(aside, out) if what == "another folder" else world.store.rename(out)
        calls.append(path)
        real(self, path, to)

    before = everything(world.store)
    monkeypatch.setattr(DiskFiles, "exchange", late)
    with pytest.raises((StoreError, StoreChanged)):
        rebuild(world, out, replace=True)
    assert len(calls) == 2
    if what == "a file":
        assert (out / "thesis.doc").read_text() == "years of work"
    elif what == "the store":
        assert everything(out) == before
    else:
        assert everything(out) == everything(aside)
    assert [p.name for p in out.parent.iterdir() if p.name.startswith(".")] == []


def test_a_store_within_what_a_killed_job_left_stays(world: World) -> None:
    """Staging of that name goes with all in it, but not where the store itself is there."""
    left = world.root / "work" / f".out.reput-{'0' * 32}"
    left.mkdir(mode=0o700)
    moved = world.store.rename(left / "store")
    os.chdir(moved)
    before = everything(world.root)
    settings = {**world.settings, LOGS: world.settings[LOGS].replace(str(world.store), str(moved))}
    with pytest.raises(OverlapsInput, match="holds"):
        run(str(moved), str(world.root / "work" / "out"), rocketmq="5.3.3", settings=settings)
    assert everything(world.root) == before
