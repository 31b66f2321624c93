"""When bytes become durable, and who is reported when."""

import errno
import threading
import time
from pathlib import Path

import pytest

from reput.broker.writer import commit_log, flush
from reput.broker.writer.appender import Request
from reput.broker.writer.flush import FlushDue, GroupCommit
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.files.disk import DiskFile, DiskFiles
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import WriterClosed, WriterFailed
from tests.broker.writer.stores import Clock, open_writer, settings, stored_records
from tests.faults.memory_files import MemoryFiles
from tests.processes import until


class SlowDisk(DiskFiles):
    """Each sync takes a while, or until it may end, and is counted."""

    def __init__(self, root: str, seconds: float) -> None:
        super().__init__(root)
        self.seconds, self.syncs, self.fail = seconds, 0, False
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.may_end.set()

    def open(self, path: str) -> DiskFile:
        file = super().open(path)
        if path.startswith("commitlog/"):
            real = file.sync

            def sync() -> None:
                self.begun.set()
                time.sleep(self.seconds)
                assert self.may_end.wait(60)
                if self.fail:
                    raise OSError(errno.EIO, "input/output error")
                self.syncs += 1
                real()

            file.sync = sync  # type: ignore[method-assign]
        return file


def sync_writer(tmp_path: Path, seconds: float, **named: object) -> tuple[
    CommitLogWriter, SlowDisk]:  # fmt: skip
    disk = SlowDisk(str(tmp_path), seconds)
    given = settings(flushDiskType="SYNC_FLUSH", mappedFileSizeCommitLog=1 << 20, **named)
    return CommitLogWriter.open("", given, clock=Clock(), files=disk), disk


def in_threads(count: int, work: object) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_many_callers_share_one_sync_and_each_is_reported_after_it(tmp_path: Path) -> None:
    writer, disk = sync_writer(tmp_path, 0.01)
    late = []

    def append(number: int) -> None:
        for _ in range(10):
            result = writer.append(Message("T", b"x", number))
            if writer.log.flushed < result.physical_offset + result.size:
                late.append(result)
            assert result.status == "PUT_OK"

    in_threads(16, append)
    assert late == []
    assert disk.syncs < 16 * 10 / 4
    writer.close()


@pytest.mark.parametrize("ends", [(50, 200), (200, 50), (50, 60)])
def test_a_caller_whose_records_are_durable_does_not_answer_for_his_group(ends) -> None:
    syncs: list[int] = []
    group = GroupCommit(lambda: syncs.append(200) or 200, lambda error: None)  # type: ignore[func-returns-value]
    group.flushed = 100
    group._sync_all([Request(end=end) for end in ends])
    assert (syncs, group.flushed) == (([200], 200) if max(ends) > 100 else ([], 100))


@pytest.mark.parametrize("fails", [False, True])
def test_a_second_sync_tells_no_more_than_the_first(tmp_path: Path, fails: bool) -> None:
    """It finds nothing dirty while the first is still at work; it must wait for that one's end."""
    disk = SlowDisk(str(tmp_path), 0)
    given = settings(mappedFileSizeCommitLog=1 << 20)
    writer = CommitLogWriter.open("", given, clock=Clock(), files=disk)
    writer.append(Message("T", b"x"))
    disk.seconds, disk.fail = 0.2, fails
    failed, early = [], []

    def sync(number: int) -> None:
        time.sleep(number / 20)
        try:
            writer.log.sync()
        except OSError:
            failed.append(number)
        else:
            early.extend([number] * (disk.syncs == 0))

    in_threads(2, sync)
    assert (sorted(failed), early) == ([0, 1] if fails else [], [])
    assert (writer.log.flushed == writer.log.end) is not fails
    writer.abandon()


