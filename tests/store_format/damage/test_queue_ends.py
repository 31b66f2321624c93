"""The queueOffset that a queue goes on from: one flipped bit does not make it another."""

import pytest

from reput.store_format.damage.queue_ends import NEVER, QueueEnds, last_of
from reput.store_format.derive.rules import scan_rules
from reput.store_format.derive.scan import Buffers, End, Outputs
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs.encoder import Message
from tests.store_format.damage.walked import walked

SEGMENT = 1 << 14
TOP = (1 << 63) - 1


@pytest.mark.parametrize(
    ("offsets", "last"),
    [
        ([], NEVER),
        ([7], 7),  # whatever comes first
        ([0, 1, 2], 2),
        ([0, 1, 500], 1),  # nobody confirms it
        ([0, 1, 500, 2], 2),  # flipped upwards
        ([0, 1, 500, 501], 501),  # a leap, confirmed
        ([0, 1, 500, 900], 900),  # the next one is above it
        ([0, 1, 500, 499], 1),
        ([0, 1, 500, 499, 500], 500),
        ([5, 6, 0], 6),
        ([5, 6, 0, 1], 1),  # begun anew
        ([5, 6, 0, 3], 6),
        ([5, 6, 6], 6),
        ([TOP], TOP),
        ([NEVER, 3, 4], 4),  # counts as none
        ([-5, -4], -4),
    ],
)
def test_an_offset_that_does_not_go_on_counts_when_the_next_confirms_it(
    offsets: list[int], last: int
) -> None:
    assert last_of(offsets) == last


class Dispatched:
    """A log that is dispatched into buffers, as a scan does."""

    def __init__(self, *messages: Message) -> None:
        self._raw, self._rows = walked(*messages, segment=SEGMENT)
        self._done = 0
        self.buffers = Buffers(SEGMENT)
        rules = scan_rules(profile("5.3.3"), Settings(), ())
        self._outputs = Outputs(rules, self.buffers, End())

    def go_on(self, count: int) -> None:
        rows = self._rows[self._done : self._done + count]
        self._done += count
        assert list(self._outputs.dispatch(self._raw, rows)) == []


def message(offset: int, topic: str | bytes = "T", queue: int = 0, flags: int = 0) -> Message:
    return Message(topic=topic, queue_id=queue, queue_offset=offset, sys_flag=flags)


def test_each_queue_goes_on_by_itself() -> None:
    log = Dispatched(message(3), message(8, queue=1), message(9, queue=1), message(1, "U"))
    ends = QueueEnds(log.buffers)
    log.go_on(2)
    assert [ends.last(("T", queue)) for queue in (0, 1, 2)] == [3, 8, NEVER]
    log.go_on(2)
    assert [ends.last(("T", 1)), ends.last(("U", 0))] == [9, 1]


def test_what_was_noted_stays_when_the_buffers_are_emptied() -> None:
    """An offset that waits for the next one waits over that too."""
    log = Dispatched(message(3), message(90), message(91), message(4, "U"))
    ends = QueueEnds(log.buffers)
    log.go_on(2)
    ends.keep()
    log.buffers.empty()
    assert (ends.last(("T", 0)), ends.last(("U", 0))) == (3, NEVER)
    log.go_on(2)
    assert (ends.last(("T", 0)), ends.last(("U", 0))) == (91, 4)


def test_two_spellings_of_a_topic_are_one_queue_and_half_messages_count_for_none() -> None:
    log = Dispatched(message(0, b"T\xff"), message(1, b"T\xed\xa0\x80"), message(2, b"T\xff", 0, 4))
    ends = QueueEnds(log.buffers)
    log.go_on(3)
    assert ends.last(("T\ufffd", 0)) == 1


def test_there_is_room_for_many_queues() -> None:
    log = Dispatched(*(message(n, queue=n) for n in range(150)))
    ends = QueueEnds(log.buffers)
    log.go_on(60)
    assert ends.last(("T", 59)) == 59
    log.go_on(90)
    assert [ends.last(("T", n)) for n in (0, 59, 64, 149)] == [0, 59, 64, 149]
