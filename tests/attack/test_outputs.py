"""Outputs that are, hold or lie inside an input, in every spelling, for each command that writes.

After each attempt all that was there is there: names, modes, links and bytes.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.backup import backup
from reput.jobs.catch_up import catch_up
from reput.jobs.check import check
from reput.jobs.cli import main
from reput.jobs.convert import convert
from reput.jobs.export import export
from reput.jobs.outputs.output import NewFile, OutputInUse, OverlapsInput, inputs_of
from reput.jobs.recover import recover
from reput.jobs.repair import repair
from reput.jobs.replicate import replicate
from reput.jobs.report import report
from reput.jobs.verify import verify
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files import overlap
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.overlap import relation
from tests.attack.worlds import LOGS, SETTINGS, World, everything, in_process, put, refused
from tests.in_process import run

WRITERS: dict[str, Callable[[World, str, bool], Any]] = {
    "rebuild": lambda world, output, replace: run(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings, replace=replace),
    "repair": lambda world, output, replace: in_process(
        repair, str(world.store), output, settings=world.settings, replace_output=replace),
    "convert": lambda world, output, replace: in_process(
        convert, str(world.store), output, settings=world.settings, replace=replace),
    "export": lambda world, output, replace: in_process(
        export, str(world.store), output, settings=world.settings, replace=replace),
    "catch-up": lambda world, output, replace: catch_up(
        str(world.store), rocketmq="5.3.3", settings=world.settings, output=output,
        replace=replace),
    "replicate": lambda world, output, _: replicate(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings),
    "backup": lambda world, output, _: backup(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings),
}  # fmt: skip


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
@pytest.mark.parametrize("name", WRITERS)
def test_no_output_is_in_an_input(world: World, name: str, replace: bool) -> None:
    refused(world, lambda output: WRITERS[name](world, output, replace))


def test_a_merge_into_a_store_that_is_merged(world: World) -> None:
    other = world.root / "work" / "other"
    (other / "commitlog").mkdir(parents=True)
    sizes = {n: v for n, v in world.settings.items() if n != LOGS}
    segment = Path(world.folders[0], f"{0:020d}").read_bytes()
    (other / "commitlog" / f"{0:020d}").write_bytes(segment)
    first = world.root / "work" / "first"
    (first / "commitlog").mkdir(parents=True)
    (first / "commitlog" / f"{0:020d}").write_bytes(segment)
    before = everything(world.root)
    for output in (other, other / "new", first, first / "commitlog", world.root / "work"):
        with pytest.raises(OverlapsInput):
            in_process(convert, str(first), str(output), merge=[str(other)], meet="renumber",
                       settings=sizes, replace=True)  # fmt: skip
    assert everything(world.root) == before


HOLDS = (
    "its parent", "the top", "the root", "relative, above", "what holds another folder of the log",
    "what holds that", "what will hold that")  # fmt: skip


@pytest.mark.parametrize("job", [verify, check], ids=["verify", "check"])
def test_staging(world: World, job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder may hold a store, as /tmp does; it may not be in one."""
    outputs = {n: o for n, o in world.outputs().items() if n not in HOLDS}
    monkeypatch.setattr(world, "outputs", lambda: {
        **outputs, **{str(n): o for n, o in enumerate(outputs.values())}})  # fmt: skip
    refused(world, lambda output: in_process(job, str(world.store), staging_folder=output,
                                             settings=world.settings))  # fmt: skip


def test_neither_the_temporary_folder_nor_against_is_an_output(world: World, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(world.store / "run"))
    before = everything(world.root)
    for job in (verify, check):
        with pytest.raises(OverlapsInput, match="lies inside"):
            in_process(job, str(world.store), settings=world.settings)
    with pytest.raises(StoreError):
        in_process(recover, str(world.store), settings=SETTINGS, dry_run=True)
    assert everything(world.root) == before
    against = world.root / "against"
    against.mkdir()
    with pytest.raises(OverlapsInput, match="against"):
        in_process(verify, str(world.store), against=str(against),
                   staging_folder=str(against / "x"), settings=world.settings)  # fmt: skip
    assert list(against.iterdir()) == []


