"""Outputs that are, hold or lie inside an input, in every spelling, for each command that writes.

After each attempt all that was there is there: names, modes, links and bytes.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyspark.sql
import pytest

from reput.jobs.catch_up import catch_up
from reput.jobs.check import check
from reput.jobs.clean import clean
from reput.jobs.cli import main
from reput.jobs.engine.outputs import NewFile, OutputInUse, OverlapsInput, inputs_of
from reput.jobs.engine.staging import staging_folder
from reput.jobs.expire import expire
from reput.jobs.export import export
from reput.jobs.install import install_set, undo_install
from reput.jobs.recover import recover
from reput.jobs.repair import repair
from reput.jobs.replicate import replicate
from reput.jobs.report import report
from reput.jobs.verify import verify
from reput.store_format.disk.local_files import DiskFiles
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.message.message import Message
from reput.store_format.storage import overlap
from reput.store_format.storage.local import LocalStorage
from reput.store_format.storage.overlap import relation, where_mounted
from tests.attack.test_wrong_input import SEGMENT, messages
from tests.attack.test_wrong_input import SETTINGS as LOG_SETTINGS
from tests.in_process import Session, functions, run
from tests.logs.encoder import build_log
from tests.writer.stores import open_writer

SETTINGS = {**LOG_SETTINGS, "mappedFileSizeConsumeQueue": "400"}
LOGS = "storePathCommitLog"


def everything(root: Path) -> dict[str, tuple[Any, ...]]:
    """All below a folder: kind and mode, and a file's bytes or a link's goal."""
    found: dict[str, tuple[Any, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = ""
            if stat.S_ISREG(about.st_mode):
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            elif stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, root)] = (about.st_mode, content)
    return found


class World:
    """A store whose log is in three places, with links into it from all around."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root, root / "data" / "store"
        log = build_log(messages(), SEGMENT)
        self.folders = [
            self.store / "commitlog",
            root / "disk2" / "log",
            root / "disk3" / "deep" / "log",
        ]
        for folder, (base, content) in zip(self.folders, log.items(), strict=True):
            folder.mkdir(parents=True)
            (folder / f"{base:020d}").write_bytes(content)
        (self.store / "config").mkdir()
        (self.store / "config" / "topics.json").write_text('{"topicConfigTable": {}}')
        (root / "other" / "index").mkdir(parents=True)
        (self.store / "index").symlink_to(root / "other" / "index")
        (self.store / "thesis.doc").write_text("years of work")
        (self.store / "run").mkdir(mode=0o750)
        (root / "to_store").symlink_to(self.store)
        (root / "to_log").symlink_to(self.folders[1])
        (root / "to_link").symlink_to("to_store")
        (root / "to_nothing").symlink_to(self.store / "not" / "there")
        (root / "work").mkdir()
        self.settings = {
            **SETTINGS, LOGS: ", ".join(str(folder) + "/" for folder in self.folders),
            "storePathIndex": str(root / "disk4" / "index"),
        }  # fmt: skip

    def outputs(self) -> dict[str, str]:
        """Every place that must be refused, by what it is."""
        r, s = str(self.root), str(self.store)
        return {
            "the store": s,
            "with a slash": f"{s}/",
            "with slashes": f"{r}//data///store",
            "with dots": f"{s}/./commitlog/..",
            "by its parent": f"{s}/../store",
            "a URL": f"file://{s}",
            "a URL of a host": f"file://localhost{s}",
            "a short URL": f"file:{s}",
            "a URL in capitals": f"FILE:{s}",
            "by the current folder": "/proc/self/cwd",
            "relative": ".",
            "relative, above": "..",
            "a link": f"{r}/to_store",
            "a link with a slash": f"{r}/to_store/",
            "a link to a link": f"{r}/to_link",
            "below a link": f"{r}/to_store/new",
            "a link to what is not there": f"{r}/to_nothing",
            "far below a link": f"{r}/to_link/a/b/c",
            "its parent": f"{r}/data",
            "the top": r,
            "the root": "/",
            "its log": f"{s}/commitlog",
            "inside its log": f"{s}/commitlog/new/er",
            "its config": f"{s}/config",
            "a new folder in it": f"{s}/rebuilt",
            "its queues": f"{s}/consumequeue",
            "a segment": f"{s}/commitlog/{0:020d}",
            "another folder of the log": f"{r}/disk2/log",
            "what holds another folder of the log": f"{r}/disk3",
            "a link to another folder of the log": f"{r}/to_log/x",
            "inside the last folder of the log": f"{r}/disk3/deep/log/set",
            "where its index is linked to": f"{r}/other/index",
            "what holds that": f"{r}/other",
            "where a setting has its index": f"{r}/disk4/index/x",
            "what will hold that": f"{r}/disk4",
        }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "world")
    monkeypatch.chdir(made.store)
    monkeypatch.setattr(tempfile, "tempdir", str(made.root / "work"))
    return made


