"""The files of an export read back: rows as a table has them, whatever form they are in."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reput.jobs.exporting.read_back import UNREADABLE, batches_in
from reput.store_format.files.folder import Folder
from tests.memory_storage import WatchedStorage


def read(name: str, content: bytes) -> list[dict[str, Any]]:
    """The rows of an export of one file, which is closed at the end, however that comes."""
    storage = WatchedStorage({f"out/{name}": content})
    try:
        ((path, batches),) = batches_in(Folder(storage, "out"), {"files": [{"path": name}]})
        assert path == f"out/{name}"
        return [row for batch in batches for row in batch.to_pylist()]
    finally:
        assert storage.closed == storage.opened


def line(**fields: Any) -> bytes:
    return json.dumps({"topic": "T", "storeTimestamp": 7, **fields}).encode()


def test_files_come_in_the_manifest_s_order_and_are_opened_one_by_one() -> None:
    storage = WatchedStorage({"out/b.jsonl": line() + b"\n", "out/a.jsonl": line() + b"\n"})
    manifest = {"files": [{"path": "b.jsonl"}, {"path": "a.jsonl"}]}
    for path, batches in batches_in(Folder(storage, "out"), manifest):
        assert sum(map(len, batches)) == 1
        assert (storage.opened[-1], storage.open_now) == (path, 0)
    assert storage.opened == ["out/b.jsonl", "out/a.jsonl"]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_longer_than_what_is_read_at_once_are_whole(end: bytes) -> None:
    lengths = [10, (1 << 20) + 1, 3 << 19, 0]
    raw = b"\n".join(line(tags="x" * length, queueId=n) for n, length in enumerate(lengths))
    rows = read("a.jsonl", raw + end)
    assert [(row["queueId"], len(row["tags"])) for row in rows] == list(enumerate(lengths))


def test_a_line_that_no_export_writes_is_an_error_that_a_caller_knows() -> None:
    for raw in (
        b"{", b"[]\n", b"7\n", b"\n", line(bodyBase64="=="), line(bodyBase64="YQ==!"),
        line(queueId=1 << 31), line(queueOffset="x"), line(properties=[1]), b"\xff\xfe",
    ):  # fmt: skip
        with pytest.raises(UNREADABLE):
            read("a.jsonl", raw + b"\n" + line())


def test_of_parquet_only_the_columns_of_messages_are_read() -> None:
    table = pa.table({
        "storeTimestamp": pa.array([1], pa.timestamp("us", "UTC")),
        "queueOffset": pa.array([3], pa.int64()), "added": ["x"], "topic": ["T"],
    })  # fmt: skip
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    whole = sink.getvalue().to_pybytes()
    assert read("a.parquet", whole) == [{"queueOffset": 3, "topic": "T"}]
    with pytest.raises(UNREADABLE):
        read("a.parquet", whole[:-4])
