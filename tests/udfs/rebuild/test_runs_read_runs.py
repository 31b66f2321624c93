"""Items of many runs, read from the splits' entries files with few reads."""

import numpy as np
import pytest

from reput.store_format.dispatch.scan import place_rules
from reput.store_format.files.protocol import Bytes, FileState
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild.runs import StagedRuns, read_runs
from reput.udfs.staging import Staging
from tests.memory_storage import MemoryReader, MemoryStorage

FILE = bytes(range(256)) * 16
OTHER = FILE[::-1]


class Reader(MemoryReader):
    reads: list[tuple[str, int, int]]

    def read_into(self, offset: int, buffer: Bytes) -> None:
        self.reads.append((self.path[-9:], offset, len(buffer)))
        super().read_into(offset, buffer)


class Storage(MemoryStorage):
    """Notes (file, offset, bytes) of each read."""

    def __init__(self) -> None:
        super().__init__({"staging/a.entries": FILE, "staging/b.entries": OTHER})
        self.reads: list[tuple[str, int, int]] = []

    def open(self, path: str, state: FileState | None = None) -> MemoryReader:
        reader = Reader(path, self.read_bytes(path))
        reader.reads = self.reads
        return reader


def read(storage: Storage, runs: list[tuple[int, int, int]], size: int) -> list[bytes]:
    """runs: (split, offset, items)"""
    files = StagedRuns(
        Staging(storage, "staging"), {0: "a", 3: "b"}, place_rules(profile("5.3.3")), 100, 46
    )
    split, at, count = (np.array(column, np.int64) for column in zip(*runs, strict=True))
    return [row.tobytes() for row in read_runs(files, split, at, count, size)]


def test_items_come_in_the_order_of_the_runs_that_are_asked_for() -> None:
    runs = [(3, 40, 1), (0, 2000, 2), (3, 0, 2), (0, 7, 1), (0, 3000, 1)]
    assert read(Storage(), runs, 20) == [
        OTHER[40:60], FILE[2000:2020], FILE[2020:2040], OTHER[:20], OTHER[20:40], FILE[7:27],
        FILE[3000:3020],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gap", "reads"),
    [
        (0, [("a.entries", 8, 16)]),
        (1024, [("a.entries", 8, 16 + 1024)]),
        (1025, [("a.entries", 8, 8), ("a.entries", 16 + 1025, 8)]),
    ],
)
def test_a_gap_of_up_to_1024_bytes_is_read_too(gap: int, reads: list[tuple[str, int, int]]) -> None:
    storage = Storage()
    second = 16 + gap
    assert read(storage, [(0, second, 1), (0, 8, 1)], 8) == [FILE[second:][:8], FILE[8:16]]
    assert storage.reads == reads


def test_runs_of_two_splits_are_never_one_read() -> None:
    storage = Storage()
    assert read(storage, [(0, 0, 1), (3, 8, 1)], 8) == [FILE[:8], OTHER[8:16]]
    assert storage.reads == [("a.entries", 0, 8), ("b.entries", 8, 8)]


def test_nothing_past_the_last_item_is_read() -> None:
    assert read(Storage(), [(0, len(FILE) - 8, 1)], 8) == [FILE[-8:]]
