"""A cut of power at any step of a change of offsets in RocksDB, and of its undo."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.broker.services.offsets import kept_note, kept_offsets, put_back, replace_offsets
from reput.store_format.discover.config import LiveOffsets, Offsets, live_offsets
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from tests.faults.memory_files import crash_states
from tests.faults.power import put, recorded
from tests.store_format.rocksdb.stores import unpack


def live(store: Path) -> LiveOffsets:
    notes = Notes()
    found = live_offsets(Folder(LocalStorage(), str(store)), notes, {})
    assert not notes.lines
    return found


def judge_each(store: Path, work: Callable[[], None], old: Offsets, new: Offsets) -> None:
    """What a broker reads after each cut is the old or the new; done again, it is the new."""
    done = recorded(store, work)
    found = set()
    for crash in crash_states(done.start, done.ops, 1, 1, every=3):
        put(crash.files, store)
        now = live(store).offsets
        assert now in (old, new), crash.how
        found.add(now == new)
        if now == old:
            work()
        assert live(store).offsets == new
    assert found == {False, True}
    put(done.end, store)


@pytest.mark.long
@pytest.mark.parametrize("name", ["v2_5.4.0", "single_5.5.0"])
def test_offsets_in_rocksdb_are_the_old_or_the_new(name: str, tmp_path: Path) -> None:
    unpacked, _ = unpack(name, tmp_path / "whole")
    store = tmp_path / "store"
    shutil.copytree(unpacked / "config", store / "config")
    files, before = DiskFiles(str(store)), live(store)
    assert before.in_rocksdb
    wanted = {**before.offsets, ("new", "T"): {0: 5}}
    change = lambda: replace_offsets(files, live(store), wanted, "asked")  # noqa: E731
    judge_each(store, change, before.offsets, wanted)
    note = kept_note(files)
    assert note is not None
    assert kept_offsets(files, note.name) == before.offsets
    judge_each(store, lambda: put_back(files, live(store), before.offsets), wanted, before.offsets)
    assert kept_note(files) is None
