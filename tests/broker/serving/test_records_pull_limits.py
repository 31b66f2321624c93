"""How much one pull takes: DefaultMessageStore.isTheBatchFull and maxFilterMessageSize."""

import numpy as np
import pytest

from reput.broker.serving.records import PullLimits, Taken
from reput.store_format.derived.queues import Slice

NONE = Taken(0, 0)
END = 1 << 20


def entries(*sizes: int, messages: int = 1, first: int = 0) -> Slice:
    """Entries of records that adjoin in the log, from physical offset `first` on."""
    numbers = np.array(sizes, np.int64)
    each = np.full(len(sizes), messages, np.int64)
    places = first + np.cumsum(numbers) - numbers
    return Slice(np.arange(len(sizes)) * messages, each, places, numbers, each * 0)


def passed(limits: PullLimits, some: Slice, taken: Taken = NONE, most: int = 1000) -> int:
    return limits.passed(some, np.ones(len(some), np.bool_), taken, most, END)


def test_the_first_message_is_taken_however_long_it_is() -> None:
    assert passed(PullLimits(), entries(5 << 20, 1)) == 1
    assert passed(PullLimits(), entries(5 << 20, 1), most=0) == 1
    assert passed(PullLimits(), entries(1), Taken(1, 256 << 10)) == 0
    assert passed(PullLimits(), entries()) == 0


@pytest.mark.parametrize(("last", "taken"), [(56 << 10, 3), ((56 << 10) + 1, 2)])
def test_bytes_in_memory_are_256_kib(last: int, taken: int) -> None:
    assert passed(PullLimits(), entries(100 << 10, 100 << 10, last)) == taken


@pytest.mark.parametrize(
    ("in_memory", "many", "size"), [(True, 32, 1), (False, 8, 1), (True, 2, 100 << 10),
                                    (False, 1, 60 << 10)],
)  # fmt: skip
def test_of_records_on_disk_fewer_are_taken(in_memory: bool, many: int, size: int) -> None:
    limits = PullLimits(memory_bytes=END if in_memory else 0)
    assert passed(limits, entries(*[size] * 40)) == many


def test_what_is_in_memory_is_told_by_the_distance_from_the_logs_end() -> None:
    limits = PullLimits(memory_bytes=1000, count_in_disk=1)
    near = entries(10, 10, first=END - 1010)  # the second is 1000 bytes from the end
    assert passed(limits, near) == 2
    assert passed(limits, entries(10, 10, first=END - 1011)) == 1


def test_a_batch_counts_by_its_messages() -> None:
    batches = entries(10, 10, 10, messages=4)
    assert [passed(PullLimits(), batches, most=most) for most in (1, 7, 8, 11, 12)] == [
        1, 1, 2, 2, 3,
    ]  # fmt: skip
    assert passed(PullLimits(), batches, Taken(1, 10), most=4) == 0


def test_what_the_filter_does_not_want_takes_no_room() -> None:
    """A broker looks whether the pull is full before it looks whether an entry is wanted."""
    wanted, some = np.arange(40) % 10 == 0, entries(*[1] * 40)
    ends = [PullLimits().passed(some, wanted, NONE, most, END) for most in (1, 3, 4, 5)]
    assert ends == [1, 21, 31, 40]


def test_a_pull_has_enough_when_it_has_what_was_asked_for_or_32() -> None:
    assert PullLimits().has_enough(Taken(31, 1), 32) is False
    assert PullLimits().has_enough(Taken(32, 1), 1000) is True
    assert PullLimits().has_enough(Taken(4, 1), 4) is True
    assert PullLimits().has_enough(Taken(0, 0), 0) is False


def test_a_pull_looks_at_16000_bytes_of_entries_or_at_as_many_as_are_asked_for() -> None:
    """getMessage goes on while (queueOffset - offset) * 20 < max(16000, maxMsgNums * 20)."""
    limits = PullLimits()
    assert [limits.looked_at(most, False) for most in (1, 800, 801)] == [800, 800, 801]
    assert [limits.looked_at(most, True) for most in (1, 348, 349)] == [348, 348, 349]  # of 46
    assert limits._replace(filter_bytes=0).looked_at(1, False) == 1