def refused(world: World, work: Callable[[str], object]) -> None:
    """Each output is refused, and all is as it was; each is tried, so that one run names all."""
    before = everything(world.root)
    wrong = {}
    for name, output in world.outputs().items():
        try:
            work(output)
            wrong[name] = "was done"
        except StoreError as error:
            if "--replace" in str(error):
                wrong[name] = f"recommends: {error}"
        after = everything(world.root)
        if after != before:
            wrong[name] = f"changed {sorted(set(before.items()) ^ set(after.items()))[:3]}"
            before = after
    assert wrong == {}
    assert len(world.outputs()) > 20


def in_process(job: Callable[..., Any], *words: str, **more: Any) -> Any:
    with mock.patch.object(pyspark.sql, "functions", functions):
        return job(Session(), *words, rocketmq="5.3.3", **more)


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_rebuild(world: World, replace: bool) -> None:
    refused(world, lambda output: run(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings, replace=replace,
    ))  # fmt: skip


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_repair(world: World, replace: bool) -> None:
    refused(world, lambda output: in_process(
        repair, str(world.store), output, settings=world.settings, replace_output=replace,
    ))  # fmt: skip


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_export(world: World, replace: bool) -> None:
    refused(world, lambda output: in_process(
        export, str(world.store), output, settings=world.settings, replace=replace,
    ))  # fmt: skip


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_catch_up(world: World, replace: bool) -> None:
    refused(world, lambda output: catch_up(
        str(world.store), rocketmq="5.3.3", settings=world.settings, output=output, replace=replace,
    ))  # fmt: skip


def test_replicate(world: World) -> None:
    refused(world, lambda output: replicate(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings,
    ))  # fmt: skip


def test_an_archive_of_what_expires(world: World) -> None:
    def work(output: str) -> None:
        with pytest.raises(OverlapsInput):
            expire(str(world.store), rocketmq="5.3.3", settings=world.settings, archive=output)
        raise StoreError("refused")

    refused(world, work)


HOLDS = (
    "its parent", "the top", "the root", "relative, above", "what holds another folder of the log",
    "what holds that", "what will hold that",
)  # fmt: skip


