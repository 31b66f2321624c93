"""A job finds its store without reading the log, and works in a staging folder that goes again."""

import dataclasses
from pathlib import Path

import pytest

from reput.jobs.outputs.output import REBUILT, OverlapsInput
from reput.jobs.pipeline.job import FoundStore, find_store
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import store_at
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from tests.damaged import damaged
from tests.in_process import Session, storage_of
from tests.jobs.found import found
from tests.memory_storage import MemoryStorage, WatchedStorage


def a_store(storage: MemoryStorage | None = None) -> tuple[FoundStore, MemoryStorage]:
    log = damaged().log
    storage = storage or storage_of(log)
    return found(log, storage), storage


def test_a_store_is_found_without_reading_the_whole_log(tmp_path: Path) -> None:
    log = damaged().log
    watched = WatchedStorage(storage_of(log).files)
    segments = [path for path in watched.files if "commitlog" in path]
    store, _ = a_store(watched)
    assert watched.open_now == 0
    assert [each.path for each in store.plan.segments] == segments
    assert store.seconds() >= 0
    (tmp_path / f"{0:020d}").write_bytes(bytes(100))
    at = store_at(f"compacted:{tmp_path}", "5.3.3")
    with pytest.raises(StoreError, match="is one queue's log, from which no store's files"):
        find_store(Session(), at, LOOK)


def test_further_inputs_are_safe_from_temporary_files_too(tmp_path: Path) -> None:
    store, storage = a_store()
    with store.temporarily("reput-x", "tmp", storage) as job:
        assert job.staging.folder.startswith("tmp/reput-x-")
        assert job.plan is store.plan
    assert not storage.has_folder("tmp")
    local = store.output(f"{tmp_path}/out", REBUILT, False, None)
    assert isinstance(local.storage, LocalStorage)
    also = [dataclasses.replace(store.inputs[0], path="tmp")]
    with pytest.raises(OverlapsInput), store.temporarily("reput-x", "tmp", storage, also):
        pytest.fail("tmp")
