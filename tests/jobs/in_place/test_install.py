"""Installing queues of the other kind: config/ follows them, and --undo takes both back."""

import json
import os
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rocksdict

from reput.jobs.in_place import install
from reput.jobs.install import install_set, undo_install
from reput.jobs.rebuild import rebuild
from reput.store_format.discover.config import config_table
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.system import lock_holder
from reput.store_format.notes import Notes
from reput.store_format.state_table import CONFIG_DBS
from tests.faults.killing import killed_at
from tests.in_process import Session
from tests.jobs.deriving.rocksdb_rows import rows
from tests.store_format.rocksdb.stores import unpack
from tests.trees import contents


def config(store: Path) -> dict[str, Any]:
    notes = Notes()
    found = {
        file: config_table(Folder(LocalStorage(), str(store)), file, notes) for file in CONFIG_DBS
    }
    assert notes.lines == []
    return found


def files_of(store: Path) -> dict[str, bytes]:
    return {path: content for path, content in contents(store).items() if path != "lock"}


def installed(store: Path, output: Path, release: str, queues: str) -> Any:
    rebuild(Session(), str(store), str(output), rocketmq=release, queues=queues)
    dry = install_set(str(store), str(output), dry_run=True)
    done = install_set(str(store), str(output))
    assert dry.becomes == done.becomes
    return done


