"""A store that is not there: what the error names instead."""

from pathlib import Path

import pytest

from reput.jobs.console.store_there import check_folder, check_store
from reput.store_format.faults import StoreError


def store(path: Path, log: str = "commitlog") -> Path:
    (path / log).mkdir(parents=True)
    return path


def test_a_store_has_a_log_and_three_of_those_below_are_named_at_most(tmp_path: Path) -> None:
    for log in ("commitlog", "dledger-n0"):
        check_store(str(store(tmp_path / f"of_{log}", log)), {})
    check_store(str(tmp_path / "none"), {"storePathCommitLog": "/data/log"})  # the job looks
    (tmp_path / "a/b/c/d").mkdir(parents=True)
    (tmp_path / "a/b/c/d/commitlog").write_bytes(b"")
    with pytest.raises(StoreError, match="commitlog: no such folder; STORE is what holds"):
        check_store(str(tmp_path / "a/b/c/d"), {})
    for name in "abcd":
        store(tmp_path / "many" / name / "store")
    with pytest.raises(StoreError) as error:
        check_store(str(tmp_path / "many"), {})
    assert str(error.value).count("/store") == 3


def test_a_folder_of_an_option_must_be_one(tmp_path: Path) -> None:
    check_folder("--against", str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    for name in ("file", "none"):
        with pytest.raises(StoreError, match=f"--against {tmp_path}/{name}: no such folder"):
            check_folder("--against", str(tmp_path / name))


@pytest.mark.parametrize(("asked", "near"), [
    ("store/commitlog", ["store"]), ("store/consumequeue/T/0", ["store"]), ("stroe", ["store"]),
    (".", ["store"]), ("none/of/these", []),
])  # fmt: skip
def test_stores_nearby_are_named(asked: str, near: list[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    store(home / "store")
    with pytest.raises(StoreError) as error:
        check_store(f"{home}/{asked}".removesuffix("/."), {})
    hint = str(error.value).partition("; ")[2]
    named = " or ".join(f"{home}/{each}" for each in near)
    assert hint == (f"did you mean {named}?" if near else "STORE is what holds commitlog/")
