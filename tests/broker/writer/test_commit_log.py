"""The log that is appended to: its segments and BLANKs, what waits in memory, what is durable."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reput.broker.writer.commit_log import CommitLog
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import Files
from reput.store_format.message import refusals
from reput.store_format.message.message import Message
from reput.store_format.release.settings import WriterSettings
from tests.broker.writer.stores import Clock, open_writer, settings, stored_records
from tests.faults.killing import lengths_at_each_kill
from tests.faults.memory_files import MemoryFile, MemoryFiles

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


def test_a_kill_leaves_no_segment_without_its_length(tmp_path: Path) -> None:
    """MappedFileQueue.load refuses an empty one before 5.1.3."""
    work = lambda root: put(log(DiskFiles(root)), 200, 200)  # noqa: E731
    assert lengths_at_each_kill(tmp_path, work) == {SEGMENT}


@pytest.mark.parametrize(("size", "left"), [
    (SEGMENT - 108, 0), (SEGMENT - 107, SEGMENT - 100), (200, SEGMENT - 100)])  # fmt: skip
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


# --- What a broker's store does besides appending: buffers, segments ahead, a full disk.
POOL_store: dict[str, Any] = {"transientStorePoolEnable": "true", "mappedFileSizeCommitLog": 4096}


def fill(writer: CommitLogWriter, count: int) -> list[str]:
    """The status of each of so many messages, seven of which fill a segment."""
    reported = []
    for _ in range(count):
        try:
            reported.append(writer.append(Message("T", bytes(400))).status)
        except refusals.Unavailable as error:
            reported.append(error.status)
    return reported


def waiting_bytes(writer: CommitLogWriter) -> int:
    return writer.log.end - writer.log.committed


@pytest.mark.parametrize("size", [1, 2, 3])
def test_only_so_many_segments_wait_in_memory(tmp_path: Path, size: int) -> None:
    named = {**POOL_store, "transientStorePoolSize": size, "fastFailIfNoBufferInStorePool": "true"}
    with open_writer(tmp_path, **named) as writer:
        reported = fill(writer, 40)
        fit = reported.index("CREATE_MAPPED_FILE_FAILED")
        assert set(reported[fit:]) == {"CREATE_MAPPED_FILE_FAILED"}
        assert waiting_bytes(writer) == size * 4096
        with pytest.raises(refusals.CreateFileFailed,
                           match="transientStorePoolSize wait to be written"):  # fmt: skip
            writer.append(Message("T", b""))
        writer.log.commit()
        assert fill(writer, 1) == ["PUT_OK"]
    assert len(list(stored_records(tmp_path / "commitlog"))) == fit + 1


def test_what_waits_is_written_in_order_and_without_fast_fail_the_put_waits(tmp_path: Path) -> None:
    with open_writer(tmp_path, **POOL_store, transientStorePoolSize=2) as writer:
        for _ in range(40):
            assert fill(writer, 1) == ["PUT_OK"]
            assert waiting_bytes(writer) <= 2 * 4096
    assert len(list(stored_records(tmp_path / "commitlog"))) == 40
    (tmp_path := tmp_path / "1").mkdir()
    with open_writer(tmp_path, **POOL_store) as writer:
        fill(writer, 20)
        assert writer.log.committed == 0
        writer.flush()
        assert writer.log.flushed == writer.log.end
        fill(writer, 3)
    records = list(stored_records(tmp_path / "commitlog"))
    assert [record.queue_offset for record in records] == list(range(23))


def test_pages_of_a_warmed_segment_are_locked_until_it_is_closed(monkeypatch) -> None:
    locked: list[int] = []

    def lock_pages(_: MemoryFile, length: int) -> Callable[[], None]:
        locked.append(length)
        return lambda: locked.remove(length)

    monkeypatch.setattr(MemoryFile, "lock_pages", lock_pages)
    with CommitLogWriter.open("", settings(warmMapedFileEnable="true"), clock=Clock(),
                              files=MemoryFiles(), background=False) as writer:  # fmt: skip
        fill(writer, 1)
        assert locked == [4096]
        fill(writer, 20)
        writer.flush()
        writer.dispatch()
        assert 1 <= len(locked) <= 3
    assert locked == []


def test_nothing_is_taken_where_the_disk_is_full_or_another_takes_too_long(tmp_path: Path) -> None:
    files, clock = MemoryFiles(), Clock()
    with CommitLogWriter.open("", settings(), clock=clock, files=files, background=False) as writer:
        assert fill(writer, 1) == ["PUT_OK"]
        files.used = 0.91
        assert fill(writer, 1) == ["PUT_OK"]  # it is looked at now and then
        writer.admission.look()
        end = writer.log.end
        assert fill(writer, 2) == ["SERVICE_NOT_AVAILABLE"] * 2
        with pytest.raises(refusals.DiskFull, match=r"the disk is 91% full, more than .* \(90%\)"):
            writer.append(Message("T", b""))
        with pytest.raises(refusals.DiskFull), writer.appending():
            pass
        assert writer.log.end == end
        files.used = 0.90
        writer.admission.look()
        assert fill(writer, 1) == ["PUT_OK"]
    assert DiskFiles(str(tmp_path)).used_share() > 0
    (tmp_path := tmp_path / "later").mkdir()
    clock = Clock()
    with open_writer(tmp_path, clock) as writer:
        with writer.appending():
            clock.now += 1000
            writer.admission.check()
            clock.now += 1
            with pytest.raises(refusals.PageCacheBusy) as busy:
                writer.admission.check()  # an append that went on would wait for ever
            assert busy.value.status == "OS_PAGE_CACHE_BUSY"
            clock.now += 10_000_000
            writer.admission.check()
        clock.now += 5000
        assert fill(writer, 1) == ["PUT_OK"]


def test_queues_are_flushed_by_pages_and_now_and_then_whole() -> None:
    files, clock = MemoryFiles(), Clock()
    given = settings(mappedFileSizeConsumeQueue=20_000, mappedFileSizeCommitLog=1 << 20,
                     flushConsumeQueueLeastPages=2)  # fmt: skip
    with CommitLogWriter.open("", given, clock=clock, files=files, background=False) as writer:

        def flushed() -> list[str]:
            writer.dispatch()
            before = len(files.ops)
            writer.flush_queues_if_due()
            synced = [op.path for op in files.ops[before:] if op.kind == "sync"]
            return [path.partition("/")[0] for path in synced]

        writer.append(Message("T", b""))
        assert flushed() == ["consumequeue", "checkpoint"]  # the first time
        for _ in range(300):
            writer.append(Message("T", b""))
        assert flushed() == []  # 6,020 bytes: one page
        for _ in range(120):
            writer.append(Message("T", b""))
        assert flushed() == ["consumequeue"]
        writer.append(Message("T", b""))
        clock.now += 59_999
        assert flushed() == []
        clock.now += 1
        assert flushed() == ["consumequeue", "checkpoint"]
