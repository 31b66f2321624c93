"""The log that is appended to: its segments and BLANKs, what waits in memory, what is durable."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reput.broker.writer.commit_log import CommitLog
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import Files
from reput.store_format.release.settings import WriterSettings
from tests.faults.killing import lengths_at_each_kill
from tests.faults.memory_files import MemoryFiles

SEGMENT = 256
PLAIN = WriterSettings(mapped_file_size_commit_log=SEGMENT)
POOL = replace(PLAIN, transient_store_pool_enable=True, transient_store_pool_size=2)
POOL = replace(POOL, fast_fail_if_no_buffer_in_store_pool=True)
BLANK_MAGIC = 0xCBD43194


def log(files: Files, end: int = 0, settings: WriterSettings = PLAIN, **ahead: Any) -> CommitLog:
    files.make_folder("commitlog")
    return CommitLog(files, settings, 0, end, **ahead)


def put(to: CommitLog, *sizes: int) -> None:
    for size in sizes:
        to.make_room(size)
        to.write(b"x" * size)


def content(files: MemoryFiles) -> dict[int, bytes]:
    tree = files.tree()
    assert all(len(raw) == SEGMENT for raw in tree.values())
    return {int(path.rpartition("/")[2]): raw.rstrip(b"\0") for path, raw in tree.items()}


def test_a_segment_has_its_length_and_its_name_before_a_record_is_written() -> None:
    files = MemoryFiles()
    to = log(files)
    files.ops.clear()
    assert to.room == 0
    put(to, 10)
    assert [op.kind for op in files.ops] == ["create", "length", "sync", "sync folder", "write"]
    assert (to.room, to.end, to.committed, to.flushed) == (SEGMENT - 10, 10, 10, 0)
    assert to.sync() == to.flushed == 10


def test_a_kill_leaves_no_segment_without_its_length(tmp_path: Path) -> None:
    """MappedFileQueue.load refuses an empty one before 5.1.3."""
    work = lambda root: put(log(DiskFiles(root)), 200, 200)  # noqa: E731
    assert lengths_at_each_kill(tmp_path, work) == {SEGMENT}


@pytest.mark.parametrize(
    ("size", "left"), [(SEGMENT - 108, 0), (SEGMENT - 107, SEGMENT - 100), (200, SEGMENT - 100)]
)
def test_a_record_that_leaves_less_than_eight_bytes_goes_to_the_next_segment(size, left) -> None:
    """doAppend: `(msgLen + END_FILE_MIN_BLANK_LENGTH) > maxBlank`."""
    files = MemoryFiles()
    to = log(files)
    put(to, 100, size)
    if not left:
        assert content(files) == {0: b"x" * (SEGMENT - 8)}
        put(to, 1)  # the eight bytes that were left are a BLANK
        assert content(files)[0][SEGMENT - 8 :] == struct.pack(">iI", 8, BLANK_MAGIC)
        assert to.end == SEGMENT + 1
    else:
        blank = struct.pack(">iI", left, BLANK_MAGIC)
        assert content(files) == {0: b"x" * 100 + blank, SEGMENT: b"x" * size}
        assert to.end == SEGMENT + size


def test_the_next_segment_may_be_made_ahead() -> None:
    files = MemoryFiles()
    put(log(files, prepare_ahead=True), 1)
    assert content(files) == {0: b"x", SEGMENT: b""}
    waited: list[int] = []

    def spawn(work: Callable[[], None]) -> Callable[[], None]:
        def wait() -> None:
            waited.append(1)
            work()

        return wait

    other = MemoryFiles()
    to = log(other, prepare_ahead=True, spawn=spawn)
    put(to, 200)
    assert list(content(other)) == [0]
    put(to, 200)
    assert list(content(other)) == [0, SEGMENT]
    assert waited == [1]
