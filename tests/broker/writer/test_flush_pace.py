"""Who dispatches when, and in what pieces: what is derived is the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.broker.writer import flush, store, writer
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.files.protocol import Bytes
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import WriterFailed
from tests.broker.writer.stores import Clock, open_writer, settings
from tests.faults.memory_files import MemoryFiles, Op

_BEHIND = 1000
_NEVER = 3600.0


@pytest.fixture
def no_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread never looks by itself, and little is much."""
    monkeypatch.setattr(writer, "LOOK_SECONDS", _NEVER)
    monkeypatch.setattr(flush, "BEHIND_BYTES", _BEHIND)
    monkeypatch.setattr(flush, "_SLOW_BYTES", _BEHIND // 10)


def opened(root: Path | None = None, files: MemoryFiles | None = None) -> CommitLogWriter:
    given = settings(mappedFileSizeCommitLog=1 << 20)
    return CommitLogWriter.open(str(root), given, clock=Clock(), files=files)


def test_one_who_appends_dispatches_what_is_behind_and_the_thread_the_rest(
    tmp_path: Path, no_looks: None
) -> None:
    with opened(tmp_path) as w:
        for n in range(40):
            w.append(Message("T", bytes(100), n % 3, keys=f"k{n}"))
            assert w.log.end - w.reput.at < _BEHIND
        assert w.reput.at > 0
    (tmp_path := tmp_path / "later").mkdir()
    with opened(tmp_path) as w:
        assert w._pace is not None
        w.append(Message("T", bytes(300)))
        w._pace.look()
        assert w.reput.at == 0
        w._pace.look()  # nothing came since the last look
        assert w.reput.at == w.log.end
    (tmp_path := tmp_path / "1").mkdir()
    with opened(tmp_path) as w:
        assert w._pace is not None
        with w.store._lock:  # another is at work on the queues: nobody who appends waits for it
            w.append(Message("T", bytes(3 * _BEHIND)))
        assert w.reput.at == 0
        w._pace.look()
        assert w.reput.at == w.log.end


def test_an_append_is_done_where_its_dispatch_fails(no_looks: None) -> None:
    def fail(op: Op) -> bool:
        return op.kind == "create" and op.path.startswith("consumequeue/")

    w = opened(files=MemoryFiles(fail=fail))
    w.append(Message("T", b"first"))
    assert w.append(Message("T", bytes(_BEHIND))).status == "PUT_OK"
    with pytest.raises(WriterFailed):
        w.append(Message("T", b"more"))
    w.abandon()


def test_nothing_is_read_past_the_logs_end(tmp_path: Path) -> None:
    with open_writer(tmp_path, mappedFileSizeCommitLog=1 << 20) as w:
        real, beyond = w.reput.read, []

        def read(at: int, buffer: Bytes) -> None:
            beyond.append(at + len(buffer) - w.log.end)
            real(at, buffer)

        w.reput.read = read
        for n in range(20):
            w.append(Message("T", bytes(n), keys="k"))
        w.dispatch()
        assert max(beyond) == 0


def test_what_is_derived_does_not_depend_on_the_pieces(tmp_path, monkeypatch) -> None:
    derived = []
    for stretch, beyond in ((1 << 20, 1 << 16), (700, 1 << 16), (700, 50), (90, 0)):
        monkeypatch.setattr(store, "_STRETCH_BYTES", stretch)
        monkeypatch.setattr(store, "_BEYOND_BYTES", beyond)
        root = tmp_path / f"{stretch}-{beyond}"
        with open_writer(root, Clock(), maxHashSlotNum=50, maxIndexNum=70) as w:
            for n in range(200):
                body, keys = bytes(n * 37 % 900), f"k{n} j{n}"
                w.append(Message(f"T{n % 2}", body, n % 3, "t", keys, unique_key=f"u{n}"))
        paths = [p for name in ("consumequeue", "index") for p in (root / name).rglob("*")]
        derived.append({p.relative_to(root): p.read_bytes() for p in paths if p.is_file()})
    assert len(derived[0]) > 8
    for other in derived[1:]:
        assert other == derived[0]


# --- When a log is made durable, by its flush mode; without threads each sync is the caller's.
PAGE = 4096


class Opened:
    def __init__(self, **named: object) -> None:
        self.clock, self.files = Clock(), MemoryFiles()
        given = settings(mappedFileSizeCommitLog=1 << 20, **named)
        self.writer = CommitLogWriter.open(
            "", given, clock=self.clock, files=self.files, background=False)  # fmt: skip
        self.log, self.durability = self.writer.log, self.writer._durability

    def append(self, size: int, wait: bool = True) -> str:
        """A record of this many bytes."""
        body = b"x" * (size - 91 - 1)
        return self.writer.append(Message("T", body, properties=b"", wait=wait)).status


@pytest.fixture
def lazy() -> Iterator[Opened]:
    opened = Opened()
    yield opened
    opened.writer.abandon()


def test_sync_flush_makes_each_append_durable_and_a_buffer_is_no_more_than_written() -> None:
    for wait in [True, False]:
        opened = Opened(flushDiskType="SYNC_FLUSH")
        assert opened.append(200, wait) == "PUT_OK"
        assert opened.log.flushed == 200
        opened.writer.abandon()
    opened = Opened(transientStorePoolEnable="true")
    opened.append(200)
    opened.clock.now += 20_000
    opened.durability.flush_if_due()
    assert (opened.log.flushed, opened.durability.durable_before) == (0, 0)
    opened.durability.commit_if_due()  # commitCommitLogThoroughInterval: 200 ms
    assert (opened.log.committed, opened.log.flushed) == (200, 0)
    opened.append(200)
    opened.clock.now += 20_000
    opened.durability.flush_if_due()
    assert (opened.log.flushed, opened.durability.durable_before) == (200, 0)
    assert opened.durability.sync() == 400  # commits first
    opened.writer.abandon()


def test_async_flush_is_due_by_pages_or_by_time(lazy: Opened) -> None:
    """flushCommitLogLeastPages is 4, flushCommitLogThoroughInterval 10 s."""
    assert lazy.append(4 * PAGE - 1) == "PUT_OK"
    lazy.durability.flush_if_due()
    assert lazy.log.flushed == 0
    lazy.append(100)
    lazy.durability.flush_if_due()
    lazy.append(100)
    lazy.clock.now += 9_999
    lazy.durability.flush_if_due()
    assert lazy.log.flushed == 4 * PAGE + 99
    lazy.clock.now += 1
    lazy.durability.flush_if_due()
    assert lazy.log.flushed == 4 * PAGE + 199


def test_what_was_stored_before_a_sync_is_durable_by_its_time(lazy: Opened) -> None:
    at = lazy.clock.now
    lazy.append(200)
    lazy.clock.now += 50
    assert lazy.durability.sync() == 200
    assert lazy.durability.durable_before == at  # of the last record, not of the sync
    lazy.append(200)
    lazy.durability.sync()
    assert lazy.durability.durable_before == at + 50
