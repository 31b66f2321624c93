"""How much one pull takes: DefaultMessageStore.isTheBatchFull and maxFilterMessageSize."""

import struct
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from reput.broker.serving.records import (
    LONG,
    BodyPiece,
    PullLimits,
    RecordPieces,
    Taken,
    given_again,
    records_of,
)
from reput.broker.serving.store import LogRange, ServedQueue
from reput.store_format.derived.queues import Slice
from reput.store_format.log.record import Record
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked

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


def test_a_pull_takes_256_kib_of_memory_and_less_of_the_disk() -> None:
    assert passed(PullLimits(), entries(5 << 20, 1)) == 1
    assert passed(PullLimits(), entries(5 << 20, 1), most=0) == 1
    assert passed(PullLimits(), entries(1), Taken(1, 256 << 10)) == 0
    assert passed(PullLimits(), entries()) == 0
    for last, taken in [(56 << 10, 3), ((56 << 10) + 1, 2)]:
        assert passed(PullLimits(), entries(100 << 10, 100 << 10, last)) == taken
    for in_memory, many, size in [
        (True, 32, 1), (False, 8, 1), (True, 2, 100 << 10), (False, 1, 60 << 10)]:  # fmt: skip
        limits = PullLimits(memory_bytes=END if in_memory else 0)
        assert passed(limits, entries(*[size] * 40)) == many
    limits = PullLimits(memory_bytes=1000, count_in_disk=1)
    near = entries(10, 10, first=END - 1010)  # the second is 1000 bytes from the end
    assert passed(limits, near) == 2
    assert passed(limits, entries(10, 10, first=END - 1011)) == 1
    batches = entries(10, 10, 10, messages=4)
    assert [passed(PullLimits(), batches, most=most) for most in (1, 7, 8, 11, 12)] == [
        1, 1, 2, 2, 3]  # fmt: skip
    assert passed(PullLimits(), batches, Taken(1, 10), most=4) == 0
    # A broker looks whether the pull is full before it looks whether an entry is wanted.
    wanted, some = np.arange(40) % 10 == 0, entries(*[1] * 40)
    ends = [PullLimits().passed(some, wanted, NONE, most, END) for most in (1, 3, 4, 5)]
    assert ends == [1, 21, 31, 40]


def test_a_pull_has_enough_when_it_has_what_was_asked_for_or_looked_at_16000_bytes() -> None:
    assert PullLimits().has_enough(Taken(31, 1), 32) is False
    assert PullLimits().has_enough(Taken(32, 1), 1000) is True
    assert PullLimits().has_enough(Taken(4, 1), 4) is True
    assert PullLimits().has_enough(Taken(0, 0), 0) is False
    # getMessage goes on while (queueOffset - offset) * 20 < max(16000, maxMsgNums * 20).
    limits = PullLimits()
    assert [limits.looked_at(most, False) for most in (1, 800, 801)] == [800, 800, 801]
    assert [limits.looked_at(most, True) for most in (1, 348, 349)] == [348, 348, 349]  # of 46
    assert limits._replace(filter_bytes=0).looked_at(1, False) == 1


# --- An answer's body: the records that entries point to, whole and in order, and nothing else.
SIZE = FIXED + 1 + 10  # bytes of a record
RECONSUMED = 72  # where reconsumeTimes are in a record with IPv4 hosts
A_SEGMENT = (4096 - 8) // SIZE  # records that fit before a BLANK


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return served(tmp_path_factory.mktemp("store"), (message(n, size=10) for n in range(45)))


def queue_of(asked: Asked) -> ServedQueue:
    queue = asked.broker.store.queue("T", 0)
    assert queue is not None
    return queue


def raw(asked: Asked, place: int, size: int) -> bytes:
    """Bytes of the log's files."""
    folder = Path(asked.broker.store.opened.path) / "commitlog"
    start = place - place % 4096
    return (folder / f"{start:020d}").read_bytes()[place - start : place - start + size]


def joined(pieces: list[BodyPiece]) -> bytes:
    return b"".join(e.read() if isinstance(e, LogRange) else bytes(e) for e in pieces)


def records(asked: Asked, some: Slice, keep: object = None) -> RecordPieces:
    return records_of(some, asked.broker.store.log, asked.broker.store.files, keep)  # type: ignore[arg-type]


