"""When a log is made durable, by its flush mode; without threads each sync is the caller's."""

from collections.abc import Iterator

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.message.message import Message
from tests.broker.writer.stores import Clock, settings
from tests.faults.memory_files import MemoryFiles

PAGE = 4096


class Opened:
    def __init__(self, **named: object) -> None:
        self.clock, self.files = Clock(), MemoryFiles()
        given = settings(mappedFileSizeCommitLog=1 << 20, **named)
        self.writer = CommitLogWriter.open(
            "", given, clock=self.clock, files=self.files, background=False
        )
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


@pytest.mark.parametrize("wait", [True, False])
def test_sync_flush_makes_each_append_durable(wait: bool) -> None:
    opened = Opened(flushDiskType="SYNC_FLUSH")
    assert opened.append(200, wait) == "PUT_OK"
    assert opened.log.flushed == 200
    opened.writer.abandon()


def test_async_flush_is_due_by_pages_or_by_time(lazy: Opened) -> None:
    """flushCommitLogLeastPages is 4, flushCommitLogThoroughInterval 10 s."""
    assert lazy.append(4 * PAGE - 1) == "PUT_OK"
    lazy.durability.flush_if_due()
    assert lazy.log.flushed == 0
    lazy.append(100)
    lazy.durability.flush_if_due()
    assert lazy.log.flushed == 4 * PAGE + 99
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


def test_what_is_in_the_write_buffer_is_no_more_durable_than_it_is_written() -> None:
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
