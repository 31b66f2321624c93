"""Folders in which nothing is changed: what is no store, and files with a second name."""

import os
from pathlib import Path

import pytest

from reput.jobs.opening.held import (
    refuse_log_elsewhere,
    refuse_second_name,
    refuse_shared_files,
    refuse_shared_segments,
    refuse_what_is_no_store,
)
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment

SEGMENT = f"commitlog/{0:020d}"
QUEUE, LAST_QUEUE = (f"consumequeue/T/0/{start:020d}" for start in (0, 6_000_000))
INDEX, LAST_INDEX = "index/20240101000000000", "index/20240102000000000"


def put(root: Path, files: dict[str, bytes]) -> str:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return str(root)


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({}, None),
        ({"lock": b"lock", "abort": b"12345\n", "checkpoint": bytes(4096)}, None),
        ({"lock": b"", "abort": b"", "checkpoint": b""}, None),
        ({"lock": b"my notes"}, "lock"),
        ({"lock": b"locklock"}, "lock"),
        ({"abort": b"stop!"}, "abort"),
        ({"abort": b"1" * 21}, "abort"),
        ({"checkpoint": bytes(4095)}, "checkpoint"),
        ({"lock": b"my notes", "checkpoint": b"?", SEGMENT: b""}, None),
        ({INDEX: b""}, None),
        ({"index/page.html": b"", SEGMENT: b""}, None),  # a store, in which somebody left it
        ({"index/page.html": b""}, "index/page.html"),
        ({"index/20241301000000000": b""}, "index/20241301000000000"),
        ({"commitlog/page.html": b""}, "commitlog/page.html"),
    ],
)
def test_files_with_a_store_s_names_must_be_a_broker_s(
    files: dict[str, bytes], wrong: str | None, tmp_path: Path
) -> None:
    store = put(tmp_path, files)
    if wrong is None:
        refuse_what_is_no_store(store)
    else:
        with pytest.raises(StoreError, match=f"^{store}/{wrong}: .*nothing in it is changed"):
            refuse_what_is_no_store(store)


def test_a_group_s_log_is_changed_by_no_command(tmp_path: Path) -> None:
    store = put(tmp_path, {f"dledger-n0/data/{0:020d}": b""})
    with pytest.raises(StoreError, match="a DLedger group's log"):
        refuse_what_is_no_store(store)


FILES = dict.fromkeys((SEGMENT, QUEUE, LAST_QUEUE, INDEX, LAST_INDEX, "checkpoint"), b"")


@pytest.mark.parametrize(
    ("linked", "by_log", "by_any"),
    [
        (SEGMENT, True, True),
        (QUEUE, False, False),
        (LAST_QUEUE, False, True),
        (INDEX, False, False),
        (LAST_INDEX, False, True),
        ("checkpoint", False, True),
    ],
)
def test_a_file_that_would_be_written_has_no_second_name(
    linked: str, by_log: bool, by_any: bool, tmp_path: Path
) -> None:
    store = put(tmp_path / "store", FILES)
    os.link(f"{store}/{linked}", tmp_path / "backup")
    for refuse, refuses in ((refuse_shared_segments, by_log), (refuse_shared_files, by_any)):
        if refuses:
            with pytest.raises(StoreError, match=f"{linked}: has a second name elsewhere"):
                refuse(store)
        else:
            refuse(store)


def test_links_that_a_killed_writer_left_beside_the_index_are_its_own(tmp_path: Path) -> None:
    store = put(tmp_path / "store", FILES)
    (tmp_path / "store/.reput-index").mkdir()
    os.link(f"{store}/{LAST_INDEX}", f"{store}/.reput-index/20240102000000000")
    refuse_shared_files(store)


def test_a_folder_has_other_names_and_what_is_gone_has_none(tmp_path: Path) -> None:
    (tmp_path / "folder/below").mkdir(parents=True)
    refuse_second_name(str(tmp_path / "folder"))
    refuse_second_name(str(tmp_path / "none"))


def test_a_log_is_changed_in_its_own_folder_only() -> None:
    state = FileState(1, 0, 0)
    own, other = (Segment(f"{folder}/{0:020d}", 0, state) for folder in ("/s/commitlog", "/d/log"))
    refuse_log_elsewhere("/s", [own], "append")
    with pytest.raises(StoreError, match=r"^/d/log/0+: append works on a log in /s/commitlog only"):
        refuse_log_elsewhere("/s", [own, other], "append")
