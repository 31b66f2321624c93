"""The files of an export, batch by batch: Parquet in row groups, or a JSON line a message."""

import hashlib
import io
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from reput.udfs.table import export
from reput.udfs.table.columns import EVERYTHING, SCHEMA, Choice, batches_of
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of, part

MESSAGES = [
    Message(topic="é", queue_offset=n, body=bytes([n, 255]), store_timestamp=1_700_000_000_123 + n,
            born_timestamp=-1, properties=properties(("TAGS", "\"\n"), ("x", "é")) if n else b"")
    for n in range(3)
]  # fmt: skip


def batch(columns: pa.Schema = SCHEMA) -> pa.RecordBatch:
    log = log_of(MESSAGES)
    (made,) = batches_of(log, part(log), EVERYTHING, columns)
    return made


def written(kind: str, *batches: pa.RecordBatch, columns: pa.Schema = SCHEMA) -> bytes:
    storage = MemoryStorage()
    file = export.new_file(kind, storage, "out", columns)
    for each in batches:
        file.add(each)
    done = file.finish()
    raw = storage.files["out"]
    assert (done.length, done.sha256) == (len(raw), hashlib.sha256(raw).hexdigest())
    return raw


def test_parquet_has_the_rows_and_only_columns_that_readers_search_by_have_statistics() -> None:
    raw = written(export.PARQUET, batch(), batch())
    assert pq.read_table(io.BytesIO(raw)).to_pylist() == batch().to_pylist() * 2
    group = pq.ParquetFile(io.BytesIO(raw)).metadata.row_group(0)
    told = {group.column(n).path_in_schema for n in range(group.num_columns)
            if group.column(n).statistics is not None}  # fmt: skip
    assert told == {
        "topic", "queueId", "queueOffset", "physicalOffset", "size", "storeTimestamp",
        "storeTimestampMillis", "bornTimestamp", "bornTimestampMillis",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "most", "groups"),
    [("_ROWS_A_GROUP", 6, [6, 3]), ("_ROWS_A_GROUP", 7, [9]), ("_BYTES_A_GROUP", 1, [3, 3, 3])],
)
def test_a_row_group_is_written_once_it_is_full(monkeypatch, limit, most, groups) -> None:
    monkeypatch.setattr(export, limit, most)
    meta = pq.ParquetFile(io.BytesIO(written(export.PARQUET, batch(), batch(), batch()))).metadata
    assert [meta.row_group(n).num_rows for n in range(meta.num_row_groups)] == groups


@pytest.mark.parametrize("kind", [export.PARQUET, export.JSONL])
def test_an_export_without_messages_is_a_file_and_an_abandoned_one_is_none(kind: str) -> None:
    raw = written(kind)
    assert (raw == b"") == (kind == export.JSONL)
    storage: Any = MemoryStorage()
    file = export.new_file(kind, storage, "out", SCHEMA)
    file.add(batch())
    file.abandon()
    assert storage.files == {}


# --- Parts of a log as files of an export, with sums by which files and log are compared.
FIRST = -(1 << 63)
MESSAGES_EXPORT = [
    Message("TBW102" if n == 2 else "T", queue_offset=n, body=b"%d" % n) for n in range(5)
]
CRCS = [zlib.crc32(b"%d" % n) & 0x7FFFFFFF for n in range(5)]


def chosen(
    choice: Choice = EVERYTHING, messages: list[Message] = MESSAGES_EXPORT, **more: Any
) -> Any:
    log = log_of(messages)
    parts = part(log, 0, 0, 186), part(log, 0, 186, 284), part(log, 0, 284)
    return export.ChosenMessages(log, parts, choice, None, SCHEMA, **more)


def batch_of(places: list[int], crcs: list[int], sizes: list[int]) -> pa.RecordBatch:
    columns = [np.array(places, np.int64), np.array(crcs, np.int32), np.array(sizes, np.int32)]
    return pa.RecordBatch.from_arrays(columns, names=["physicalOffset", "bodyCRC", "size"])


def test_a_part_says_what_it_leaves_out_and_sums_do_not_depend_on_how_they_are_cut() -> None:
    task = export.CountLeft(chosen(system_topics=False))
    ids = pa.RecordBatch.from_pydict({"id": [0, 1, 2]})
    found = pa.Table.from_batches(task(iter([ids])), task.columns)
    assert found[export.LEFT].to_pylist() == [None, None, 0, 1, None, None, 0]
    there = found.filter(pc.is_null(found[export.LEFT])).drop_columns(export.LEFT)
    messages = chosen(system_topics=False)(iter([ids]))
    assert there.equals(pa.Table.from_batches(messages, SCHEMA))
    nothing = [name for name in found.column_names if found[name].null_count == 7]
    assert nothing == ["tags", "uniqueKey"]  # of these messages; what may not be null is not
    most = (1 << 63) - 1
    whole = export.MessageSums()
    whole.add(batch_of([most, 1, 5], [0x7FFFFFFF] * 3, [7, 8, 0x7FFFFFFF]))
    assert whole.places == FIRST + 5
    assert (whole.crcs, whole.sizes) == (3 * 0x7FFFFFFF, 15 + 0x7FFFFFFF)
    cut = export.MessageSums()
    for n, place in enumerate((most, 1, 5)):
        cut.add(batch_of([place], [0x7FFFFFFF], [(7, 8, 0x7FFFFFFF)[n]]))
        cut.join(export.MessageSums())
    assert (cut, cut.first, cut.last) == (whole, 1, most)
    cut.add(batch_of([0], [1], [1]))
    cut.add(batch_of([9], [1], [1]))
    assert cut.first == 0
    (row,) = export.sum_up(iter([batch_of([most], [1], [7]), batch_of([], [], []),
                          batch_of([1], [1], [8])]))  # fmt: skip
    assert (row.schema, row["places"].to_pylist()) == (export.SUMMED, [FIRST])


def compressed(body: bytes, flags: int, text: bytes = b"") -> Message:
    return Message(body=text or zlib.compress(body), sys_flag=flags)


def test_bodies_are_unpacked_with_flags_and_crc_and_a_wrong_crc_is_named() -> None:
    messages = [
        compressed(b"text", 0x301), compressed(b"x" * 9, 0x1), compressed(b"", 0x1, b"no zlib"),
        Message(body=b"plain", sys_flag=0x308), compressed(b"", 0x401),
    ]  # fmt: skip
    (batch,) = export.ChosenMessages(
        log := log_of(messages), (part(log),), EVERYTHING, None, SCHEMA
    )(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    made = export.decompress(batch, 8)
    assert made.schema == batch.schema
    assert made["body"].to_pylist() == [b"text", *batch["body"].to_pylist()[1:]]
    assert made["sysFlag"].to_pylist() == [0, 0x1, 0x1, 0x308, 0x401]
    assert made["bodyCRC"][0].as_py() == zlib.crc32(b"text") & 0x7FFFFFFF
    assert export.decompress(batch, 9)["body"][1].as_py() == b"x" * 9
    assert export.decompress(batch.drop_columns(["body"]), 8).equals(batch.drop_columns(["body"]))
    crcs, bodies = [CRCS[3], CRCS[3] ^ 1, 5], [b"3", b"3", b""]
    rows = pa.table({"physicalOffset": [7, 8, 9], "bodyCRC": crcs, "body": bodies})
    (wrong,) = export.compare_bodies(
        "file", iter([*rows.slice(0, 1).to_batches(), *rows.to_batches()])
    )
    assert wrong["line"].to_pylist() == ["file: message at 8: bodyCRC does not match the body"]
