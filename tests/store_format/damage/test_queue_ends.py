"""The queueOffset that a queue goes on from: one flipped bit does not make it another."""

import pytest

from reput.store_format.damage.queue_ends import NEVER, QueueEnds, last_of, last_of_run
from reput.store_format.dispatch.scan import Buffers, End, Outputs, Runs
from tests.logs.batches import batch
from tests.logs.encoder import Message
from tests.store_format.damage.walked import SCAN_RULES, walked

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
        self._outputs = Outputs(SCAN_RULES, self.buffers, End())

    def go_on(self, count: int) -> None:
        rows = self._rows[self._done : self._done + count]
        self._done += count
        assert list(self._outputs.dispatch(self._raw, rows)) == []

    def runs(self) -> Runs:
        (found,) = (part for part in self._outputs.empty() if isinstance(part, Runs))
        return found


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


@pytest.mark.parametrize(
    ("records", "last"),
    [
        ([(0, 4), (4, 4), (8, 2)], 9),
        ([(7, 1)], 7),
        ([(0, 4), (4, 0), (5, 3)], 7),  # a broker counts 0 as 1
        ([(0, 4), (500, 4)], 3),
        ([(0, 4), (500, 4), (4, 4)], 7),
        ([(0, 4), (500, 4), (504, 4)], 507),
        ([(0, 4), (500, 4), (600, 2)], 601),
        ([(0, 4), (500, 4), (503, 2)], 3),  # not above all messages of the one in doubt
        ([(0, 4), (4, 4), (4, 4)], 7),
    ],
)
def test_a_batch_takes_as_many_offsets_as_it_has_messages(
    records: list[tuple[int, int]], last: int
) -> None:
    assert last_of(*zip(*records, strict=True)) == last
    log = Dispatched(*(batch(*each) for each in records))
    ends = QueueEnds(log.buffers)
    log.go_on(len(records))
    assert ends.last(("Batch", 0)) == last
    assert last_of_run(log.runs().runs, 0, True) == last


@pytest.mark.parametrize(("offsets", "last"), [([3, 4, 5], 5), ([3, 4, 90], 4), ([3, 90, 91], 91)])
def test_what_a_run_ends_with(offsets: list[int], last: int) -> None:
    log = Dispatched(message(1, "A"), *(message(each) for each in offsets))
    log.go_on(1 + len(offsets))
    found = log.runs()
    assert [queue.topic for queue in found.queues] == ["A", "T"]
    assert [last_of_run(found.runs, number, False) for number in (0, 1)] == [1, last]
