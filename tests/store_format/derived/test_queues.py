"""Queues in files: which topics and queues there are, listed once."""

from dataclasses import astuple

import pytest

from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.derived.queues import FileQueues, QueueSlices
from reput.store_format.files.folder import Folder
from tests.memory_storage import MemoryStorage, WatchedStorage
from tests.store_format.derived.made_files import BATCHES, BLANK, QUEUE, batches, entries, queue_of

NAME = "0" * 20


def queues(*paths: str) -> FileQueues:
    storage = MemoryStorage({f"s/{path}": entries(0, 5) for path in paths})
    return FileQueues(Folder(storage, "s"), lambda batch: 46 if batch else 20)


def test_topics_and_queues_are_listed_once() -> None:
    made = queues(f"consumequeue/b/0/{NAME}", f"batchconsumequeue/a/1/{NAME}",
        f"consumequeue/none/x/{NAME}", "consumequeue/file", f"index/c/0/{NAME}")  # fmt: skip
    assert made.topics() == ["a", "b"]
    assert queues().topics() == []
    for names, ids in [(["10", "9", "0"], [0, 9, 10]), (["01", "-1", "x", "1 ", "\u0661"], []),
        (["2147483647"], [2147483647])]:  # fmt: skip
        made = queues(*(f"consumequeue/T/{name}/{NAME}" for name in names))
        assert made.of("T") == [(number, False) for number in ids]
    made = queues(f"consumequeue/T/1/{NAME}", f"batchconsumequeue/T/1/{NAME}",
                  f"batchconsumequeue/T/0/{NAME}")  # fmt: skip
    assert made.of("T") == [(0, True), (1, False), (1, True)]
    assert made.open("T", 1, True).folder == "s/batchconsumequeue/T/1"
    assert made.open("T", 1, False).maximum() == 5
    made = queues(f"consumequeue/T/1/{NAME}")
    assert [made.of(topic) for topic in ("../T", "", ".", "other", "T/1")] == [[]] * 5
    made = queues(f"consumequeue/T/1/{NAME}")
    assert (made.topics(), made.of("T")) == (["T"], [(1, False)])
    made.store.storage.files[f"s/consumequeue/U/0/{NAME}"] = b""  # type: ignore[attr-defined]
    made.store.storage.files[f"s/consumequeue/T/2/{NAME}"] = b""  # type: ignore[attr-defined]
    assert (made.topics(), made.of("T")) == (["T"], [(1, False)])
    asked = list[bool]()

    def look(batch: bool) -> int:
        asked.append(batch)
        return 0

    made = FileQueues(Folder(MemoryStorage(), "s"), look)
    assert [made.file_bytes(batch) for batch in (False, True, False, True)] == [0] * 4
    assert asked == [False, True]
    assert made.dispatched_to() == -1
    made = queues(f"consumequeue/T/1/{0:020d}", f"consumequeue/T/1/{400:020d}")
    assert made.of("T") == [(1, False)]
    with pytest.raises(BadQueue, match="a hole"):
        made.open("T", 1, False)


# --- Entries a few at a time, all of one file, and the end of a queue within a part of the log.
FILES = ((200, entries(10, 15)), (300, entries(15, 18, 100)))
BATCH_FILES = ((0, batches([(0, 10, 0, 4), (100, 20, 4, 1), (200, 30, 5, 3)])),
    (138, batches([(300, 40, 8, 2)], 138)))  # fmt: skip


def queue(*files: tuple[int, bytes]) -> QueueSlices:
    return QueueSlices(Folder(queue_of(*files), QUEUE))


def batch_queue() -> QueueSlices:
    return QueueSlices(Folder(queue_of(*BATCH_FILES, folder=BATCHES), BATCHES), batch=True)


def test_a_slice_ends_with_its_file_and_a_queue_within_a_part_of_the_log() -> None:
    for first, most, positions in [(10, 2, [10, 11]), (13, 9, [13, 14]), (15, 9, [15, 16, 17]),
        (0, 1, [10]), (17, 1, [17]), (18, 5, []), (1 << 40, 5, []), (12, 0, [])]:  # fmt: skip
        found = queue(*FILES).some(first, most)
        assert found.positions.tolist() == positions
        assert len(found) == len(positions)
        assert found.places.tolist() == [100 * n for n in positions]
        assert found.messages.tolist() == [1] * len(positions)
        assert found.tags_codes.tolist() == positions
    found = batch_queue().some(6, 5)
    assert (found.positions.tolist(), found.messages.tolist()) == ([5], [3])
    assert batch_queue().some(0, 5).positions.tolist() == [0, 4, 5]
    assert batch_queue().some(9, 5).positions.tolist() == [8]
    assert len(batch_queue().some(10, 5)) == 0
    found = queue().some(0, 5)
    assert [len(column) for column in astuple(found)] == [0] * 5
    assert (queue().file_end(0), queue().end_within(100)) == (0, 0)
    found = queue(*FILES).some(10, 5)
    part = found.part(found.positions != 11)
    assert part.positions.tolist() == [10, 12, 13, 14]
    assert part.places.tolist() == [1000, 1200, 1300, 1400]
    # Entry n is of the record in [100 n, 100 n + 100).
    for limit, end in [(9999, 18), (1800, 18), (1799, 17), (1600, 16), (1500, 15), (1499, 14),
        (1100, 11), (1099, 10), (0, 10)]:  # fmt: skip
        assert queue(*FILES).end_within(limit) == end
    for limit, end in [(400, 10), (399, 8), (299, 5), (100, 4), (99, 0)]:
        assert batch_queue().end_within(limit) == end
    made = queue((0, BLANK * 2 + entries(2, 5)))
    assert made.end_within(399) == 3
    made = queue(*FILES)
    assert [made.file_end(n) for n in (10, 14, 15, 99)] == [15, 15, 20, 20]
    assert batch_queue().file_end(0) == 10
    storage = WatchedStorage(queue_of(*FILES).files)
    made = QueueSlices(Folder(storage, QUEUE))
    for first in (10, 12, 15, 16):
        made.some(first, 1)
    assert (len(storage.opened), storage.closed) == (2, storage.opened[:1])
    made.close()
    made.close()
    assert storage.closed == storage.opened
    assert made.some(10, 1).positions.tolist() == [10]
