"""Settings with the sizes that files show: most of them for a reader, all for a writer."""

from pathlib import Path
from typing import Any

import pytest

from reput.store_format.discover.sizes import (
    ENTRIES,
    SLOTS,
    IndexShown,
    SizeDisagrees,
    agreed_pair,
    settings_to_continue,
    settings_to_read,
)
from reput.store_format.files.disk import FixedFiles
from reput.store_format.files.folder import Folder
from reput.store_format.release.settings import WriterSettings
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.index_files import IndexFile

SEGMENT, QUEUE = "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"
BATCH = "mapperFileSizeBatchConsumeQueue"
NAME = "{:020d}".format
INDEX = IndexFile(7, 20).put_all(["T#a", "T#b"], 100).raw()
EMPTY = IndexFile(7, 20).raw()
Sizes = dict[str, int]


def read(given: dict[str, str], **files: int | bytes) -> tuple[Sizes, str | None]:
    """Of a store with these files; a number is a file's length."""
    paths = {"segment": f"commitlog/{NAME(0)}", "index": "index/20230101000000000"}
    content = {f"store/{paths[n]}": bytes(f) if isinstance(f, int) else f for n, f in files.items()}
    settings, why = settings_to_read(Folder(MemoryStorage(content), "store"), given, "5.3.3")
    by_name = settings.by_name()
    return {name: by_name[name] for name in (SEGMENT, SLOTS, ENTRIES)}, why


USUAL = (1 << 30, 5_000_000, 20_000_000)


@pytest.mark.parametrize(
    ("given", "files", "found", "known"),
    [
        ({}, {}, USUAL, True),
        ({}, {"segment": 8192, "index": INDEX}, (8192, 7, 20), True),
        ({SEGMENT: "4096"}, {"segment": 8192}, (4096, *USUAL[1:]), True),  # its word counts
        ({SLOTS: "8", ENTRIES: "9"}, {"index": INDEX}, (USUAL[0], 8, 9), True),
        ({SLOTS: "8"}, {"index": INDEX}, (USUAL[0], 7, 20), True),
        ({}, {"index": EMPTY}, USUAL, False),
        ({SLOTS: "7", ENTRIES: "20"}, {"index": EMPTY}, (USUAL[0], 7, 20), True),
    ],
)
def test_a_reader_takes_what_the_files_show(
    given: dict[str, str], files: dict[str, int | bytes], found: tuple[int, ...], known: bool
) -> None:
    sizes, why = read(given, **files)
    assert tuple(sizes.values()) == found
    assert (why is None) is known
    assert known or f"{len(EMPTY)} bytes" in str(why)


def test_a_pair_has_to_agree_with_what_is_given() -> None:
    shown = IndexShown((7, 20), 0, len(INDEX), None, True)
    assert agreed_pair("i", shown, (7, 20), {ENTRIES: 20}) == {SLOTS: 7, ENTRIES: 20}
    with pytest.raises(SizeDisagrees, match=f"{SLOTS}=7, and {SLOTS} is 8; give --set {SLOTS}=7 "):
        agreed_pair("i", shown, (7, 20), {SLOTS: 8})


def store(folder: Path, **files: int | bytes) -> FixedFiles:
    """Files by path, `/` as `__`; a number is a length."""
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(content) if isinstance(content, int) else content)
    return FixedFiles(str(folder))


def continued(folder: Path, settings: WriterSettings, **files: int | bytes) -> Sizes:
    return settings_to_continue(settings, store(folder, **files))[1]


ONE: dict[str, int | bytes] = {
    f"commitlog__{NAME(0)}": 8192, f"consumequeue__T__0__{NAME(0)}": 100,
    f"batchconsumequeue__B__0__{NAME(0)}": 92, "index__20230101000000000": INDEX,
}  # fmt: skip


def test_a_writer_takes_the_sizes_of_all_files(tmp_path: Path) -> None:
    settings, found = settings_to_continue(WriterSettings(), store(tmp_path, **ONE))
    assert found == {SEGMENT: 8192, QUEUE: 100, BATCH: 92, SLOTS: 7, ENTRIES: 20}
    by_name = settings.by_name()
    assert {name: by_name[name] for name in found} == found
    assert settings.given_names == frozenset()


def test_what_is_given_and_agrees_is_not_found_again(tmp_path: Path) -> None:
    given = WriterSettings(mapped_file_size_commit_log=8192, mapped_file_size_consume_queue=95)
    assert continued(tmp_path, given, **ONE).keys() == {BATCH, SLOTS, ENTRIES}
    assert continued(tmp_path / "new", WriterSettings()) == {}


@pytest.mark.parametrize(
    ("given", "files", "says"),
    [
        ({SEGMENT: 4096}, {}, f"has 8192 bytes, and {SEGMENT} is 4096; give --set {SEGMENT}=8192"),
        ({QUEUE: 101}, {}, f"has 100 bytes, and {QUEUE} is 101"),
        ({SLOTS: 8}, {}, f"give --set {SLOTS}=7 --set {ENTRIES}=20"),
        ({}, {f"commitlog__{NAME(8192)}": 8193}, "has 8193 bytes, and commitlog/0"),
        ({}, {f"consumequeue__U__3__{NAME(0)}": 120}, "one of them is damaged"),
        ({}, {"index__20230101000000001": INDEX[:-20]}, "two sizes of"),
    ],
)
def test_a_file_of_another_size_is_refused(
    given: Sizes, files: dict[str, int | bytes], says: str, tmp_path: Path
) -> None:
    names = {SEGMENT: "mapped_file_size_commit_log", QUEUE: "mapped_file_size_consume_queue",
             SLOTS: "max_hash_slot_num"}  # fmt: skip
    mine: dict[str, Any] = {names[name]: value for name, value in given.items()}
    settings = WriterSettings(**mine)
    with pytest.raises(SizeDisagrees) as refused:
        continued(tmp_path, settings, **ONE, **files)
    assert says in str(refused.value)


@pytest.mark.parametrize("length", [0, 5000])
def test_a_crash_may_leave_a_segment_empty_or_too_short(length: int, tmp_path: Path) -> None:
    files: dict[str, int | bytes] = {
        f"commitlog__{NAME(0)}": 8192, f"commitlog__{NAME(8192)}": length
    }  # fmt: skip
    assert continued(tmp_path, WriterSettings(), **files) == {SEGMENT: 8192}


def test_index_files_without_entries_show_no_pair_but_agree_with_one(tmp_path: Path) -> None:
    pair = WriterSettings(max_hash_slot_num=7, max_index_num=20)
    files: dict[str, int | bytes] = {"index__20230101000000000": EMPTY}
    assert continued(tmp_path, pair, **files) == {}
    with pytest.raises(SizeDisagrees, match="their content does not show them"):
        continued(tmp_path, WriterSettings(), **files)
    # not even with these
    wrong = IndexFile(7, 20).put_all(["T#a", "T#b"], 100).raw(end_physical_offset=9)
    with pytest.raises(SizeDisagrees, match="their content does not show them"):
        continued(tmp_path, pair, index__20230101000000000=wrong)
