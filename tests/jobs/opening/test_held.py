"""Folders in which nothing is changed: what is no store, and files with a second name."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from reput.jobs.opening import held
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import FileState
from reput.store_format.files.system import lock_holder
from reput.store_format.log.segments import Segment
from reput.store_format.release.settings import settings_from
from tests.built import write
from tests.faults.memory_files import crash_states
from tests.faults.power import recorded

SEGMENT = f"commitlog/{0:020d}"
QUEUE, LAST_QUEUE = (f"consumequeue/T/0/{start:020d}" for start in (0, 6_000_000))
INDEX, LAST_INDEX = "index/20240101000000000", "index/20240102000000000"


def put(root: Path, files: dict[str, bytes]) -> str:
    return str(write(root, files))


@pytest.mark.parametrize(("files", "wrong"), [
    ({}, None), ({"lock": b"lock", "abort": b"12345\n", "checkpoint": bytes(4096)}, None),
    ({"lock": b"", "abort": b"", "checkpoint": b""}, None), ({"lock": b"my notes"}, "lock"),
    ({"lock": b"locklock"}, "lock"), ({"abort": b"stop!"}, "abort"),
    ({"abort": b"1" * 21}, "abort"), ({"checkpoint": bytes(4095)}, "checkpoint"),
    ({"lock": b"my notes", "checkpoint": b"?", SEGMENT: b""}, None), ({INDEX: b""}, None),
    ({"index/page.html": b"", SEGMENT: b""}, None),  # a store, in which somebody left it
    ({"index/page.html": b""}, "index/page.html"),
    ({"index/20241301000000000": b""}, "index/20241301000000000"),
    ({"commitlog/page.html": b""}, "commitlog/page.html"),
    ({f"dledger-n0/data/{0:020d}": b""}, "a DLedger group's log"),  # no command changes it
])  # fmt: skip
def test_files_with_a_store_s_names_must_be_a_broker_s(files, wrong, tmp_path: Path) -> None:
    store = put(tmp_path, files)
    why = wrong if " " in str(wrong) else f"^{store}/{wrong}: .*nothing in it is changed"
    with pytest.raises(StoreError, match=why) if wrong else nullcontext():
        held.refuse_what_is_no_store(store)


FILES = dict.fromkeys((SEGMENT, QUEUE, LAST_QUEUE, INDEX, LAST_INDEX, "checkpoint"), b"")


def test_a_file_that_would_be_written_has_no_second_name(tmp_path: Path) -> None:
    store = put(tmp_path / "store", FILES)
    for linked, by_log, by_any in [
        (SEGMENT, True, True), (QUEUE, False, False), (LAST_QUEUE, False, True),
        (INDEX, False, False), (LAST_INDEX, False, True), ("checkpoint", False, True),
    ]:  # fmt: skip
        os.link(f"{store}/{linked}", tmp_path / "backup")
        for refuse, refuses in (
            (held.refuse_shared_segments, by_log),
            (held.refuse_shared_files, by_any),
        ):
            why = f"{linked}: has a second name elsewhere"
            with pytest.raises(StoreError, match=why) if refuses else nullcontext():
                refuse(store)
        (tmp_path / "backup").unlink()
    (tmp_path / "store/.reput-index").mkdir()  # as a killed writer leaves it: its own
    os.link(f"{store}/{LAST_INDEX}", f"{store}/.reput-index/20240102000000000")
    held.refuse_shared_files(store)
    held.refuse_second_name(store)  # a folder has other names
    held.refuse_second_name(str(tmp_path / "none"))


def test_a_log_is_changed_in_its_own_folder_only() -> None:
    state = FileState(1, 0, 0)
    own, other = (Segment(f"{folder}/{0:020d}", 0, state) for folder in ("/s/commitlog", "/d/log"))
    held.refuse_log_elsewhere("/s", [own], "append")
    with pytest.raises(StoreError, match=r"^/d/log/0+: append works on a log in /s/commitlog only"):
        held.refuse_log_elsewhere("/s", [own, other], "append")


# --- A held store: nobody else changes it, and one that is not changed keeps its files and times.
STORE_SEGMENT = 4096
SIZES = settings_from({"mappedFileSizeCommitLog": str(STORE_SEGMENT)})
LAST = f"commitlog/{STORE_SEGMENT:020d}"


def segments(root: Path, *lengths: int) -> str:
    return put(root, {f"commitlog/{number * STORE_SEGMENT:020d}": b"\1" * length
                      for number, length in enumerate(lengths)})  # fmt: skip


def times(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_mtime_ns, about.st_atime_ns


@pytest.mark.parametrize("has_file", [True, False])
def test_a_lock_file_is_held_at_once_and_made_only_before_a_change(has_file, tmp_path) -> None:
    path = tmp_path / "lock"
    if has_file:
        path.write_bytes(b"lock")
    with held.held_store(str(tmp_path), dry_run=False) as mine:
        assert path.exists() == has_file
        assert (lock_holder(str(path)) == os.getpid()) == has_file
        assert [mine.lock_at_last(), mine.lock_at_last()] == [not has_file, False]
        assert lock_holder(str(path)) == os.getpid()
        assert mine.storage.lock_holder(mine.path) is None
    assert lock_holder(str(path)) is None


@pytest.mark.parametrize("changed", [True, False])
def test_staging_leaves_the_times_of_a_store_that_is_not_changed(changed: bool, tmp_path) -> None:
    os.utime(tmp_path, ns=(1_000_000_001, 2_000_000_002))
    before = times(tmp_path)
    with held.held_store(str(tmp_path), dry_run=False) as mine:
        (tmp_path / "staged").touch()
        mine.changed = changed
    assert (times(tmp_path) == before) != changed


def test_a_folder_that_a_user_names_must_be_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "lock").write_bytes(b"somebody's own")
    for name, why in (("none", "no such folder; try that"), ("file", "no such folder; try that"),
                      ("other", "was not written by a broker")):  # fmt: skip
        with (
            pytest.raises(StoreError, match=why),
            held.held_local_store(str(tmp_path / name), False, "; try that"),
        ):
            pytest.fail(name)


@pytest.mark.parametrize(("length", "whole"), [
    (0, 0), (1, STORE_SEGMENT), (STORE_SEGMENT - 1, STORE_SEGMENT),
    (STORE_SEGMENT, STORE_SEGMENT), (STORE_SEGMENT + 1, STORE_SEGMENT + 1),
])  # fmt: skip
def test_only_a_last_segment_that_a_crash_left_short_gets_its_length(
    length: int, whole: int, tmp_path: Path
) -> None:
    asked: list[str] = []
    with held.held_store(segments(tmp_path, 7, length), dry_run=False) as mine:
        done = recorded(tmp_path, lambda: held.complete_last(mine, SIZES, asked.append))
        *_, (_, _, lost), _ = crash_states(done.start, done.ops, 1, 0)
        assert lost.tree()[LAST] == (b"\1" * length).ljust(whole, b"\0")  # it lasts
        assert mine.changed == bool(asked) == (length != whole)
    assert (tmp_path / LAST).read_bytes() == (b"\1" * length).ljust(whole, b"\0")
    assert (tmp_path / f"commitlog/{0:020d}").stat().st_size == 7
