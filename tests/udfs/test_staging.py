"""Files in staging: names that say what they are, lines and pieces of bounded size."""

import json

import pytest

from reput.store_format.files.local import LocalStorage
from reput.udfs.staging import (
    ENTRIES,
    LineFile,
    Staging,
    attempt_name,
    index_file_name,
    is_derived_file,
    is_index_file,
    local_folder,
    past_name,
    past_of,
    pieces_of,
    queue_file_name,
    read_range,
    scan_name,
    split_of,
    table_file_name,
)
from tests.memory_storage import MemoryStorage

MB = 1 << 20


def staging(**files: bytes) -> Staging:
    return Staging(
        MemoryStorage({f"staging/{name}": raw for name, raw in files.items()}), "staging"
    )


def test_two_attempts_never_write_one_file_and_a_name_says_its_split() -> None:
    assert attempt_name("x") != attempt_name("x")
    for split in (0, 7, 123_456_789):
        assert split_of(scan_name(split) + ENTRIES) == split


@pytest.mark.parametrize(
    ("name", "derived", "index"),
    [
        (queue_file_name(), True, False),
        (index_file_name(), True, True),
        (table_file_name(), False, False),
        (scan_name(0), False, False),
        ("indexes-1", False, False),
    ],
    ids=["queue", "index", "table", "scan", "no attempt"],
)
def test_finished_files_are_known_by_their_names(name: str, derived: bool, index: bool) -> None:
    assert (is_derived_file(name), is_index_file(name)) == (derived, index)


def test_of_scans_past_damage_each_split_s_furthest_attempt_counts() -> None:
    one, again, other = scan_name(3), scan_name(3), scan_name(4)
    names = [past_name(one, 100, 2), past_name(one, 900, 5), past_name(again, 500, 4),
             past_name(other, 10, 1), scan_name(5) + ENTRIES]  # fmt: skip
    assert past_of(names) == (910, 6)
    assert past_of([]) == (0, 0)


@pytest.mark.parametrize("many", [0, 1, (1 << 12) - 1, 1 << 12, (1 << 12) + 1])
def test_lines_are_all_written_and_no_line_is_no_file(many: int) -> None:
    to = staging()
    lines = LineFile(to)
    for n in range(many):
        lines.add({"n": n})
    name = lines.finish()
    assert bool(name) == bool(many)
    if many:
        written = to.storage.read_bytes(to.path(name)).splitlines()
        assert [json.loads(line)["n"] for line in written] == list(range(many))


@pytest.mark.parametrize(("size", "pieces"), [(0, []), (1, [1]), (MB, [MB]), (MB + 1, [MB, 1])])
def test_a_file_is_read_in_pieces_of_a_megabyte(size: int, pieces: list[int]) -> None:
    found = list(pieces_of(staging(file=b"x" * size), "file"))
    assert [len(each) for each in found] == pieces


def test_a_range_is_read_and_of_no_bytes_no_file_is_opened() -> None:
    assert read_range(staging(file=b"abcdef"), "file", 2, 3).tobytes() == b"cde"
    assert read_range(staging(), "none", 2, 0).tobytes() == b""


def test_any_library_can_write_where_the_folder_is_on_a_local_disk() -> None:
    assert local_folder(Staging(LocalStorage(), "/tmp/x")) == "/tmp/x"
    assert local_folder(staging()) is None