def test_a_caller_that_need_not_wait_or_waited_too_long_is_told(tmp_path: Path) -> None:
    writer, disk = sync_writer(tmp_path, 0)
    disk.may_end.clear()
    assert writer.append(Message("T", b"x", wait=False)).status == "PUT_OK"
    assert writer.log.flushed == 0
    disk.may_end.set()
    writer.close()
    (tmp_path := tmp_path / "1").mkdir()
    writer, disk = sync_writer(tmp_path, 0, syncFlushTimeout=20)
    disk.may_end.clear()
    assert writer.append(Message("T", b"x")).status == "FLUSH_DISK_TIMEOUT"
    disk.may_end.set()
    writer.close()


def test_a_late_caller_is_reported_where_his_record_is(tmp_path: Path) -> None:
    """He stops waiting while another's sync still runs, before the group wrote his record."""
    writer, disk = sync_writer(tmp_path, 0, syncFlushTimeout=20)
    disk.may_end.clear()
    results = [writer.append(Message("T", b"first"))]
    assert disk.begun.wait(60)
    in_threads(7, lambda n: results.append(writer.append(Message("T", b"%d" % n))))
    disk.may_end.set()
    assert {result.status for result in results} == {"FLUSH_DISK_TIMEOUT"}
    reported = {(result.physical_offset, result.queue_offset) for result in results}
    writer.close()
    records = list(stored_records(tmp_path / "commitlog"))
    assert reported == {(r.physical_offset, r.queue_offset) for r in records}
    assert len(records) == 8


