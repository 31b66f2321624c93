"""What a person reads when a disk is full."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from reput.jobs.console.endings import full_disk, room_of


@pytest.mark.parametrize("text", ["", "[Errno 13] Permission denied: '/a'", "no space left"])
def test_another_error_is_none_of_a_full_disk(text: str) -> None:
    assert full_disk(text) is None


@pytest.mark.parametrize("full", ["No space left on device", "Disk quota exceeded"])
@pytest.mark.parametrize("path", ["", ": 'set/part'", ': "/it\'s/part"'])
def test_without_a_whole_path_the_places_are_named_where_files_go(full: str, path: str) -> None:
    said = full_disk(f"[Errno 28] {full}{path}")
    assert said is not None
    assert said.startswith(f"{full}: make room where the output goes")


def test_the_disk_of_a_path_is_named_though_the_path_is_not_made_yet(tmp_path: Path) -> None:
    path = tmp_path / "not" / "made"
    said = full_disk(f"OSError: [Errno 28] No space left on device: '{path}'; more 'x'")
    assert said is not None
    assert said.startswith(f"{path}: No space left on device: the disk at /")
    assert " left; make room, or give another folder" in said


def test_room_is_what_others_than_root_have(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Mock(f_frsize=1024, f_bavail=3, f_bfree=5, f_blocks=7 << 30)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert room_of("/").endswith("has 3.0 KiB of 7.0 TiB left")
