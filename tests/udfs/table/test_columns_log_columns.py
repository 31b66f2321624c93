"""A window's rows as columns: what docs/source.md promises of each, for plain and odd records."""

import zlib
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.udfs.table import log_parts
from reput.udfs.table.columns import COLUMNS, SCHEMA, TIME_LEAST, TIME_MOST, StepRows, batch_of
from tests.logs.encoder import Message, encode, properties
from tests.udfs.table.parts import log_of, part

V6 = bytes([0x20, 1, 0xD, 0xB8, *[0] * 11, 1, 0, 0, 0x2A, 0x9F])
ODD = Message(
    topic="é", queue_id=-1, queue_offset=1 << 40, body=b"body", flag=-5, sys_flag=0x10 | 0x8,
    born_host=V6, born_timestamp=-1, store_timestamp=1_700_000_000_123, reconsume_times=3,
    prepared_transaction_offset=77,
    properties=properties(("TAGS", "a||b"), ("KEYS", " k1  k2 k1"), ("UNIQ_KEY", "u"), ("n", "v")),
)  # fmt: skip


def rows_of(
    *messages: Message, chosen: list[int] | None = None, version: str = "5.3.3"
) -> StepRows:
    log = log_of(list(messages), version=version)
    step = next(log.steps(part(log)))
    numbers = None if chosen is None else np.array(chosen, np.int64)
    return StepRows(step, numbers, log.rules.records, log.rules.dispatch.split_properties, log.body)


def column(name: str, *messages: Message, **more: Any) -> list[Any]:
    made: list[Any] = rows_of(*messages, **more).column(name).to_pylist()
    return made


def test_a_record_with_everything() -> None:
    (row,) = batch_of(rows_of(Message(), ODD, chosen=[1]), SCHEMA).to_pylist()
    assert row == {
        "topic": "é", "queueId": -1, "queueOffset": 1 << 40, "physicalOffset": 92,
        "storeTimestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "storeTimestampMillis": 1_700_000_000_123,
        "bornTimestamp": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
        "bornTimestampMillis": -1, "storeHost": "127.0.0.1:10911",
        "bornHost": "[2001:db8::1]:10911", "tags": "a||b", "keys": ["k1", "k2", "k1"],
        "uniqueKey": "u", "flag": -5, "sysFlag": 0x18, "reconsumeTimes": 3,
        "preparedTransactionOffset": 77, "bodyCRC": zlib.crc32(b"body") & 0x7FFFFFFF,
        "size": len(encode(ODD, 92)), "body": b"body",
        "properties": [("TAGS", "a||b"), ("KEYS", " k1  k2 k1"), ("UNIQ_KEY", "u"), ("n", "v")],
    }  # fmt: skip


def test_a_record_with_nothing() -> None:
    (row,) = batch_of(rows_of(Message()), SCHEMA).to_pylist()
    absent = ("tags", "uniqueKey", "keys", "properties", "body", "bodyCRC")
    assert [row[name] for name in absent] == [None, None, [], [], b"", 0]


@pytest.mark.parametrize("name", ["storeTimestamp", "bornTimestamp"])
def test_a_time_before_year_1_or_after_9999_is_null_and_its_number_stays(name: str) -> None:
    times = [TIME_LEAST - 1, TIME_LEAST, 0, TIME_MOST, TIME_MOST + 1, -(1 << 63), (1 << 63) - 1]
    messages = [Message(store_timestamp=time, born_timestamp=time) for time in times]
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert column(name, *messages) == [None, first, epoch, last, None, None, None]
    assert column(f"{name}Millis", *messages) == times


def test_odd_rows_stand_where_they_stood_among_plain_ones() -> None:
    twice = Message(properties=properties(("a", "1"), ("b", "2"), ("a", "3")))
    many = Message(properties=properties(*((f"n{n}", f"v{n}") for n in range(100))))
    plain = [Message(properties=properties(("p", str(n)))) for n in range(3)]
    found = column("properties", plain[0], twice, plain[1], many, plain[2])
    assert found[::2] == [[("p", "0")], [("p", "1")], [("p", "2")]]
    assert found[1] == [("a", "3"), ("b", "2")]
    assert found[3] == [(f"n{n}", f"v{n}") for n in range(100)]
    assert column("tags", *plain[:1], ODD, ODD, *plain[:2]) == [None, "a||b", "a||b", None, None]
    hosts = column("bornHost", Message(), ODD, Message(), ODD)
    assert hosts == ["127.0.0.1:10911", "[2001:db8::1]:10911"] * 2


@pytest.mark.parametrize(("version", "tags"), [("4.9.0", None), ("4.9.1", "a\1b")])
def test_properties_are_split_as_the_release_splits_them(version: str, tags: str | None) -> None:
    message = Message(properties=b"TAGS\1a\1b\2")
    assert column("tags", message, version=version) == [tags]
    assert column("properties", message, version=version) == [[("TAGS", tags)] if tags else []]


def test_bodies_of_any_length_are_whole() -> None:
    bodies = [bytes(range(length)) for length in (31, 0, 32, 33, 1, 63, 64, 65, 200)]
    assert column("body", *(Message(body=each) for each in bodies)) == bodies


def test_a_body_longer_than_a_window_is_read_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parts, "WINDOW_BYTES", 512)
    body = bytes(range(256)) * 4
    log = log_of([Message(body=b"first"), Message(body=body), Message(body=b"last")])
    found = [
        StepRows(step, None, log.rules.records, True, log.body).column("body").to_pylist()
        for step in log.steps(part(log))
    ]
    assert [each for some in found for each in some] == [b"first", body, b"last"]


def test_a_batch_has_the_columns_that_are_asked_for_in_their_types() -> None:
    asked = pa.schema([("size", pa.int64()), ("topic", pa.large_string()), ("queueId", pa.int32())])
    batch = batch_of(rows_of(Message(), ODD), asked)
    assert batch.schema == asked
    assert batch["topic"].to_pylist() == ["T", "é"]
    assert batch_of(rows_of(Message(), chosen=[]), SCHEMA).num_rows == 0
    assert [each.field.name for each in COLUMNS] == SCHEMA.names
