"""What a person reads when a disk is full."""

from pathlib import Path

import pytest

from reput.jobs.console.endings import full_disk


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
