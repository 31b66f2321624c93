"""Tables of queues in RocksDB: keys and values of docs/formats/rocksdb.md, range by range."""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.dispatch.scan import place_rules
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild import carried
from reput.udfs.rebuild.carried import carrying
from reput.udfs.rebuild.rocksdb_queues import CARRYING, SHARED, TABLE, BuildTables, RangeStart
from reput.udfs.rebuild.runs import StagedRuns
from reput.udfs.staging import ENTRIES, RUN, Staging
from tests.memory_storage import MemoryStorage
from tests.udfs.tables import rows_in

Row = dict[str, Any]
SIZE, TAG, TIME = 353, 65, 0x1A20E367A22


def key(position: int, topic: bytes = b"T", queue: int = 0) -> bytes:
    head = struct.pack(">i", len(topic)) + b"\1" + topic + b"\1" + struct.pack(">i", queue)
    return head + b"\1" + struct.pack(">q", position)


def cut(position: int, topic: bytes = b"T", queue: int = 0) -> RangeStart:
    return RangeStart(key(0, topic, queue)[:-8], position)


@pytest.fixture(autouse=True, params=[-1, 70, 1 << 14])  # none, those of two entries, all
def _up_to_how_many_bytes_runs_carry(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carried, "CARRIED_BYTES", request.param)


class Job:
    """Runs in staging, each of records with these queueOffsets at these places."""

    def __init__(self) -> None:
        self.storage, self.content, self.rows = MemoryStorage(), bytearray(), list[Row]()

    def run(self, offsets: list[int], places: list[int], topic: str = "T", queue: int = 0,
            **more: int) -> "Job":  # fmt: skip
        entries_at, count = len(self.content), len(offsets)
        for place in places:
            self.content += struct.pack(">qiq", place, SIZE, TAG)
        times_at = len(self.content)
        self.content += struct.pack(f"={count}q", *[TIME] * count)
        listed = offsets != list(range(offsets[0], offsets[0] + count))
        offsets_at = len(self.content) if listed else -1
        self.content += struct.pack(f"={count}q", *offsets)
        self.rows.append({
            "topic": topic, "queue_id": queue, "batch": False, "split": 0, "part": 0,
            "entries_at": entries_at, "count": count, "offsets_at": offsets_at,
            "first": offsets[0], "greatest": max(offsets), "times_at": times_at, "range": 0, **more,
        })  # fmt: skip
        return self

    def build(self, *cuts: RangeStart) -> list[Row]:
        self.storage.files[f"s/a{ENTRIES}"] = bytes(self.content)
        rules = place_rules(profile("5.5.0"))
        files = StagedRuns(Staging(self.storage, "s"), {0: "a"}, rules, 100, 46)
        batches = []
        for row in self.rows:
            rows, schema = pa.RecordBatch.from_pylist([row], RUN), SHARED
            if carried.CARRIED_BYTES >= 0:
                rows, schema = carrying(files, rows, timed=True), CARRYING
            arrays = [*rows.columns, pa.array([row["range"]], pa.int64())]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        made = list(BuildTables(files, cuts)(iter(batches)))
        assert all(batch.schema == TABLE for batch in made)
        return [row for batch in made for row in batch.to_pylist()]

    def tables(self, folder: Path) -> dict[bytes, int]:
        """The places of all rows, by key."""
        files = {name[2:]: raw for name, raw in self.storage.files.items() if "table-" in name}
        rows = rows_in(files, folder)
        assert all(value[8:] == struct.pack(">iqq", SIZE, TAG, TIME) for _, value in rows)
        return {key: int.from_bytes(value[:8], "big") for key, value in rows}


def test_a_row_is_that_of_the_page(tmp_path: Path) -> None:
    job = Job().run([5], [19330], "Live0")
    (row,) = job.build()
    assert job.tables(tmp_path) == {
        bytes.fromhex("00000005 01 4c69766530 01 00000000 01 0000000000000005"): 19330
    }
    name = f"s/{row.pop('name')}"
    assert name in job.storage.files
    assert row == {"topic": "Live0", "queue_id": 0, "entries": 1, "place": 19330, "position": 5,
                   "end": 19330 + SIZE, "replaced": 0, "named": []}  # fmt: skip


def test_what_the_log_lacks_is_a_hole_and_of_two_records_the_later_one_stays(tmp_path) -> None:
    job = Job().run([7, 3, 4], [900, 1000, 1100], part=1).run([3, 5], [100, 200])
    (row,) = job.build()
    assert job.tables(tmp_path) == {key(3): 1000, key(4): 1100, key(5): 200, key(7): 900}
    assert (row["entries"], row["place"], row["position"]) == (4, 1100, 4)
    assert (row["replaced"], row["named"]) == (1, [3, 100, 1000])


@pytest.mark.parametrize(("start", "stop", "found"), [
    (cut(2), cut(4), [(0, 2, 103)]), (cut(0), cut(2), [(0, 2, 101)]),
    (cut(4), cut(0, queue=1), [(0, 1, 104)]), (cut(2), cut(1, queue=1), [(0, 3, 104), (1, 1, 200)]),
    (cut(4, queue=0), cut(0, b"TT"), [(0, 1, 104), (1, 2, 201)]), (cut(5), cut(0, queue=1), []),
])  # fmt: skip
def test_a_range_has_the_entries_from_its_start_to_before_the_next(start, stop, found) -> None:
    job = Job().run(list(range(5)), [100, 101, 102, 103, 104], range=1)
    if len(found) == 2:
        job.run([0, 1], [200, 201], queue=1, range=1)
    rows = job.build(start, stop)
    assert [(row["queue_id"], row["entries"], row["place"]) for row in rows] == found
    assert bool(rows) == any("table-" in name for name in job.storage.files)