@pytest.mark.parametrize("job", [verify, check], ids=["verify", "check"])
def test_staging(world: World, job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder may hold a store, as /tmp does; it may not be in one."""
    outputs = {n: o for n, o in world.outputs().items() if n not in HOLDS}
    monkeypatch.setattr(
        world, "outputs", lambda: {**outputs, **{str(n): o for n, o in enumerate(outputs.values())}}
    )
    refused(world, lambda output: in_process(
        job, str(world.store), staging_folder=output, settings=world.settings,
    ))  # fmt: skip


def test_the_temporary_folder_is_no_part_of_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(world.store / "run"))
    before = everything(world.root)
    for job in (verify, check):
        with pytest.raises(OverlapsInput, match="lies inside"):
            in_process(job, str(world.store), settings=world.settings)
    with pytest.raises(StoreError):
        in_process(recover, str(world.store), settings=SETTINGS, dry_run=True)
    assert everything(world.root) == before


def test_against_is_an_input_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    against = world.root / "against"
    against.mkdir()
    with pytest.raises(OverlapsInput, match="against"):
        in_process(
            verify, str(world.store), against=str(against), staging_folder=str(against / "x"),
            settings=world.settings,
        )  # fmt: skip
    assert list(against.iterdir()) == []


def test_a_picture(world: World) -> None:
    storage = LocalStorage()
    inputs = tuple(inputs_of(storage, str(world.store), world.settings))
    refused(world, lambda path: NewFile(path, inputs).check())
    refused(world, lambda path: NewFile(path, inputs).write(b"svg"))
    picture = NewFile(str(world.root / "work" / "log.svg"), inputs)
    picture.check()
    (world.root / "work" / "log.svg").write_text("mine")  # meanwhile
    with pytest.raises(StoreError, match="is there already, and stays"):
        picture.write(b"svg")
    assert (world.root / "work" / "log.svg").read_text() == "mine"
    with pytest.raises(StoreError, match="no such folder"):
        NewFile(str(world.root / "none" / "log.svg"), inputs).check()


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_a_report(world: World, replace: bool) -> None:
    refused(world, lambda path: report(
        str(world.store), path, settings=world.settings, replace=replace,
    ))  # fmt: skip
    page = world.root / "work" / "report.html"
    report(str(world.store), str(page), settings=world.settings, replace=replace)
    assert page.is_file()


@pytest.mark.parametrize("option", ["--picture", "--ranges"])
@pytest.mark.parametrize("where", ["store/log.svg", "store/commitlog/log.svg", "store/thesis.doc"])
def test_the_command_refuses_a_file_beside_before_it_begins(
    world: World, where: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(world.root)
    path = str(world.root / "data" / where)
    assert main(["check", str(world.store), "--rocketmq", "5.3.3", option, path]) == 2
    assert f"{option} {path}: " in capsys.readouterr().err
    assert everything(world.root) == before


@pytest.mark.long
@pytest.mark.parametrize("command", ["rebuild", "repair"])
def test_real_processes(world: World, command: str) -> None:
    """The commands as users type them, with a session of their own."""
    words = [w for n, v in world.settings.items() for w in ("--set", f"{n}={v}")]
    before = everything(world.root)
    for name in ("the store", "its parent", "a link", "its log", "another folder of the log"):
        done = subprocess.run(
            [sys.executable, "-m", "reput", command, str(world.store), "--output",
             world.outputs()[name], "--replace", "--rocketmq", "5.3.3", *words],
            capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert "which is read: nothing is written there" in done.stderr
        assert everything(world.root) == before


# --- what may be replaced --------------------------------------------------------------------


def rebuild(world: World, output: Path, **more: Any) -> Any:
    return run(str(world.store), str(output), rocketmq="5.3.3", settings=world.settings, **more)


def fixed(world: World, output: Path, **more: Any) -> Any:
    return in_process(repair, str(world.store), str(output), settings=world.settings, **more)


def put(path: Path, content: str = "years of work") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


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
    with pytest.raises(StoreError, match="is no manifest of a set that reput has rebuilt"):
        rebuild(world, stores, replace=True)
    with pytest.raises(StoreError, match="is no manifest of a store that reput has repaired"):
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
def test_what_came_while_the_job_ran_stays(
    owner: type, step: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_what_came_at_the_last_moment_gets_its_place_back(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
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


# --- install, clean, append, recover ----------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in the usual place, and the set of it beside it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = tmp_path / "store"
    with open_writer(root, **SETTINGS) as writer:
        for number in range(20):
            writer.append(Message("T", bytes(60), 0, keys=f"k{number}"))
    run(str(root), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    return root


def test_install_from_within_the_store(written: Path) -> None:
    top = written.parent
    places = {
        "the store": written, "inside": written / "set", "deep inside": written / "config" / "set",
        "its parent": top, "a link": top / "link", "below a link": top / "link" / "set",
        "the kept set": top / "store.reput-old", "inside it": top / "store.reput-old" / "s",
        "the root": Path("/"), "dots": top / "x" / ".." / "store", "here": Path("."),
        "above": Path(".."), "by the process": Path("/proc/self/cwd"),
        "inside, by the process": Path("/proc/self/cwd/set"),
    }  # fmt: skip
    for place in [
        *map(str, places.values()), f"file://{written}", f"file:{written}/set", f"{written}//",
        f"FILE://{written}", f"file://localhost{top}", f"{top}/./store/", f"{top}/link/..",
    ]:  # fmt: skip
        before = everything(top)
        with pytest.raises(StoreError):
            install_set(str(written), place)
        assert everything(top) == before, place


def test_install_by_url(written: Path) -> None:
    about = install_set(f"file://{written}", f"file://{written.parent}/set")
    assert (about.done, about.store, about.set) == (True, str(written), f"{written.parent}/set")
    assert undo_install(f"file:{written}").done
    for place in ("s3://bucket/store", "webhdfs://host:9870/store", "/Volumes/a/b"):
        with pytest.raises(StoreError, match="local"):
            install_set(place, str(written.parent / "set"))
        with pytest.raises(StoreError, match="local"):
            install_set(str(written), place)


@pytest.mark.parametrize("name", ["consumequeue", "index", "commitlog", "config", "consumequeue/T",
                                  "consumequeue/T/0", "checkpoint", "lock"])  # fmt: skip
def test_install_refuses_a_link_in_the_store_before_it_changes_anything(
    written: Path, name: str
) -> None:
    (written / "config").mkdir()
    elsewhere = written.parent / "elsewhere"
    (written / name).rename(elsewhere)
    (written / name).symlink_to(elsewhere)
    before = everything(written.parent)
    for dry_run in (True, False):
        with pytest.raises((StoreError, OSError)):
            install_set(str(written), str(written.parent / "set"), dry_run)
        assert everything(written.parent) == before
    clean(str(written))
    (written / name).unlink()
    elsewhere.rename(written / name)
    assert install_set(str(written), str(written.parent / "set")).done
    assert undo_install(str(written)).done


@pytest.mark.parametrize("name", ["consumequeue", "index", "consumequeue/T", "consumequeue/T/0"])
def test_install_follows_no_link_in_a_set(written: Path, name: str) -> None:
    rebuilt, elsewhere = written.parent / "set", written.parent / "elsewhere"
    (rebuilt / name).rename(elsewhere)
    (rebuilt / name).symlink_to(elsewhere)
    before = everything(written.parent)
    with pytest.raises(StoreError, match="a link is on the way"):
        install_set(str(written), str(rebuilt))
    assert everything(written.parent) == before


def test_install_keeps_what_has_the_kept_set_s_name(written: Path) -> None:
    kept = written.parent / "store.reput-old"
    for make in (
        lambda: put(kept / "thesis.doc"),
        lambda: put(kept / "consumequeue" / "mine"),
        lambda: put(kept),
        lambda: kept.symlink_to(written.parent / "set"),
        lambda: shutil.copytree(written, kept),
    ):
        make()
        before = everything(written.parent)
        with pytest.raises(StoreError, match="reput-old"):
            install_set(str(written), str(written.parent / "set"))
        assert everything(written.parent) == before
        kept.unlink() if kept.is_symlink() or kept.is_file() else shutil.rmtree(kept)
    assert install_set(str(written), str(written.parent / "set")).done


def plant(store: Path) -> Path:
    """An installation that looks as if it had been killed after the exchange."""
    staging = store.parent / f".store.reput-install-{'a' * 32}"
    put(staging / "root" / "consumequeue" / "planted")
    note = {"root": (staging / "root").stat().st_ino, "log_end": 0}
    put(staging / "reput-install.json", json.dumps(note))
    staging.chmod(0o700)
    (staging / "reput-install.json").chmod(0o600)
    return staging


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: wants root")


def queues(kept: Path) -> dict[str, tuple[Any, ...]]:
    return {name: about for name, about in everything(kept).items() if name[-5:] != ".json"}


def give(path: Path) -> None:
    os.chown(path, 12345, 12345)


PLANTED: dict[str, Callable[[Path], object]] = {
    "another's folder": lambda s: give(s),
    "a folder open to all": lambda s: s.chmod(0o777),
    "a folder open to a group": lambda s: s.chmod(0o770),
    "a link to a folder": lambda s: (s.rename(s.parent / "there"), s.symlink_to("there")),
    "a file": lambda s: (shutil.rmtree(s), s.write_text("x"), give(s)),
}


@as_root
@pytest.mark.parametrize("how", PLANTED)
def test_clean_and_install_do_not_touch_what_is_not_ours(written: Path, how: str) -> None:
    install_set(str(written), str(written.parent / "set"))
    kept = queues(written.parent / "store.reput-old")
    staging = plant(written)
    PLANTED[how](staging)
    before = everything(written.parent)
    about = clean(str(written))
    assert about.foreign == [str(staging)]
    assert everything(written.parent) == before
    assert undo_install(str(written)).done
    assert os.path.lexists(staging)
    install_set(str(written), str(written.parent / "set"))
    assert queues(written.parent / "store.reput-old") == kept


@as_root
@pytest.mark.parametrize("how", ["another's", "open to all", "a link"])
def test_a_planted_note_is_not_believed(written: Path, how: str) -> None:
    install_set(str(written), str(written.parent / "set"))
    note = written.parent / "store.reput-old" / "reput-install.json"
    if how == "another's":
        give(note)
    elif how == "open to all":
        note.chmod(0o666)
    else:
        note.rename(written.parent / "note")
        note.symlink_to(written.parent / "note")
    before = everything(written.parent)
    for work in (
        lambda: undo_install(str(written)),
        lambda: install_set(str(written), str(written.parent / "set")),
    ):
        with pytest.raises(StoreError):
            work()
        assert everything(written.parent) == before


@as_root
def test_what_an_install_of_root_leaves_is_roots(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's own user must not be able to make up what root's next command believes."""
    for path in (written, *written.rglob("*")):
        give(path)
    install_set(str(written), str(written.parent / "set"))
    assert written.stat().st_uid == 12345
    note = (written.parent / "store.reput-old" / "reput-install.json").stat()
    assert (note.st_uid, stat.S_IMODE(note.st_mode)) == (0, 0o600)
    assert undo_install(str(written)).done


def test_a_killed_verify_is_cleaned_up_after(written: Path) -> None:
    top = written.parent
    for name in ("reput-verify", "reput-check", "reput-recover"):
        (top / f"{name}-{'0' * 32}").mkdir(mode=0o700)
        put(top / f"{name}-{'0' * 32}" / "big")
    in_process(verify, str(written), settings=SETTINGS)
    assert [p.name[:12] for p in top.glob("reput-*")] == ["reput-check-", "reput-recove"]
    in_process(recover, str(written), settings=SETTINGS, dry_run=True)
    in_process(check, str(written), settings=SETTINGS)
    assert list(top.glob("reput-*")) == []
    (top / f"reput-verify-{'1' * 32}").mkdir(mode=0o700)
    with staging_folder(LocalStorage(), str(top), "reput-verify") as held:
        about = clean(str(written))
        assert about.leftovers == [f"{top}/reput-verify-{'1' * 32}"]
        assert about.in_use == []  # another job of another output
        assert os.path.isdir(held.folder)


@as_root
def test_another_user_s_leftovers_stay(written: Path) -> None:
    theirs = written.parent / f"reput-verify-{'0' * 32}"
    theirs.mkdir(mode=0o700)
    give(theirs)
    ours = written.parent / f"reput-verify-{'1' * 32}"
    ours.mkdir(mode=0o777)
    ours.chmod(0o777)
    in_process(verify, str(written), settings=SETTINGS)
    about = clean(str(written))
    assert (about.leftovers, about.foreign) == ([], [])
    assert theirs.is_dir()
    assert ours.is_dir()


def test_append_from_what_it_would_write_to(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = written.parent
    source = written / "messages.jsonl"
    source.write_text('{"topic": "T", "body": "x"}\n')
    os.link(source, top / "messages.jsonl")
    sizes = [w for n, v in SETTINGS.items() for w in ("--set", f"{n}={v}")]
    before = everything(top)
    stores = [
        written, f"{written}/", top / "link", top / "link" / "new", written / "new",
        f"{top}/x/../store", f"file://{written}", "/proc/self/cwd", ".", "./new", top,
        f"file:{top}", "/", f"{top}//store", written / "commitlog", f"{top}/./store/config", "..",
        f"file://localhost{written}", f"FILE:{written}", f"{top}/link/",
    ]  # fmt: skip
    for store in stores:
        assert (
            main(
                ["append", str(store), "--from-store", str(written), "--rocketmq", "5.3.3", *sizes]
            )
            == 2
        ), store
        assert "which is read" in capsys.readouterr().err
        assert everything(top) == before, store
    for store in (written, top / "link", ".", top):
        assert (
            main(["append", str(store), "--from", str(source), "--rocketmq", "5.3.3", *sizes]) == 2
        )
        assert everything(top) == before, store


def test_append_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.jsonl").write_text('{"topic": "T", "body": "x"}\n')
    monkeypatch.chdir(tmp_path)
    sizes = [w for n, v in SETTINGS.items() for w in ("--set", f"{n}={v}")]
    url = f"file://{tmp_path}/store"
    assert main(["append", url, "--from", "m.jsonl", "--rocketmq", "5.3.3", *sizes]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.jsonl", "store"]


def test_recover_keeps_nothing_by_a_link(written: Path) -> None:
    elsewhere = written.parent / "elsewhere"
    elsewhere.mkdir()
    (written / "reput-cut").symlink_to(elsewhere)
    (written / "abort").write_text("1")
    before = everything(written.parent)
    for dry_run in (True, False):
        with pytest.raises(StoreError, match="reput-cut: is a link"):
            in_process(recover, str(written), settings=SETTINGS, dry_run=dry_run)
    assert everything(written.parent) == before


def told() -> list[str]:
    return ["--rocketmq", "5.3.3", *(w for n, v in SETTINGS.items() for w in ("--set", f"{n}={v}"))]


def test_what_has_a_second_name_is_not_written_to(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cp -al store copy`, then messages for the copy: they stood in the store as well."""
    copy = written.parent / "copy"
    shutil.copytree(written, copy, copy_function=os.link)
    (copy / "abort").write_text("1")
    before = everything(written.parent)
    assert main(["append", str(copy), "--from-store", str(written), *told()]) == 2
    assert "has a second name elsewhere" in capsys.readouterr().err
    for dry_run in (True, False):
        with pytest.raises(StoreError, match="has a second name elsewhere"):
            in_process(recover, str(copy), settings=SETTINGS, dry_run=dry_run)
    assert everything(written.parent) == before


@pytest.mark.parametrize("name", ["lock", "checkpoint", "abort", "index/notes.txt"])
def test_append_writes_over_no_file_of_a_folder_that_is_no_store(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "mine" / name)
    put(tmp_path / "m.jsonl", '{"topic": "T", "body": "x"}\n')
    before = everything(tmp_path)
    words = ["append", str(tmp_path / "mine"), "--from", str(tmp_path / "m.jsonl"), *told()]
    assert main(words) == 2
    assert "is taken for no store" in capsys.readouterr().err
    assert everything(tmp_path) == before


# --- names of places ---------------------------------------------------------------------------


MOUNTS = r"""21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 8:1 /data/store /mnt/bound\040here rw - ext4 /dev/sda1 rw
31 21 8:2 / /disk2 rw - ext4 /dev/sdb1 rw
32 31 8:1 /data /disk2 rw - ext4 /dev/sda1 rw
"""


@pytest.mark.parametrize(("path", "place"), [
    ("/", ("8:1", "/")), ("/data/store", ("8:1", "/data/store")),
    ("/mnt/bound here", ("8:1", "/data/store/")), ("/mnt/bound here/x", ("8:1", "/data/store/x")),
    ("/mnt/bound herex", ("8:1", "/mnt/bound herex")), ("/disk2/store", ("8:1", "/data/store")),
])  # fmt: skip
def test_where_a_path_is_on_its_file_system(path: str, place: tuple[str, str]) -> None:
    assert where_mounted(path, MOUNTS) == place


_BOUND = """
import os, subprocess, sys
from reput.store_format.storage.local import LocalStorage
from reput.store_format.storage.overlap import relation
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


@as_root
def test_bind_mounts(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", _BOUND, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mounts of its own here: {done.stderr.splitlines()[-1]}")
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == {
        "mnt": "is", "mnt/x": "lies inside", "sub": "lies inside", "sub/x/y": "lies inside",
        "up/er/store": "is", "up/er": "holds", "up/er/mnt": "None", "up/er/other": "None",
    }, done.stderr  # fmt: skip


@pytest.mark.parametrize("mounts", ["/proc/self/mountinfo", "/nowhere"])  # no Linux, or no /proc
def test_folders_above_and_below(
    mounts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
