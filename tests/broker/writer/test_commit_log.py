"""The log that is appended to: its segments and BLANKs, what waits in memory, what is durable."""

import errno
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer import commit_log
from reput.broker.writer.commit_log import CommitLog
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import Files
from reput.store_format.message.refusals import CreateFileFailed
from reput.store_format.release.settings import WriterSettings
from tests.faults.killing import lengths_at_each_kill
from tests.faults.memory_files import MemoryFiles, Op

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
def test_a_record_that_leaves_less_than_eight_bytes_goes_to_the_next_segment(
    size: int, left: int
) -> None:
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


def test_a_log_is_continued_where_it_ends() -> None:
    files = MemoryFiles()
    put(log(files), 100)
    put(log(files, 100), 20)
    assert content(files) == {0: b"x" * 120}
    put(log(files, SEGMENT), 5)
    assert content(files)[SEGMENT] == b"x" * 5
    buffer = np.empty(3, np.uint8)
    log(files, SEGMENT + 5).read(SEGMENT + 2, buffer)
    assert buffer.tobytes() == b"xxx"


def test_after_a_failed_sync_nothing_is_durable_any_more() -> None:
    files = MemoryFiles()
    to = log(files)
    put(to, 10)
    to.sync()
    put(to, 10)
    files.fail = lambda op: op.kind == "sync"
    with pytest.raises(OSError, match="sync"):
        to.sync()
    files.fail = lambda op: False
    with pytest.raises(OSError, match="sync"):
        to.sync()
    assert (to.flushed, to.committed) == (10, 20)


def test_what_waits_in_memory_is_in_the_file_after_a_commit() -> None:
    files = MemoryFiles()
    to = log(files, settings=POOL)
    assert not to.commit()
    put(to, 100, 150)
    assert (to.end, to.committed) == (SEGMENT + 150, 0)
    assert to.sync() == 0
    assert content(files) == {0: b"", SEGMENT: b""}
    assert to.commit()
    blank = struct.pack(">iI", SEGMENT - 100, BLANK_MAGIC)
    assert content(files) == {0: b"x" * 100 + blank, SEGMENT: b"x" * 150}
    assert to.committed == to.sync() == SEGMENT + 150
    assert not to.commit()


@pytest.mark.parametrize("fast_fail", [True, False])
def test_only_so_many_segments_wait(fast_fail: bool) -> None:
    settings = replace(POOL, fast_fail_if_no_buffer_in_store_pool=fast_fail)
    to = log(MemoryFiles(), settings=settings)
    put(to, 200, 200)
    if fast_fail:
        with pytest.raises(CreateFileFailed, match="all 2 buffers"):
            put(to, 200)
        to.commit()
    put(to, 200)
    assert to.committed == 2 * SEGMENT
    assert to.end == 2 * SEGMENT + 200


def test_zeros_are_written_ahead_once_and_never_past_the_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_log, "ZEROS_AHEAD_BYTES", 100)
    files, settings = MemoryFiles(), replace(PLAIN, flush_disk_type="SYNC_FLUSH")
    to = log(files, settings=settings)
    files.ops.clear()
    put(to, 50, 60, 40, 10, 80)
    writes = [(op.at, len(op.data)) for op in files.ops if op.kind == "write"]
    assert writes == [
        (50, 100), (0, 50), (50, 60), (110, 40), (160, 96), (150, 10), (160, 80),
    ]  # fmt: skip
    full = MemoryFiles(error=errno.ENOSPC, fail=_zeros)
    put(log(full, settings=settings), 50)
    assert content(full) == {0: b"x" * 50}  # there was room for the record, if not for them
    full.error = errno.EIO
    with pytest.raises(OSError, match="write"):
        put(log(full, 50, settings), 50)


def _zeros(op: Op) -> bool:
    return op.kind == "write" and not any(op.data)


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