def test_a_picture(world: World) -> None:
    storage = LocalStorage()
    inputs = tuple(inputs_of(Place(storage, str(world.store)), world.settings))
    refused(world, lambda path: NewFile(path, inputs).check())
    refused(world, lambda path: NewFile(path, inputs).write(b"svg"))


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_a_report(world: World, replace: bool) -> None:
    refused(world, lambda path: report(str(world.store), path, settings=world.settings,
                                       replace=replace))  # fmt: skip
    page = world.root / "work" / "report.html"
    report(str(world.store), str(page), settings=world.settings, replace=replace)
    assert page.is_file()


@pytest.mark.parametrize("option", ["--picture", "--ranges"])
@pytest.mark.parametrize("where", ["store/log.svg", "store/commitlog/log.svg", "store/thesis.doc"])
def test_the_command_refuses_a_file_beside_before_it_begins(world, where, option, capsys) -> None:
    before = everything(world.root)
    path = str(world.root / "data" / where)
    assert main(["check", str(world.store), "--rocketmq", "5.3.3", option, path]) == 2
    assert f"{option} {path}: " in capsys.readouterr().err
    assert everything(world.root) == before


# --- What may be replaced: a set of ours that nobody has added to, and nothing else.
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
    ("owner", "step"), [(LocalStorage, "publish"), (DiskFiles, "sync_all")])  # fmt: skip
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


# --- Where a path leads: mounts, binds, and what is not there yet.
_BOUND = """
import os, subprocess, sys
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.overlap import relation
top = sys.argv[1]
for name in ("store", "store/commitlog", "mnt", "sub", "up/er"):
    os.makedirs(f"{top}/{name}")
for source, at in (("store", "mnt"), ("store/commitlog", "sub"), (".", "up/er")):
    subprocess.run(["mount", "--bind", f"{top}/{source}", f"{top}/{at}"], check=True)
where = LocalStorage().whereabouts
store = where(f"{top}/store")
for path in ("mnt", "mnt/x", "sub", "sub/x/y", "up/er/store", "up/er", "up/er/mnt", "up/er/other"):
    print(path, relation(where(f"{top}/{path}"), store))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts: wants root")
def test_bind_mounts(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", _BOUND, str(tmp_path)], capture_output=True,
        text=True, check=False, cwd=Path(__file__).parents[2])  # fmt: skip
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mounts of its own here: {done.stderr.splitlines()[-1]}")
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == {
        "mnt": "is", "mnt/x": "lies inside", "sub": "lies inside", "sub/x/y": "lies inside",
        "up/er/store": "is", "up/er": "holds", "up/er/mnt": "None", "up/er/other": "None",
    }, done.stderr  # fmt: skip


@pytest.mark.parametrize("mounts", ["/proc/self/mountinfo", "/nowhere"])  # no Linux, or no /proc
def test_folders_above_and_below(mounts: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(overlap, "_MOUNTS", mounts)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "store" / "commitlog")
    where = LocalStorage().whereabouts
    store = where(str(tmp_path / "store"))
    assert relation(where(str(tmp_path / "link")), store) == "lies inside"
    assert relation(where(str(tmp_path / "link" / "new")), store) == "lies inside"
    assert relation(where(str(tmp_path)), store) == "holds"
    assert relation(where(str(tmp_path / "other")), store) is None


def test_names_that_are_not_there_yet(tmp_path: Path) -> None:
    where = LocalStorage().whereabouts
    new = where(str(tmp_path / "New" / "store"))
    assert relation(where(str(tmp_path / "new" / "STORE" / "x")), new) == "lies inside"
    assert relation(where(str(tmp_path / "new")), new) == "holds"
    assert relation(where(str(tmp_path / "newer")), new) is None
    assert relation(where(str(tmp_path / "new" / "store2")), new) is None