def test_what_was_asked_for_before_a_close_is_written(tmp_path: Path) -> None:
    writer, _ = sync_writer(tmp_path, 0.1)
    reported, refused = [], []

    def append(number: int) -> None:
        try:
            while True:
                reported.append(writer.append(Message("T", b"x", number)).physical_offset)
        except WriterClosed:
            refused.append(number)

    threads = [threading.Thread(target=append, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while len(reported) < 4:
        time.sleep(0.001)
    writer.close()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 4
    assert sorted(reported) == [r.physical_offset for r in stored_records(tmp_path / "commitlog")]


def test_a_failed_sync_ends_the_writer_for_all_who_wait(tmp_path: Path) -> None:
    writer, disk = sync_writer(tmp_path, 0.05)
    writer.append(Message("T", b"kept"))
    disk.fail = True
    outcomes: list[object] = []

    def append(number: int) -> None:
        try:
            outcomes.append(writer.append(Message("T", b"lost", number)))
        except WriterFailed as error:
            outcomes.append(error)

    in_threads(8, append)
    assert len(outcomes) == 8
    assert all(isinstance(outcome, WriterFailed) for outcome in outcomes)
    disk.fail = False  # a later sync would succeed: nobody may try
    with pytest.raises(WriterFailed):
        writer.append(Message("T", b"more"))
    with pytest.raises(WriterFailed):
        writer.flush()
    with pytest.raises(WriterFailed):
        writer.close()
    assert (tmp_path / "abort").exists()
    with open_writer(tmp_path, mappedFileSizeCommitLog=1 << 20) as again:
        assert again.recovered is not None


def test_a_group_commit_waits_for_those_who_came_too_late_for_its_sync() -> None:
    """One who asks while a sync runs must not be shown by it: it may have missed his bytes."""
    running, may_end = threading.Event(), threading.Semaphore(0)
    written, synced = [10], []

    def sync() -> int:
        target = written[0]
        running.set()
        assert may_end.acquire(timeout=60)
        synced.append(target)
        return target

    group = GroupCommit(sync, lambda error: None)
    first = threading.Thread(target=group.wait, args=(10, 60))
    first.start()
    assert running.wait(60)
    written[0] = 20
    second = threading.Thread(target=group.wait, args=(20, 60))
    second.start()
    while not group._requests:
        time.sleep(0.001)
    may_end.release()
    first.join(60)
    assert not first.is_alive()
    second.join(0.2)
    assert second.is_alive(), "woken by a sync that began before it asked"
    may_end.release()
    second.join(60)
    assert not second.is_alive()
    assert synced == [10, 20]
    group.stop()


def test_each_caller_wakes_the_one_behind_him() -> None:
    """Also where one between them waits no longer."""
    group = GroupCommit(lambda: 0, lambda error: None)
    requests = [Request(end=1) for _ in range(4)]
    for request in requests:
        request.done = threading.Lock()
        request.done.acquire()
    third = requests[2]
    assert not group._leave(third)
    group._tell(requests)
    reported = []
    for request in requests:
        reported.append([r.done.locked() for r in requests])  # type: ignore[union-attr]
        if request is not third:
            assert group._leave(request)
    assert reported == [
        [False, True, True, True], [False, False, True, True], [False, False, True, False],
        [False, False, True, False]]  # fmt: skip


class HeldGroup(GroupCommit):
    """Of the first group one caller is kept, as soon as he is reported, until he may go."""

    def __init__(self) -> None:
        super().__init__(self._count, lambda error: None)
        self.syncing, self.may_sync = threading.Event(), threading.Event()
        self.kept, self.may_go = threading.Event(), threading.Event()
        self.synced: list[int] = []
        self.third = threading.Event()

    def _count(self) -> int:
        self.syncing.set()
        assert self.may_sync.wait(60)
        self.synced.append(len(self.synced))
        if len(self.synced) == 3:
            self.third.set()
        return len(self.synced)

    def _leave(self, request: Request) -> bool:
        if threading.current_thread().name == "kept":
            self.kept.set()
            assert self.may_go.wait(60)
        return super()._leave(request)


def held_group() -> tuple[HeldGroup, list[threading.Thread]]:
    """A group of three whose second caller is kept while another waits for the next sync."""
    group = HeldGroup()

    def caller(name: str, end: int) -> threading.Thread:
        thread = threading.Thread(target=group.wait, args=(end, 60), name=name)
        thread.start()
        return thread

    threads = [caller("alone", 1)]
    assert group.syncing.wait(60)
    for number, name in enumerate(("first", "kept", "third"), 1):
        threads.append(caller(name, 2))
        while len(group._requests) < number:
            time.sleep(0.001)
    group.may_sync.set()
    assert group.kept.wait(60)
    threads.append(caller("next", 3))
    return group, threads


def finish(group: HeldGroup, threads: list[threading.Thread]) -> None:
    group.may_go.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    group.stop()
    assert group.synced == [0, 1, 2]


def test_the_thread_takes_the_next_group_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    group, threads = held_group()
    assert group.third.wait(60)
    finish(group, threads)
    # When all before it are reported, so that they may be of the next group.
    monkeypatch.setattr(flush, "_TURN_SECONDS", 30)
    group, threads = held_group()
    assert not group.third.wait(0.2), "a sync began while one of the last group was not reported"
    finish(group, threads)
    monkeypatch.setattr(flush, "_TURN_SECONDS", 30)
    group = HeldGroup()
    group.may_sync.set()
    alone = threading.Thread(target=group.wait, args=(1, 60), name="kept")
    alone.start()
    assert group.kept.wait(60)
    assert group.wait(2, 20) == "PUT_OK"  # less than the turn
    group.may_go.set()
    alone.join(60)
    group.stop()


@pytest.mark.parametrize(("written", "done", "time", "due"), [
    (0, 0, 0, False), (4 * 4096 - 1, 0, 0, False), (4 * 4096, 0, 0, True),
    (5 * 4096, 4096 + 1, 0, True), (5 * 4096 - 1, 4096, 0, False), (1, 0, 9_999, False),
    (1, 0, 10_000, True), (1, 1, 10_000, False)])  # fmt: skip
def test_flushing_is_due_by_pages_or_after_a_while(written, done, time: int, due: bool) -> None:
    assert FlushDue(4, 10_000).now(written, done, time, 0) is due


def test_threads_flush_and_dispatch_by_themselves(tmp_path: Path) -> None:
    writer = CommitLogWriter.open(
        str(tmp_path), settings(flushIntervalCommitLog=10, flushCommitLogThoroughInterval=0),
        clock=lambda: time.time_ns() // 1_000_000)  # fmt: skip
    writer.append(Message("T", b"x"))
    assert until(lambda: writer.reput.at == writer.log.end == writer.log.flushed)
    writer.close()


@pytest.mark.parametrize("background", [False, True])
def test_the_next_segment_is_prepared_and_warmed(tmp_path: Path, background: bool) -> None:
    writer = CommitLogWriter.open(str(tmp_path), settings(warmMapedFileEnable="true"),
                                  clock=Clock(), background=background)  # fmt: skip
    writer.append(Message("T", b"x"))
    writer.append(Message("T", bytes(3800)))
    writer.append(Message("T", bytes(3800)))
    writer.close()
    log = tmp_path / "commitlog"
    assert [int(path.name) // 4096 for path in sorted(log.iterdir())] == [0, 1, 2]
    assert all(path.stat().st_size == 4096 for path in log.iterdir())
    assert not any((log / f"{2 * 4096:020d}").read_bytes())
    with open_writer(tmp_path) as again:
        assert again.log.end == writer.log.end


def zeros_written(files: MemoryFiles) -> list[tuple[int, int]]:
    """From where to where zeros were written to the log; they lie after the records then."""
    zeros, reached = [], 0
    for op in files.ops:
        if op.kind != "write" or not op.path.startswith("commitlog/"):
            continue
        at = int(op.path[-20:]) + op.at
        assert op.at + len(op.data) <= 4096, "past the segment's end"
        if any(op.data):
            reached = at + len(op.data)
        else:
            assert at >= reached, "zeros over records"
            zeros.append((at, at + len(op.data)))
    return zeros


@pytest.mark.parametrize(("named", "wanted"), [
    ({"flushDiskType": "SYNC_FLUSH"}, True), ({}, False),
    ({"flushDiskType": "SYNC_FLUSH", "warmMapedFileEnable": "true"}, False)])  # fmt: skip
def test_a_synchronous_log_is_written_with_zeros_before_records_come(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str], wanted: bool
) -> None:
    monkeypatch.setattr(commit_log, "ZEROS_AHEAD_BYTES", 700)
    files = MemoryFiles()
    with CommitLogWriter.open("", settings(**named), clock=Clock(), files=files,
                              background=False) as writer:  # fmt: skip
        for step in range(60):
            writer.append(Message("T", b"x" * (step * 7)))
        end = writer.log.end
    zeros = [span for span in zeros_written(files) if span[1] - span[0] < 4096]
    assert end > 3 * 4096
    assert bool(zeros) is wanted
    if wanted:  # once in 700 bytes and the record that comes there, and up to a segment's end
        assert end / 1200 < len(zeros) < end / 700 + 4
        assert 4096 in [stop % 4096 or 4096 for _, stop in zeros]
        assert zeros[-1][1] >= end


def twenty_appends_without_room_for_zeros(error: int) -> list[int]:
    """The queue offsets of twenty messages; zeros ahead of them end with that error."""
    files = MemoryFiles()
    writer = CommitLogWriter.open("", settings(flushDiskType="SYNC_FLUSH"), clock=Clock(),
                                  files=files, background=False)  # fmt: skip
    writer.append(Message("T", b"x"))
    files.error = error
    files.fail = lambda op: (
        op.kind == "write" and op.path.startswith("commitlog/") and not any(op.data))  # fmt: skip
    return [writer.append(Message("T", b"x" * 200)).queue_offset for _ in range(20)]


def test_zeros_that_have_no_room_are_done_without_and_a_disk_that_fails_ends_the_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The record itself may have room."""
    monkeypatch.setattr(commit_log, "ZEROS_AHEAD_BYTES", 700)
    assert twenty_appends_without_room_for_zeros(errno.ENOSPC) == list(range(1, 21))
    monkeypatch.setattr(commit_log, "ZEROS_AHEAD_BYTES", 700)
    with pytest.raises(WriterFailed):
        twenty_appends_without_room_for_zeros(errno.EIO)
