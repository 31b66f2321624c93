"""reput clean: what killed runs left goes, with leave; what is in use stays."""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from reput.broker.change.install import Apart
from reput.jobs.clean import clean
from reput.jobs.cli import main
from reput.jobs.in_place.install import Conversion, converted_config
from reput.jobs.install import install_set, undo_install
from reput.jobs.outputs.publish import staging_folder
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.system import claim_folder
from reput.store_format.names import STAGED_INDEX
from tests.faults.killing import killed_at
from tests.jobs.installing import derived, others, rebuilt, store
from tests.jobs.opening.writing import SETTINGS, Writing
from tests.memory_storage import MemoryStorage
from tests.trees import contents

__all__ = ["rebuilt", "store"]  # fixtures

DEAD = "0" * 32
GONE = "2" * 32 + ".gone"


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of these tests' own: others may have leftovers in the usual one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def no_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other runs of this user left in /tmp is not part of these tests."""
    monkeypatch.setattr("reput.jobs.clean.abandoned_session_folders", list)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """An output with what killed runs for it left, and what is none of their business."""
    output = tmp_path / "new" / "output"
    (output / "consumequeue").mkdir(parents=True)
    for name in (
        f"new/.output.reput-{DEAD}", f"new/.output.reput-{GONE}", f".new.reput-{DEAD}",
        f"new/.other.reput-{DEAD}", "new/.output.reput-short", f"new/output/.reput-recover-{DEAD}",
        f"new/output/reput-check-{DEAD}"):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"x")
    return output


def test_what_is_left_is_reported_and_goes_when_asked(left: Path, capsys) -> None:
    before = contents(left.parents[1])
    assert main(["clean", str(left), "--dry-run", "--json"]) == 1
    reported = json.loads(capsys.readouterr().out)
    assert reported["needed"]
    assert not reported["done"]
    assert sorted(reported["leftovers"]) == sorted([
        f"{left.parents[1]}/.new.reput-{DEAD}", f"{left.parent}/.output.reput-{DEAD}",
        f"{left.parent}/.output.reput-{GONE}", f"{left}/.reput-recover-{DEAD}",
        f"{left}/reput-check-{DEAD}"])  # fmt: skip
    assert main(["clean", str(left)]) == 2  # there is no terminal to ask at
    assert "--yes does it" in capsys.readouterr().err
    assert contents(left.parents[1]) == before
    assert main(["clean", str(left), "--yes"]) == 0
    assert capsys.readouterr().out.count("removed ") == 5
    assert names(left.parent) == [f".other.reput-{DEAD}", ".output.reput-short", "output"]
    assert names(left) == ["consumequeue"]
    assert main(["clean", str(left), "--dry-run"]) == 0
    assert capsys.readouterr().out == f"nothing was left at {left}\n"


@pytest.mark.parametrize("prefix", [
    "reput-catch-up", "reput-check", "reput-compare", "reput-config", "reput-convert-",
    "reput-demo", "reput-export-", "reput-export-store-", "reput-recover", "reput-rocksdb",
    "reput-serve", "reput-table", "reput-verify"])  # fmt: skip
def test_a_command_s_folder_of_temporary_files_goes(tmp_path: Path, prefix: str) -> None:
    base = Path(tempfile.gettempdir())
    for name in (f"{prefix}-{DEAD}", f"other-{prefix}-{DEAD}"):
        (base / name).mkdir()
    with staging_folder(Place(LocalStorage(), str(base)), prefix) as held:
        assert clean(str(tmp_path)).leftovers == [f"{base}/{prefix}-{DEAD}"]
        assert names(base) == sorted([f"other-{prefix}-{DEAD}", Path(held.folder).name])


def test_an_installation_holds_its_folder_of_temporary_files(store, rebuilt, monkeypatch) -> None:
    """A killed one's is a leftover then (the attack with seed 17)."""
    seen = list[str]()

    def noted(path: str, about: Conversion, folder: str) -> Apart:
        [name] = names(Path(tempfile.gettempdir()))
        assert folder.endswith(f"/{name}")
        assert re.fullmatch("reput-config-[0-9a-f]{32}", name)
        assert clean(str(store), dry_run=True).leftovers == []
        seen.append(name)
        return converted_config(path, about, folder)

    monkeypatch.setattr("reput.jobs.install.converted_config", noted)
    assert install_set(str(store), str(rebuilt)).done
    assert len(seen) == 1
    assert names(Path(tempfile.gettempdir())) == []


def test_what_a_job_holds_stays(left: Path) -> None:
    held = str(left.parent / f".output.reput-{'1' * 32}")
    release = claim_folder(held)
    assert release is not None
    with staging_folder(Place(LocalStorage(), str(left)), "reput-verify") as staging:
        about = clean(str(left))
        assert about.done
        assert sorted(about.in_use) == sorted([held, staging.folder])
        assert os.path.isdir(staging.folder)
    assert os.path.isdir(held)
    release()
    assert clean(str(left)).leftovers == [held]
    assert not os.path.isdir(held)


