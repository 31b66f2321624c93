"""Dispatch of a log that grows: as far as it is told, no body's CRC, and no further than damage."""

import numpy as np
import pytest

from reput.broker.writer.queue_writer import QueueWriter
from reput.broker.writer.store import Reput
from reput.store_format.dispatch.scan import NamedQueue, place_rules, scan_rules
from reput.store_format.faults import DamageFound
from reput.store_format.layouts import SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK
from reput.store_format.release.profiles import profile
from tests.broker.writer.stores import settings
from tests.faults.memory_files import MemoryFiles
from tests.logs.encoder import Message, build_log

SEGMENT = 256
SIZE = 120  # two records are in a segment, and a BLANK
START = 1_700_000_000_000


def made(count: int) -> list[Message]:
    return [
        Message(queue_offset=n, body=b"%028d" % n, store_timestamp=START + n) for n in range(count)
    ]


class Dispatched:
    """A log that is dispatched to queues."""

    def __init__(self, messages: list[Message]) -> None:
        self.log = bytearray(b"".join(build_log(messages, SEGMENT).values()))
        rules = profile("5.3.3")
        self.queues = QueueWriter(MemoryFiles(), settings(), place_rules(rules), writes=False)
        scan = scan_rules(rules, settings(), ())
        self.furthest = 0
        self.reput = Reput(self._read, SEGMENT, scan, self.queues, None, 0)

    def _read(self, at: int, buffer: np.ndarray) -> None:
        self.furthest = max(self.furthest, at + len(buffer))
        buffer[:] = np.frombuffer(bytes(self.log[at : at + len(buffer)]), np.uint8)

    def run(self, end: int, known: bool = True) -> tuple[int, int, int]:
        """(where it stands, the queue's next position, the time of the last record)."""
        self.reput.run(end, known)
        state = self.queues.states.get(NamedQueue("T", 0, False))
        time = self.reput.timestamp - START if self.reput.timestamp else -1
        return self.reput.at, 0 if state is None else state.position, time


def test_it_goes_as_far_as_it_is_told_and_reads_nothing_behind() -> None:
    dispatched = Dispatched(made(5))
    assert dispatched.run(0) == (0, 0, -1)
    assert dispatched.run(SIZE) == (SIZE, 1, 0)
    assert dispatched.furthest == SIZE
    assert dispatched.run(SIZE) == (SIZE, 1, 0)
    assert dispatched.run(SEGMENT + SIZE) == (SEGMENT + SIZE, 3, 2)
    assert dispatched.run(2 * SEGMENT + SIZE) == (2 * SEGMENT + SIZE, 5, 4)


@pytest.mark.parametrize("transaction", [SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK])
def test_half_and_rolled_back_messages_are_in_no_queue(transaction: int) -> None:
    messages = [made(1)[0], Message(body=b"x" * 28, sys_flag=transaction, store_timestamp=START)]
    assert Dispatched(messages).run(2 * SIZE) == (2 * SIZE, 1, 0)


@pytest.mark.parametrize("known", [True, False])
def test_a_body_that_this_writer_wrote_is_not_checked(known: bool) -> None:
    dispatched = Dispatched(made(2))
    dispatched.log[SIZE + 100] ^= 1
    if known:
        assert dispatched.run(2 * SIZE) == (2 * SIZE, 2, 1)
        return
    with pytest.raises(DamageFound, match=f"at offset {SIZE}: bodyCRC"):
        dispatched.run(2 * SIZE, known)


def test_a_record_that_is_none_is_named_and_nothing_behind_it_is_dispatched() -> None:
    dispatched = Dispatched(made(4))
    dispatched.log[SEGMENT + 4] ^= 1  # the magic
    with pytest.raises(DamageFound) as found:
        dispatched.run(SEGMENT + 2 * SIZE)
    assert f"{SEGMENT:020d}: at offset {SEGMENT}: magic" in str(found.value)
    assert dispatched.reput.at == SEGMENT
    assert dispatched.queues.states[NamedQueue("T", 0, False)].position == 2
