"""A table of queues in RocksDB: where its keys begin, and what is copied or left of it in staging.

Rows are compared with a slow reader's in tests/jobs/deriving/test_rocksdb_reference.py.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.faults import StoreError
from reput.store_format.rocksdb.queues import queue_key
from reput.udfs.rebuild.rocksdb_queues import COUNTED, NewTable, RangeStart, copy_in, cuts_of
from reput.udfs.staging import Staging
from tests.memory_storage import MemoryStorage


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


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


# --- Ranges of keys in RocksDB, with queueOffsets in unsigned order.
BIAS = 1 << 63


def queue(entries: int, number: int = 0, least: int = 0, greatest: int | None = None
          ) -> dict[str, Any]:  # fmt: skip
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
