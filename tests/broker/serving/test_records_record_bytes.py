"""An answer's body: the records that entries point to, whole and in order, and nothing else."""

import struct
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from reput.broker.serving.records import LONG, BodyPiece, RecordPieces, given_again, records_of
from reput.broker.serving.store import LogRange, ServedQueue
from reput.store_format.derived.queues import Slice
from reput.store_format.log.record import Record
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked

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


@pytest.mark.parametrize(
    ("place", "size"),
    [
        (None, SIZE - 1), (None, SIZE + 1), (None, 0), (None, -SIZE), (None, (1 << 31) - 1),
        (-SIZE, None), (1, None), (1 << 40, None), (4096 - 8, 8), (0, LONG), (1 << 62, LONG),
    ],
)  # fmt: skip
def test_an_entry_that_points_to_no_whole_record_is_left_out(
    store: Asked, place: int | None, size: int | None
) -> None:
    found = records(store, changed(queue_of(store).some(2, 3), 1, place, size))
    assert joined(found.pieces) == raw(store, 2 * SIZE, SIZE) + raw(store, 4 * SIZE, SIZE)
    assert np.concatenate(found.positions).tolist() == [2, 4]
    assert found.taken == (2, 2 * SIZE)
    assert not found.unwanted
    assert joined(records(store, queue_of(store).some(45, 1)).pieces) == b""


def test_records_that_are_not_wanted_are_left_out_and_told_of(store: Asked) -> None:
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
    asked = served(
        tmp_path, (message(n, size=size) for n, size in enumerate(sizes)),
        mappedFileSizeCommitLog=1 << 17,
    )  # fmt: skip
    found = records(asked, queue_of(asked).some(0, 4))
    assert [isinstance(piece, LogRange) for piece in found.pieces] == [False, True, False]
    whole = (tmp_path / "commitlog" / "0".zfill(20)).read_bytes()
    total = sum(FIXED + 1 + size for size in sizes)
    assert joined(found.pieces) == whole[:total]
    assert found.taken == (4, total)
    none = records(asked, queue_of(asked).some(2, 1), lambda record: False)
    assert (none.pieces, none.unwanted) == ([], True)


@pytest.mark.parametrize(("times", "written"), [(1, 1), ((1 << 31) - 1, (1 << 31) - 1),
                                                (1 << 40, (1 << 31) - 1)])  # fmt: skip
def test_a_message_that_is_given_again_is_the_same_but_for_its_count(
    store: Asked, times: int, written: int
) -> None:
    log, files = store.broker.store.log, store.broker.store.files
    given = given_again(queue_of(store), [3, 44, 45, -1, 1 << 40], log, files, times)
    assert [position for position, _ in given] == [3, 44]
    for (position, piece), place in zip(given, (3 * SIZE, 4096 + 4 * SIZE), strict=True):
        record = bytearray(raw(store, place, SIZE))
        struct.pack_into(">i", record, RECONSUMED, written)
        assert joined([piece]) == record, position
