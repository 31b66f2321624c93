"""The files of an export, batch by batch: Parquet in row groups, or a JSON line a message."""

import hashlib
import io
import json
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from reput.store_format.faults import DamageFound
from reput.udfs.staging import Staging
from reput.udfs.table import export
from reput.udfs.table.columns import EVERYTHING, SCHEMA, Choice, batches_of
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage
from tests.udfs.table.parts import log_of, part
from tests.udfs.tables import rows_of

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


def test_a_line_of_json_has_times_in_milliseconds_and_the_body_as_base64() -> None:
    lines = written(export.JSONL, batch()).decode().split("\n")
    assert lines.pop() == ""
    first, second, _ = (json.loads(line) for line in lines)
    timestamps = {name: first[name] for name in first if "imestamp" in name}
    assert timestamps == {"storeTimestamp": 1_700_000_000_123, "bornTimestamp": -1}
    assert [row["bodyBase64"] for row in (first, second)] == ["AP8=", "Af8="]
    assert (first["tags"], first["properties"], first["keys"]) == (None, {}, [])
    assert second["properties"] == {"TAGS": '"\n', "x": "é"}
    assert '"topic":"é"' in lines[0]
    wanted = [name for name in SCHEMA.names if not name.endswith("Millis")]
    assert sorted(first) == sorted([*wanted[:-1], "bodyBase64"])
    columns = pa.schema([each for each in SCHEMA if each.name != "body"])
    few = batch(columns)
    (row, *_) = written(export.JSONL, few, columns=columns).decode().splitlines()
    assert [name for name in json.loads(row) if name.startswith("body")] == ["bodyCRC"]
    assert pq.read_table(
        io.BytesIO(written(export.PARQUET, few, columns=columns))
    ).schema.names == (columns.names)


@pytest.mark.parametrize("kind", [export.PARQUET, export.JSONL])
def test_an_export_without_messages_is_a_file_and_an_abandoned_one_is_none(kind: str) -> None:
    raw = written(kind)
    assert (raw == b"") == (kind == export.JSONL)
    storage: Any = MemoryStorage()
    file = export.new_file(kind, storage, "out", SCHEMA)
    file.add(batch())
    file.abandon()
    assert storage.files == {}


# --- Parts of a log as files of an export, with sums by which the files are compared with the
# log.
FIRST = -(1 << 63)
MESSAGES_EXPORT = [
    Message("TBW102" if n == 2 else "T", queue_offset=n, body=b"%d" % n) for n in range(5)
]
SIZE = 93  # of each record in T; 5 more in TBW102
PLACES = [0, 93, 186, 284, 377]
CRCS = [zlib.crc32(b"%d" % n) & 0x7FFFFFFF for n in range(5)]


def chosen(
    choice: Choice = EVERYTHING, messages: list[Message] = MESSAGES_EXPORT, **more: Any
) -> Any:
    log = log_of(messages)
    parts = part(log, 0, 0, 186), part(log, 0, 186, 284), part(log, 0, 284)
    return export.ChosenMessages(log, parts, choice, None, SCHEMA, **more)


def exported(
    messages: export.ChosenMessages, kind: str = "parquet"
) -> tuple[list[Any], MemoryStorage]:
    storage = MemoryStorage()
    task = export.ExportParts(messages, kind, Staging(storage, "s"))
    return rows_of(task, 0, 1, 2, schema=export.EXPORTED), storage


def batch_of(places: list[int], crcs: list[int], sizes: list[int]) -> pa.RecordBatch:
    columns = [np.array(places, np.int64), np.array(crcs, np.int32), np.array(sizes, np.int32)]
    return pa.RecordBatch.from_arrays(columns, names=["physicalOffset", "bodyCRC", "size"])


def test_a_part_has_a_file_and_sums_of_its_messages_sums_alone_and_failures_leave_none() -> None:
    rows, storage = exported(chosen(system_topics=False))
    names = ("messages", "places", "crcs", "sizes", "first", "last", "end", "system")
    assert [[row[name] for name in names] for row in rows] == [
        [2, 93, CRCS[0] + CRCS[1], 2 * SIZE, 0, 93, 186, 0],
        [0, 0, 0, 0, -1, -1, 284, 1],
        [2, 284 + 377, CRCS[3] + CRCS[4], 2 * SIZE, 284, 377, 470, 0],
    ]
    assert [row["name"] == "" for row in rows] == [False, True, False]
    bodies = [pq.read_table(io.BytesIO(storage.files[f"s/{rows[n]['name']}"]))["body"].to_pylist()
              for n in (0, 2)]  # fmt: skip
    assert bodies == [[b"0", b"1"], [b"3", b"4"]]
    assert len(storage.files) == 2
    rows, storage = exported(chosen(), "")
    assert ([row["messages"] for row in rows], storage.files) == ([2, 1, 2], {})
    messages = chosen()
    raw = bytearray(messages.log.storage.files["log/0"])
    raw[PLACES[1] + 4] ^= 1
    messages.log.storage.files["log/0"] = bytes(raw)
    storage = MemoryStorage()
    with pytest.raises(DamageFound):
        rows_of(export.ExportParts(messages, "parquet", Staging(storage, "s")), 0)
    assert storage.files == {}


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
    batches = [
        pa.RecordBatch.from_pydict(
            {"physicalOffset": [7, 8, 9][:n], "bodyCRC": crcs[:n], "body": bodies[:n]}
        )
        for n in (1, 3)
    ]
    (wrong,) = export.compare_bodies("file", iter(batches))
    assert wrong["line"].to_pylist() == ["file: message at 8: bodyCRC does not match the body"]
