"""A writer's promises to its caller: what a batch may hold, what a put answers, how it ends."""

from contextlib import suppress
from typing import Any

import pytest

from reput.broker.writer.writer import AppendResult, CommitLogWriter
from reput.store_format.layouts import SYS_TRANSACTION_PREPARED
from reput.store_format.message.message import Message
from reput.store_format.message.refusals import BatchIllegal, WriterClosed
from reput.store_format.names import ABORT
from reput.store_format.release.settings import SettingError
from tests.broker.writer.stores import Clock, settings
from tests.faults.memory_files import MemoryFiles

SIZE = 91 + 1 + 9  # of each record


def message(queue_id: int = 0, topic: str = "T", **more: Any) -> Message:
    return Message(topic, b"123456789", queue_id, **{"properties": b"", **more})


def opened(files: MemoryFiles, **named: object) -> CommitLogWriter:
    return CommitLogWriter.open(
        "", settings(**named), clock=Clock(5000), files=files, background=False
    )


def test_a_message_id_is_the_hosts_bytes_and_the_place_in_hexadecimal() -> None:
    """MessageDecoder.createMessageId: address, int port, long offset; a batch has one for each."""
    host = bytes([10, 0, 0, 255]) + (10911).to_bytes(4, "big")
    result = AppendResult("PUT_OK", 255, 0, 300, 5000, host, (255, 1 << 33))
    assert result.message_id == "0A0000FF00002A9F00000000000000FF,0A0000FF00002A9F0000000200000000"


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "no messages"),
        ([message(), message(topic="U")], "one topic and one queue"),
        ([message(0), message(1)], "one topic and one queue"),
        ([message(), message(delay_level=1, properties=None)], "no delayed message"),
        ([message(), message(transaction=SYS_TRANSACTION_PREPARED)], "no half message"),
        ([message(), message(wait=False)], "one WAIT"),
        ([message(), message(store_host="10.0.0.1:1")], "one store host"),
    ],
)
def test_a_batch_that_is_of_no_one_kind_leaves_the_log_alone(messages, why: str) -> None:
    with opened(MemoryFiles()) as writer:
        with pytest.raises(BatchIllegal, match=why):
            writer.append_batch(messages)
        assert (writer.log.end, writer.append(message()).queue_offset) == (0, 0)


def test_a_batch_is_answered_with_its_first_message_and_all_places() -> None:
    with opened(MemoryFiles()) as writer:
        writer.append(message(1))
        done = writer.append_batch([message()] * 3)
        assert (done.status, done.queue_offset, done.size) == ("PUT_OK", 0, 3 * SIZE)
        assert (done.physical_offset, done.store_timestamp) == (SIZE, 5000)
        assert done.offsets == (SIZE, 2 * SIZE, 3 * SIZE)
        assert writer.append(message()).queue_offset == 3


@pytest.mark.parametrize("answer", ["PUT_OK", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"])
def test_a_put_waits_for_replicas_up_to_its_end(answer: str) -> None:
    ends: list[int] = []

    def replicated(end: int) -> str:
        ends.append(end)
        return answer

    with opened(MemoryFiles()) as writer:
        writer.replicated = replicated
        assert writer.append(message()).status == answer
        assert writer.append(message(wait=False)).status == "PUT_OK"
        assert writer.append_batch([message()] * 2).status == answer
    assert ends == [SIZE, 4 * SIZE]


def test_a_clean_end_leaves_no_abort_and_an_error_in_the_block_is_no_failed_writer() -> None:
    files = MemoryFiles()
    writer = opened(files)
    with suppress(KeyError), writer:
        writer.append(message())
        assert files.exists(ABORT)
        raise KeyError
    assert (files.exists(ABORT), files.locked) == (False, False)
    writer.close()  # a second one does nothing
    with pytest.raises(WriterClosed):
        writer.append(message())


def test_one_that_is_abandoned_leaves_abort_and_lets_go_of_the_lock() -> None:
    files = MemoryFiles()
    writer = opened(files)
    writer.append(message())
    writer.abandon()
    writer.abandon()
    assert (files.exists(ABORT), files.locked) == (True, False)
    with opened(files) as again:
        assert again.append(message()).queue_offset == 1


def test_settings_that_it_cannot_follow_are_refused_before_anything_is_made() -> None:
    files = MemoryFiles()
    with pytest.raises(SettingError, match="enableDLegerCommitLog"):
        opened(files, enableDLegerCommitLog="true")
    assert (files.ops, files.locked) == ([], False)


def test_an_open_that_fails_lets_go_of_the_lock() -> None:
    files = MemoryFiles(fail=lambda op: op.path == ABORT)
    with pytest.raises(OSError, match=ABORT):
        opened(files)
    assert not files.locked