def changed(some: Slice, number: int, place: int | None = None, size: int | None = None) -> Slice:
    places, sizes = some.places.copy(), some.sizes.copy()
    places[number] = places[number] if place is None else place
    sizes[number] = sizes[number] if size is None else size
    return replace(some, places=places, sizes=sizes)


def test_records_follow_one_another_over_the_end_of_a_segment(store: Asked) -> None:
    assert A_SEGMENT == 40
    some = queue_of(store).some(38, 2)
    more = queue_of(store).some(40, 2)
    columns = zip(astuple(some), astuple(more), strict=True)
    both = Slice(*map(np.concatenate, columns))
    found = records(store, both)
    places = [38 * SIZE, 39 * SIZE, 4096, 4096 + SIZE]
    assert joined(found.pieces) == b"".join(raw(store, place, SIZE) for place in places)
    assert np.concatenate(found.positions).tolist() == [38, 39, 40, 41]
    assert found.taken == (4, 4 * SIZE)
    assert not found.unwanted


def test_an_entry_of_no_whole_record_and_records_not_wanted_are_left_out(store: Asked) -> None:
    for place, size in [
        (None, SIZE - 1), (None, SIZE + 1), (None, 0), (None, -SIZE), (None, (1 << 31) - 1),
        (-SIZE, None), (1, None), (1 << 40, None), (4096 - 8, 8), (0, LONG),
        (1 << 62, LONG)]:  # fmt: skip
        found = records(store, changed(queue_of(store).some(2, 3), 1, place, size))
        assert joined(found.pieces) == raw(store, 2 * SIZE, SIZE) + raw(store, 4 * SIZE, SIZE)
        assert np.concatenate(found.positions).tolist() == [2, 4]
        assert found.taken == (2, 2 * SIZE)
        assert not found.unwanted
        assert joined(records(store, queue_of(store).some(45, 1)).pieces) == b""

    def odd(record: Record) -> bool:
        return record.queue_offset % 2 == 1

    found = records(store, queue_of(store).some(0, 4), odd)
    assert joined(found.pieces) == raw(store, SIZE, SIZE) + raw(store, 3 * SIZE, SIZE)
    assert (found.taken, found.unwanted) == ((2, 2 * SIZE), True)
    assert not records(store, queue_of(store).some(1, 1), odd).unwanted
    none = records(store, queue_of(store).some(0, 1), odd)
    assert (none.pieces, none.taken, none.unwanted) == ([], (0, 0), True)


def test_a_long_record_goes_from_the_file_and_the_short_ones_around_it_stay_in_order(
    tmp_path: Path,
) -> None:
    least = LONG - FIXED - 1  # a body of the shortest long record
    sizes = [9, least - 1, least, 9]
    asked = served(tmp_path, (message(n, size=size) for n, size in enumerate(sizes)),
                   mappedFileSizeCommitLog=1 << 17)  # fmt: skip
    found = records(asked, queue_of(asked).some(0, 4))
    assert [isinstance(piece, LogRange) for piece in found.pieces] == [False, True, False]
    whole = (tmp_path / "commitlog" / "0".zfill(20)).read_bytes()
    total = sum(FIXED + 1 + size for size in sizes)
    assert joined(found.pieces) == whole[:total]
    assert found.taken == (4, total)
    none = records(asked, queue_of(asked).some(2, 1), lambda record: False)
    assert (none.pieces, none.unwanted) == ([], True)


def test_a_message_that_is_given_again_is_the_same_but_for_its_count(store) -> None:
    for times, written in [(1, 1), ((1 << 31) - 1, (1 << 31) - 1), (1 << 40, (1 << 31) - 1)]:
        log, files = store.broker.store.log, store.broker.store.files
        given = given_again(queue_of(store), [3, 44, 45, -1, 1 << 40], log, files, times)
        assert [position for position, _ in given] == [3, 44]
        for (position, piece), place in zip(given, (3 * SIZE, 4096 + 4 * SIZE), strict=True):
            record = bytearray(raw(store, place, SIZE))
            struct.pack_into(">i", record, RECONSUMED, written)
            assert joined([piece]) == record, position
