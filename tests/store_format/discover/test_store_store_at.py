"""A store as it is named: its path made whole, its file system chosen by the URL."""

from pathlib import Path

import pytest

from reput.store_format.discover.store import StoreAt, store_at
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from tests.memory_storage import MemoryStorage


@pytest.mark.parametrize("named", ["store", "./store", "other/../store", "store/"])
def test_a_path_is_made_absolute(named: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = store_at(named)
    assert isinstance(found.storage, LocalStorage)
    assert found.path == f"{tmp_path}/store"


def test_a_link_in_a_path_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert store_at(f"{tmp_path}/link").path == f"{tmp_path}/link"


def test_a_store_need_not_be_there(tmp_path: Path) -> None:
    assert store_at(f"file:{tmp_path}/no").path == f"{tmp_path}/no"


def test_a_file_system_of_ours_is_taken_as_it_is() -> None:
    storage = MemoryStorage()
    assert store_at("s3://bucket/store", storage=storage) == StoreAt(storage, "s3://bucket/store")


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(StoreError, match="ftp://: no such file system"):
        store_at("ftp://host/store")


def test_what_a_user_does_not_give_is_left_to_the_stores_files() -> None:
    found = store_at("store")
    assert (found.rocketmq, found.settings) == (None, {})
    given = store_at("store", "4.9.7", {"maxIndexNum": "50"})
    assert (given.rocketmq, given.settings) == ("4.9.7", {"maxIndexNum": "50"})
