"""A table in staging: written on a local disk, wherever staging is, and only if it has a row."""

import struct
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.dispatch.scan import place_rules
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.profiles import profile
from reput.store_format.rocksdb.queues import queue_key
from reput.udfs.rebuild.rocksdb_queues import (
    COUNTED,
    SHARED,
    CountRuns,
    NewTable,
    RangeStart,
    ShareRuns,
    copy_in,
    cuts_of,
    merge_counts,
    queue_keys,
)
from reput.udfs.rebuild.runs import StagedRuns
from reput.udfs.staging import RUN, Staging
from tests.memory_storage import MemoryStorage
from tests.udfs.tables import rows_in

ROWS = [(b"a", b"1"), (b"b", b""), (b"c", b"3")]


def write(table: NewTable) -> str:
    with table:
        table.put_rows([b"a", b"b"], [b"1", b""])
        table.put_rows([b"c"], [b"3"])
        table.finish()
    return table.name


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_where_staging_is_no_local_folder_the_table_is_copied_in(tmp_path, temporary: Path) -> None:
    storage = MemoryStorage()
    name = write(NewTable(Staging(storage, "staging")))
    assert list(storage.files) == [f"staging/{name}"]
    assert rows_in({name: storage.files[f"staging/{name}"]}, tmp_path) == ROWS
    assert list(temporary.iterdir()) == []


