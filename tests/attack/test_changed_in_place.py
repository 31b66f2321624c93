"""What changes a store in its place (install, clean, append, recover) changes nothing beside it."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.check import check
from reput.jobs.clean import clean
from reput.jobs.cli import main
from reput.jobs.install import install_set, undo_install
from reput.jobs.outputs.publish import staging_folder
from reput.jobs.recover import recover
from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from tests.attack.worlds import SETTINGS, everything, in_process, put


def test_install_from_within_the_store(written: Path) -> None:
    top = written.parent
    places = {
        "the store": written, "inside": written / "set", "deep inside": written / "config" / "set",
        "its parent": top, "a link": top / "link", "below a link": top / "link" / "set",
        "the kept set": top / "store.reput-old", "inside it": top / "store.reput-old" / "s",
        "the root": Path("/"), "dots": top / "x" / ".." / "store", "here": Path("."),
        "above": Path(".."), "by the process": Path("/proc/self/cwd"),
        "inside, by the process": Path("/proc/self/cwd/set")}  # fmt: skip
    for place in [*map(str, places.values()), f"file://{written}", f"file:{written}/set",
                  f"{written}//", f"FILE://{written}", f"file://localhost{top}", f"{top}/./store/",
                  f"{top}/link/.."]:  # fmt: skip
        before = everything(top)
        with pytest.raises(StoreError):
            install_set(str(written), place)
        assert everything(top) == before, place


@pytest.mark.parametrize("name", ["consumequeue", "index", "consumequeue/T", "consumequeue/T/0"])
def test_install_follows_no_link_in_a_set(written: Path, name: str) -> None:
    rebuilt, elsewhere = written.parent / "set", written.parent / "elsewhere"
    (rebuilt / name).rename(elsewhere)
    (rebuilt / name).symlink_to(elsewhere)
    before = everything(written.parent)
    with pytest.raises(StoreError, match="a link is on the way"):
        install_set(str(written), str(rebuilt))
    assert everything(written.parent) == before


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


def queues(kept: Path) -> dict[str, tuple[object, ...]]:
    return {name: about for name, about in everything(kept).items() if name[-5:] != ".json"}


def give(path: Path) -> None:
    os.chown(path, 12345, 12345)


PLANTED: dict[str, Callable[[Path], object]] = {
    "another's folder": lambda s: give(s), "a folder open to all": lambda s: s.chmod(0o777),
    "a folder open to a group": lambda s: s.chmod(0o770),
    "a link to a folder": lambda s: (s.rename(s.parent / "there"), s.symlink_to("there")),
    "a file": lambda s: (shutil.rmtree(s), s.write_text("x"), give(s))}  # fmt: skip


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
    for work in (lambda: undo_install(str(written)), lambda: install_set(
        str(written), str(written.parent / "set"))):  # fmt: skip
        with pytest.raises(StoreError):
            work()
        assert everything(written.parent) == before


@as_root
def test_what_an_install_of_root_leaves_is_roots(written: Path, monkeypatch) -> None:
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
    with staging_folder(Place(LocalStorage(), str(top)), "reput-verify") as held:
        about = clean(str(written))
        assert about.leftovers == [f"{top}/reput-verify-{'1' * 32}"]
        assert about.in_use == []  # another job of another output
        assert os.path.isdir(held.folder)


def reported() -> list[str]:
    return ["--rocketmq", "5.3.3", *(w for n, v in SETTINGS.items() for w in ("--set", f"{n}={v}"))]


def test_append_from_what_it_would_write_to(written: Path, capsys) -> None:
    top = written.parent
    source = written / "messages.jsonl"
    source.write_text('{"topic": "T", "body": "x"}\n')
    os.link(source, top / "messages.jsonl")
    before = everything(top)
    stores = [written, f"{written}/", top / "link", top / "link" / "new", written / "new",
              f"{top}/x/../store", f"file://{written}", "/proc/self/cwd", ".", "./new", top,
              f"file:{top}", "/", f"{top}//store", written / "commitlog", f"{top}/./store/config",
              "..", f"file://localhost{written}", f"FILE:{written}", f"{top}/link/"]  # fmt: skip
    for store in stores:
        words = ["append", "--yes", str(store), "--from-store", str(written), *reported()]
        assert main(words) == 2, store
        assert "which is read" in capsys.readouterr().err
        assert everything(top) == before, store
    for store in (written, top / "link", ".", top):
        assert main(["append", "--yes", str(store), "--from", str(source), *reported()]) == 2
        assert everything(top) == before, store


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


def test_what_has_a_second_name_is_not_written_to(written: Path, capsys) -> None:
    """`cp -al store copy`, then messages for the copy: they stood in the store as well."""
    copy = written.parent / "copy"
    shutil.copytree(written, copy, copy_function=os.link)
    (copy / "abort").write_text("1")
    before = everything(written.parent)
    assert main(["append", "--yes", str(copy), "--from-store", str(written), *reported()]) == 2
    assert "has a second name elsewhere" in capsys.readouterr().err
    for dry_run in (True, False):
        with pytest.raises(StoreError, match="has a second name elsewhere"):
            in_process(recover, str(copy), settings=SETTINGS, dry_run=dry_run)
    assert everything(written.parent) == before