@pytest.mark.parametrize(
    "name", ["alone_5.2.0", pytest.param("alone_5.5.0", marks=pytest.mark.long), "single_5.5.0"]
)
def test_to_files_and_back(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    release = name.partition("_")[2]
    before, wanted, queues = files_of(store), config(store), rows(store / "consumequeue")
    assert wanted["consumerOffset.json"]
    done = installed(store, tmp_path / "files", release, "files")
    assert "config/topics.json is written from the RocksDB" in done.text()
    assert "gives way to files" in done.text()
    assert not (store / "consumequeue" / "CURRENT").exists()
    assert config(store) == wanted
    offsets = json.loads((store / "config" / "consumerOffset.json").read_text())["offsetTable"]
    assert offsets == wanted["consumerOffset.json"]
    in_files = files_of(store)

    done = installed(store, tmp_path / "rocksdb", release, "rocksdb")
    assert "queues in files give way to a RocksDB" in done.text()
    assert rows(store / "consumequeue") == queues
    assert (store / "config" / "topics" / "CURRENT").exists()
    assert config(store) == wanted

    undo_install(str(store))
    assert files_of(store) == in_files
    assert before.keys() != in_files.keys()


def test_light_queues_offsets_follow_to_the_file_of_enable_lmq_and_back(tmp_path: Path) -> None:
    """With enableLmq a broker has all offsets there, but none with RocksDB (5.3.3)."""
    store, _ = unpack("alone_5.3.3", tmp_path)
    folder, options = f"{store}/config/consumerOffsets", rocksdict.Options(raw_mode=True)
    families = rocksdict.Rdict.list_cf(folder, options)
    with rocksdict.Rdict(folder, options, dict.fromkeys(families, options)) as database:
        database[b"%LMQ%a@%LMQ%g"] = b'{"offsetTable":{"0":7}}'
    Path(folder, "rocksdict-config.json").unlink(missing_ok=True)
    wanted = config(store)["consumerOffset.json"]
    installed(store, tmp_path / "files", "5.3.3", "files")
    whole = json.loads((store / "config/lmqConsumerOffset.json").read_text())
    assert whole["lmqOffsetTable"] == {"%LMQ%a@%LMQ%g": 7}
    assert whole["offsetTable"] == {k: v for k, v in wanted.items() if k != "%LMQ%a@%LMQ%g"} != {}
    (store / "config/consumerOffset.json").unlink()
    installed(store, tmp_path / "rocksdb", "5.3.3", "rocksdb")
    assert config(store)["consumerOffset.json"] == wanted


def test_a_set_of_the_same_kind_leaves_config_and_an_undo_brings_back_databases(tmp_path) -> None:
    store, _ = unpack("alone_5.3.3", tmp_path)
    before = files_of(store)
    installed(store, tmp_path / "files", "5.3.3", "files")
    undo_install(str(store))
    assert files_of(store) == before
    undo_install(str(store))  # and again
    assert not (store / "consumequeue" / "CURRENT").exists()
    assert (store / "config" / "topics.json").exists()
    undo_install(str(store))
    config_before = contents(store / "config")
    assert installed(store, tmp_path / "again", "5.3.3", "rocksdb").becomes == []
    assert contents(store / "config") == config_before


def test_killed_at_any_step(tmp_path: Path) -> None:
    """The store has queues and config of one kind or of the other, and never of both."""
    store, _ = unpack("alone_5.3.3", tmp_path)
    built = tmp_path / "set"
    rebuild(Session(), str(store), str(built), rocketmq="5.3.3", queues="files")
    old = files_of(store)
    total, _ = killed_at(1 << 30, lambda: install_set(str(store), str(built)))
    new = files_of(store)
    undo_install(str(store))
    assert files_of(store) == old
    seen = set()
    for step in (3, *range(total - 45, total, 11)):
        _, code = killed_at(step, lambda: install_set(str(store), str(built)))
        assert code == -9
        found = files_of(store)
        assert found in (old, new)
        seen.add(found == new)
        if found == old:
            install_set(str(store), str(built))
        assert files_of(store) == new
        undo_install(str(store))  # which first brings the killed one to its end
        assert files_of(store) == old
    assert seen == {False, True}


# --- The store in which a set is installed: a folder that can be exchanged, which nobody has open.
@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def test_a_set_is_installed_into_a_local_folder_that_can_be_exchanged(store: Path) -> None:
    assert install.local_path(f"file://{store}/") == str(store)
    for url in ("s3://bucket/store", "dbfs:/store", "compacted:/store"):
        with pytest.raises(StoreError, match="from a local folder into a local store"):
            install.local_path(url)
    (store.parent / "link").symlink_to(store)
    (store.parent / "file").touch()
    for path, why in ((store.parent / "link", "is a link"), (store.parent / "file", "not a folder"),
                      (Path("/proc"), "a file system is mounted")):  # fmt: skip
        with pytest.raises(StoreError, match=why):
            install.Target(str(path))
    with pytest.raises(FileNotFoundError):
        install.Target(f"{store}/none")
    target = install.Target(str(store))
    assert (target.path, target.name) == (str(store), "store")


def test_the_lock_is_held_meanwhile_and_a_dry_run_makes_none(store: Path) -> None:
    assert install.finish_killed(str(store)) == []
    assert install.finish_killed(f"{store}/none") == []
    assert install.foreign_installs(str(store)) == []
    target = install.Target(str(store))
    assert install.finish_first(target, dry_run=False) == ([], [])
    with install.locked(target, dry_run=True):
        assert list(store.iterdir()) == []
    with install.locked(target, dry_run=False):
        assert lock_holder(f"{store}/lock") == os.getpid()
    assert lock_holder(f"{store}/lock") is None
    (store / "abort").touch()
    done, (warning,) = install.finish_first(target, dry_run=True)
    assert done == []
    assert warning.startswith(f"{store}/abort is there: the store was not stopped cleanly")


def test_a_store_is_refused_while_one_of_its_databases_is_open(store: Path) -> None:
    for folder in ("consumequeue", "consumequeue_rocksdb", "rocksdbstore", "config/topics"):
        (store / folder).mkdir(parents=True)
        with closing(SimpleNamespace(close=DiskFiles(str(store)).lock(f"{folder}/LOCK"))):
            why = "has the RocksDB open; end it first"
            with (
                pytest.raises(StoreInUse, match=why),
                install.locked(install.Target(str(store)), True),
            ):
                pytest.fail("it is in use")
        with install.locked(install.Target(str(store)), True):
            pass
