"""Items of many runs: read from entries files with few reads, or carried in the runs."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.dispatch.scan import place_rules
from reput.store_format.files.protocol import Bytes, FileState
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild import carried as module
from reput.udfs.rebuild.carried import carrying, joined, read_runs, run_items
from reput.udfs.rebuild.runs import StagedRuns
from reput.udfs.staging import CARRIED, RUN, Staging
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


def staged_in(storage: Storage) -> StagedRuns:
    staging, rules = Staging(storage, "staging"), place_rules(profile("5.3.3"))
    return StagedRuns(staging, {0: "a", 3: "b"}, rules, 100, 46)


def read(storage: Storage, runs: list[tuple[int, int, int]], size: int) -> list[bytes]:
    """runs: (split, offset, items)"""
    files = staged_in(storage)
    split, at, count = (np.array(column, np.int64) for column in zip(*runs, strict=True))
    return [row.tobytes() for row in read_runs(files, split, at, count, size)]


@pytest.mark.parametrize(("gap", "reads"), [
    (0, [("a.entries", 8, 16)]), (1024, [("a.entries", 8, 16 + 1024)]),
    (1025, [("a.entries", 8, 8), ("a.entries", 16 + 1025, 8)]),
])  # fmt: skip
def test_a_gap_of_up_to_1024_bytes_is_read_too(gap: int, reads: list[tuple[str, int, int]]) -> None:
    storage = Storage()
    second = 16 + gap
    assert read(storage, [(0, second, 1), (0, 8, 1)], 8) == [FILE[second:][:8], FILE[8:16]]
    assert storage.reads == reads


def row(at: int, count: int, first: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "topic": "T", "queue_id": 1, "batch": False, "split": 0, "part": 0, "entries_at": at,
        "count": count, "offsets_at": -1, "first": first, "greatest": first + count - 1,
        "times_at": -1, **more,
    }  # fmt: skip


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), RUN)


@pytest.mark.parametrize(("gap", "reads"), [
    (1 << 18, [("a.entries", 0, 1074)]), (10, [("a.entries", 0, 60), ("a.entries", 1000, 74)]),
    (39, [("a.entries", 0, 60), ("a.entries", 1000, 74)]),
])  # fmt: skip
def test_short_runs_carry_what_one_read_brings(monkeypatch, gap, reads) -> None:
    monkeypatch.setattr(module, "_GAP_IN_CARRIED", gap)
    monkeypatch.setattr(module, "CARRIED_BYTES", 60)
    storage = Storage()
    files = staged_in(storage)
    rows = [row(0, 2), row(60, 4, queue_id=2), row(1000, 1, first=5), row(1020, 1, batch=True),
            row(40, 1, offsets_at=2000)]  # fmt: skip
    rows[4]["offsets_at"] = 1066
    found = carrying(files, batch_of(*rows))
    assert found.schema.equals(CARRIED)
    assert storage.reads == reads
    carried = found.to_pylist()
    assert [each["carried"] is None for each in carried] == [False, True, False, False, False]
    for plain, each in zip(rows, carried, strict=True):
        for start, stop in ((0, plain["count"]), (0, 1)):
            alike = files.entries(each, start, stop).tobytes() == files.entries(
                plain, start, stop
            ).tobytes()  # fmt: skip
            assert alike
        assert files.offsets(each).tolist() == files.offsets(plain).tolist()
    assert (run_items(files, found.slice(0, 3), "entries_at", 20).tobytes()
            == FILE[:40] + FILE[60:140] + FILE[1000:1020])  # fmt: skip


def test_runs_that_follow_each_other_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CARRIED_BYTES", 60)
    monkeypatch.setattr(module, "JOINED_BYTES", 160)
    rows = [
        row(0, 2, 5), row(40, 1, 7), row(60, 3, 8),
        row(120, 1, 12),  # does not go on
        row(140, 1, 13, queue_id=2),  # another queue
        row(160, 2, 14, queue_id=2), row(200, 1, 16, queue_id=2),  # from byte 160 on another piece
        row(220, 4, 17, queue_id=2), row(300, 1, 21, queue_id=2),  # the first carries nothing
        row(320, 1, 22, queue_id=2, batch=True), row(366, 1, 23, queue_id=2, batch=True),
        row(412, 1, 24, queue_id=2, offsets_at=440),
    ]  # fmt: skip
    files = staged_in(storage := Storage())
    (found,) = joined(iter([carrying(files, batch_of(*rows))]))
    ones = [(each["first"], each["count"], each["greatest"]) for each in found.to_pylist()]
    assert ones == [
        (5, 6, 10), (12, 1, 12), (13, 1, 13), (14, 3, 16), (17, 4, 20), (21, 1, 21), (22, 1, 22),
        (23, 1, 23), (24, 1, 24),
    ]  # fmt: skip
    storage.reads.clear()
    there = b"".join(files.entries(each, 0, each["count"]).tobytes() for each in found.to_pylist())
    assert there == FILE[:432]
    assert storage.reads == [("a.entries", 220, 80)]  # of the one that carries nothing