def test_on_a_local_disk_it_is_written_where_it_stays(tmp_path: Path, temporary: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    name = write(NewTable(Staging(LocalStorage(), str(staging))))
    assert [path.name for path in staging.iterdir()] == [name]
    assert rows_in({name: (staging / name).read_bytes()}, tmp_path) == ROWS
    assert list(temporary.iterdir()) == []


def test_without_rows_there_is_no_table_and_what_fails_leaves_nothing_anywhere(temporary) -> None:
    storage = MemoryStorage()
    with NewTable(Staging(storage, "staging")) as table:
        table.finish()
    assert storage.files == {}
    storage = MemoryStorage()
    with NewTable(Staging(storage, "staging")) as table:
        with pytest.raises(StoreError, match="cannot be written"):
            table.put_rows([b"b", b"a"], [b"1", b"2"])
        assert len(list(temporary.iterdir())) == 1
    assert storage.files == {}
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_copy_has_all_bytes(tmp_path: Path, length: int) -> None:
    raw = (b"0123456789" * (length // 10 + 1))[:length]
    (tmp_path / "file").write_bytes(raw)
    storage = MemoryStorage()
    copy_in(Staging(storage, "staging"), str(tmp_path / "file"), "name")
    assert storage.files == {"staging/name": raw}


# --- Ranges of keys in RocksDB: which run reaches into which, with queueOffsets in unsigned
# order.
BIAS = 1 << 63
LISTED = [7, -1, 3]  # the queueOffsets of a run that has them one by one
FILES = StagedRuns(
    Staging(MemoryStorage({"staging/scan.entries": struct.pack("<3q", *LISTED)}), "staging"),
    {0: "scan", 1: "scan"}, place_rules(profile("5.5.0")), 100, 100,
)  # fmt: skip
Row = dict[str, Any]


def run(
    first: int, count: int, topic: str = "T", queue: int = 0, part: int = 0, at: int = -1
) -> Row:
    row = {**dict.fromkeys(RUN.names, 0), "batch": False, "topic": topic, "queue_id": queue}
    return {**row, "first": first, "count": count, "part": part, "offsets_at": at}


def batch(*rows: Row) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), RUN)


def counted(*batches: pa.RecordBatch) -> list[Row]:
    return [row for each in CountRuns(FILES)(iter(batches)) for row in each.to_pylist()]


@pytest.mark.parametrize(("first", "count", "least", "greatest"), [
    (5, 1, 5, 5), (5, 3, 5, 7), (-3, 2, (1 << 64) - 3, (1 << 64) - 2), (-1, 2, 0, (1 << 64) - 1),
    ((1 << 63) - 1, 2, (1 << 63) - 1, 1 << 63),
])  # fmt: skip
def test_a_negative_offset_sorts_behind_all_others(first, count, least, greatest) -> None:
    (row,) = counted(batch(run(first, count)))
    assert (row["least"] + BIAS, row["greatest"] + BIAS, row["entries"]) == (least, greatest, count)


def test_a_queue_s_runs_are_one_row_and_keys_go_by_the_topic_s_length() -> None:
    rows = counted(batch(run(5, 2), run(9, 1, queue=1)), batch(), batch(run(3, 4, part=1)))
    assert [(r["queue_id"], r["entries"], r["first"], r["part"]) for r in rows] == [
        (0, 6, 5, 0), (1, 1, 9, 0),
    ]  # fmt: skip
    assert [(r["least"] + BIAS, r["greatest"] + BIAS) for r in rows] == [(3, 6), (9, 9)]
    earlier, later = ({**rows[0], "split": n, "entries": n, "least": -n} for n in (1, 2))
    of_tasks = (pa.RecordBatch.from_pylist([each], COUNTED) for each in (earlier, later))
    (found,) = merge_counts(of_tasks)
    assert found.to_pylist() == [{**earlier, "entries": 3, "least": -2}]
    (row,) = counted(batch(run(0, 3, at=0)))
    assert (row["least"] + BIAS, row["greatest"] + BIAS) == (3, (1 << 64) - 1)
    assert set(COUNTED.names) == set(row)
    rows = batch(*(run(0, 1, topic, queue) for topic in ("B", "AA", "é") for queue in (0, 1, -1)))
    keys = queue_keys(rows)
    queues = zip(rows["topic"].to_pylist(), rows["queue_id"].to_pylist(), strict=True)
    assert keys == [queue_key(*each) for each in queues]
    assert keys == sorted(keys)


def queue(entries: int, number: int = 0, least: int = 0, greatest: int | None = None) -> Row:
    greatest = least + entries - 1 if greatest is None else greatest
    return {"topic": "T", "queue_id": number, "entries": entries, "least": least - BIAS,
            "greatest": greatest - BIAS}  # fmt: skip


@pytest.mark.parametrize(("queues", "ranges", "most", "whole", "cuts"), [
    ([], 4, 100, False, []), ([queue(10)], 1, 100, False, []),
    ([queue(10)], 2, 100, False, [(0, 5)]), ([queue(10)], 1, 4, False, [(0, 3), (0, 6)]),
    ([queue(10)], 1, 4, True, []), ([queue(10, least=100)], 2, 100, False, [(0, 105)]),
    ([queue(2, greatest=9)], 2, 100, False, [(0, 5)]),
    ([queue(4, n) for n in (1, 0)], 2, 100, False, [(1, 0)]),
    ([queue(1, n) for n in range(4)], 2, 100, False, [(2, 0)]),
    ([queue(1), queue(8, 1)], 3, 100, False, [(1, 0), (1, 2), (1, 5)]),
])  # fmt: skip
def test_ranges_have_about_as_many_entries_each(queues, ranges, most, whole, cuts) -> None:
    wanted = tuple(RangeStart(queue_key("T", number), position) for number, position in cuts)
    counted = pa.Table.from_pylist(queues, COUNTED)
    assert cuts_of(counted, ranges, most, whole) == wanted


CUTS = tuple(RangeStart(queue_key("T", n), at) for n, at in ((0, 5), (1, 0), (1, 1 << 63)))


@pytest.mark.parametrize(("row", "ranges"), [
    (run(0, 5), [0]), (run(0, 6), [0, 1]), (run(5, 9), [1]), (run(-1, 2), [0, 1]),
    (run(0, 1, queue=1), [2]), (run(0, 3, queue=1, at=0), [2, 3]),
    (run((1 << 63) - 1, 1, queue=1), [2]), (run((1 << 63) - 1, 2, queue=1), [2, 3]),
    (run(0, 1, topic="S"), [0]), (run(0, 1, queue=2), [3]),
])  # fmt: skip
def test_a_run_goes_to_each_range_that_it_reaches_into(row: Row, ranges: list[int]) -> None:
    shared = list(ShareRuns(FILES, CUTS)(iter([batch(), batch(row, run(0, 1))])))
    assert [each.schema for each in shared] == [SHARED]
    assert shared[0]["range"].to_pylist() == [*ranges, 0]
    assert shared[0]["first"].to_pylist() == [row["first"]] * len(ranges) + [0]