def test_where_nobody_can_tell_it_stays_unless_no_job_runs() -> None:
    class Untold(MemoryStorage):
        def is_abandoned(self, folder: str) -> bool | None:
            return None

    folder = f"/sets/.output.reput-{DEAD}"
    storage = Untold({f"{folder}/file": b"x", "/sets/output/file": b"y"})
    about = clean("/sets/output", storage=storage)
    assert (about.unknown, about.needed) == ([folder], False)
    assert f"{folder}/file" in storage.files
    about = clean("/sets/output", storage=storage, idle=True)
    assert (about.leftovers, about.done, about.failed) == ([folder], True, [])
    assert storage.files == {"/sets/output/file": b"y"}
    assert not clean("/proc", dry_run=True).needed


def test_what_cannot_be_removed_is_said_and_a_path_that_is_nowhere(
    left: Path, monkeypatch, capsys, tmp_path
) -> None:
    monkeypatch.setattr(LocalStorage, "remove_tree", lambda self, folder: None)
    assert main(["clean", str(left), "--yes"]) == 3
    assert capsys.readouterr().out.count("could not remove ") == 5
    assert main(["clean", str(tmp_path / "nope")]) == 2
    assert "nope: no such folder, and no run has left anything beside it" in capsys.readouterr().err


def test_a_killed_installation_is_brought_to_its_end(store: Path, rebuilt: Path) -> None:
    old, new = derived(store), derived(rebuilt)
    total, _ = killed_at(1 << 30, lambda: install_set(str(store), str(rebuilt)))
    assert (derived(store), derived(store.parent / "store.reput-old")) == (new, old)
    _, code = killed_at(total // 2, lambda: undo_install(str(store)))
    assert code == -9
    about = clean(str(store), dry_run=True)
    assert len(about.installs) == 1
    assert about.needed
    broker = Writing(store)
    broker.append(0)
    held = clean(str(store))
    assert not held.installs
    assert "holds its lock" in held.in_use[0]
    broker.stop()
    before = derived(store)
    assert clean(str(store)).installs == about.installs
    assert derived(store) == before
    assert names(store.parent) == ["set", "store", "store.reput-old"]
    assert not clean(str(store)).needed


@pytest.fixture
def staged_index(store: Path) -> Path:
    """What a writer leaves that is killed before its index files are in their place."""
    folder = store / STAGED_INDEX
    folder.mkdir()
    (folder / "20260101000000000").write_bytes(bytes(100))
    return folder


def test_what_a_killed_writer_left_of_its_index_goes(store: Path, staged_index: Path) -> None:
    before = derived(store), others(store)
    writer = Writing(store)  # the next writer removes it itself
    writer.append(1)
    writer.stop()
    assert not staged_index.exists()
    before = derived(store), others(store)
    staged_index.mkdir()
    (staged_index / "20260101000000000").write_bytes(bytes(100))
    assert main(["clean", str(store), "--dry-run"]) == 1
    assert staged_index.exists()
    about = clean(str(store))
    assert (about.staged_index, about.failed, about.done) == ([str(staged_index)], [], True)
    assert (derived(store), others(store)) == before
    assert not clean(str(store)).needed


def test_the_index_that_a_writer_prepares_stays(store: Path) -> None:
    writer = Writing(store)
    writer.append(1)
    (store / STAGED_INDEX).mkdir(exist_ok=True)
    about = clean(str(store))
    assert (about.staged_index, about.needed) == ([], False)
    assert "has the store open" in about.in_use[0]
    assert (store / STAGED_INDEX).is_dir()
    writer.stop()


@pytest.mark.parametrize("there", ["a link", "a file", "in no store"])
def test_what_only_has_the_name_of_it_stays(tmp_path: Path, store: Path, there: str) -> None:
    folder = (tmp_path if there == "in no store" else store) / STAGED_INDEX
    if there == "a link":
        folder.symlink_to(store / "config")
    elif there == "a file":
        folder.write_text("mine")
    else:
        folder.mkdir()
    about = clean(str(folder.parent))
    assert about.staged_index == []
    assert os.path.lexists(folder)
    assert (store / "config" / "consumerOffset.json").exists()


def test_no_command_minds_it(
    store: Path, rebuilt: Path, staged_index: Path, commands_in_process: None,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    """check, verify, recover, repair and install say the same with it as without."""
    reported = ["--rocketmq", "5.3.3"]
    for name, value in SETTINGS.items():
        reported += ["--set", f"{name}={value}"]
    commands = (["check", str(store), *reported], ["verify", str(store), *reported],
                ["recover", str(store), "--dry-run", *reported],
                ["repair", str(store), "--output", f"{store}-repaired", *reported],
                ["install", str(rebuilt), str(store), "--dry-run"],
                ["install", str(rebuilt), str(store), "--yes"],
                ["check", str(store), *reported], ["verify", str(store), *reported])  # fmt: skip

    def says() -> list[tuple[int, str, str]]:
        found = []
        for words in commands:
            code = main(words)
            said = capsys.readouterr()
            found.append((code, re.sub(r"\d+\.\d+ s", "", said.out), said.err))
        shutil.rmtree(f"{store}-repaired")
        undo_install(str(store))
        shutil.rmtree(f"{store}.reput-old")
        return found

    before = contents(store)
    with_it = says()
    assert not (Path(f"{store}-repaired") / STAGED_INDEX).exists()
    assert contents(store) == before
    shutil.rmtree(staged_index)
    assert says() == with_it
    assert not [text for _, out, err in with_it for text in (out, err) if STAGED_INDEX in text]
