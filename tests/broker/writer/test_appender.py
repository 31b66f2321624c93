"""Each record's queueOffset, physical offset and storeTimestamp, in the order of the requests."""

import os
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

import pytest

from reput.broker.writer.appender import Appender, Request, UsageGuard, check_fits
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.message import refusals
from reput.store_format.message.message import Message
from tests.broker.writer.stores import Clock, settings
from tests.faults.memory_files import MemoryFiles

SIZE = 91 + 1 + 100  # 21 records are in a segment of 4096, and a BLANK of 64 bytes


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def writer(clock: Clock) -> Iterator[CommitLogWriter]:
    writer = CommitLogWriter.open("", settings(), clock=clock, files=MemoryFiles(),
                                  background=False, batch_topics=["Batch"])  # fmt: skip
    yield writer
    writer.abandon()


def request(writer: CommitLogWriter, *queues: int, topic: str = "T", **more: Any) -> Request:
    return Request([writer.encoder.draft(Message(topic, b"x" * 100, queue, properties=b"",
                                                 **more)) for queue in queues])  # fmt: skip


def placed(appender: Appender, *requests: Request) -> list[tuple[int, int, int]]:
    """(queueOffset, physical offset, end) of each request."""
    appender.append(requests)
    return [(each.queue_offset, each.physical_offset, each.end) for each in requests]


def test_no_store_timestamp_is_less_than_the_one_before(writer, clock: Clock) -> None:
    times = []
    for step in (0, 5, -1000, 1, 999):
        clock.now += step
        (one,) = some = (request(writer, 0),)
        writer.appender.append(some)
        times.append(one.store_timestamp - 1_700_000_000_000)
    assert times == [0, 5, 5, 5, 5]
    clock.now += 7
    with writer.appender.appending() as now:
        assert now == writer.appender.began == clock.now
    assert (writer.appender.began, writer.appender.last_timestamp) == (0, clock.now)


def test_one_request_that_is_refused_leaves_the_others(writer: CommitLogWriter) -> None:
    refused = request(writer, 0, topic="Batch")
    assert placed(writer.appender, request(writer, 0), refused, request(writer, 0)) == [
        (0, 0, SIZE), (-1, -1, 0), (1, SIZE, 2 * SIZE)]  # fmt: skip
    assert isinstance(refused.error, refusals.BatchQueueTopic)


def test_nothing_is_written_where_the_check_raises(writer: CommitLogWriter) -> None:
    def closed() -> None:
        raise refusals.WriterClosed("closed")

    with pytest.raises(refusals.WriterClosed):
        writer.appender.append([request(writer, 0)], closed)
    assert writer.log.end == 0
    writer.guard.closing = True
    with pytest.raises(refusals.WriterClosed):
        writer.appender.append([request(writer, 0)])
    with pytest.raises(refusals.WriterClosed), writer.appender.appending():
        pass
    writer.appender.append([request(writer, 0)], lambda: None)
    assert writer.log.end == SIZE


def test_a_batch_has_its_size_and_positions_can_be_set(writer: CommitLogWriter) -> None:
    batch = request(writer, 0, 0)
    check_fits(batch, 2 * SIZE + 8)
    with pytest.raises(refusals.MessageTooLarge, match=f"a segment takes {2 * SIZE - 1}"):
        check_fits(batch, 2 * SIZE + 7)
    assert writer.appender.next_offset(("T", 5)) == 0
    writer.appender.set_next_offset(("T", 5), 40)
    assert placed(writer.appender, request(writer, 5))[0][0] == 40
    assert writer.appender.next_offset(("T", 5)) == 41


# --- A writer may be used by its own process, until it is closed or a write has failed.
def test_the_first_os_error_ends_the_writer_and_the_callers_own_does_not() -> None:
    guard = UsageGuard()
    guard.fail(OSError("first"))
    guard.fail(OSError("second"))
    guard.closing = True
    assert not guard.is_usable
    for check in (guard.check_sound, guard.check_usable):
        with pytest.raises(refusals.WriterFailed, match="first"):
            check()
    guard = UsageGuard()
    with pytest.raises(ValueError, match="wrong"), guard.failing():
        raise ValueError("wrong")
    assert guard.is_usable
    guard = UsageGuard()
    with pytest.raises(refusals.WriterFailed, match="no space") as failed, guard.failing():
        raise OSError("no space")
    assert isinstance(failed.value.__cause__, OSError)
    assert not guard.is_usable
    assert "no space" in str(guard.failed(OSError("later")))


def _said(guard: UsageGuard) -> list[str]:
    said = []
    for check in (guard.check_process, guard.check_usable):
        with pytest.raises(refusals.ForkedWriter) as error:
            check()
        said.append(str(error.value))
    assert guard.is_fork
    assert not guard.is_usable
    return said


def test_in_a_fork_that_is_told_first() -> None:
    guard = UsageGuard()
    guard.fail(OSError("an error"))
    with get_context("fork").Pool(1) as pool:
        for said in pool.apply(_said, [guard]):
            assert f"process {os.getpid()}" in said
    assert not guard.is_fork
