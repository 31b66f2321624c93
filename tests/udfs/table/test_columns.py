"""A part of a log as Arrow batches: the rows that a filter and a choice want, and what was left."""

import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.filter.filters import Filter
from reput.store_format.filter.rows import Match, Verdicts
from reput.store_format.log.record import Record
from reput.store_format.log.walk import Step
from reput.udfs.table import columns
from tests.logs.encoder import Message, encode, properties
from tests.udfs.table.parts import log_of, part

FEW = pa.schema([columns.SCHEMA.field(name) for name in ("topic", "queueOffset")])
TOPICS = ("A", "TBW102", "B", "rmq_sys_x", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys", "A",
          "SCHEDULE_TOPIC_XXXX", "a_rmq_sys_x")  # fmt: skip


@pytest.mark.parametrize(("choice", "kept", "own"), [
    (columns.EVERYTHING, [0, 2, 5, 6, 8], [4]),
    (columns.Choice(topics=("A", "rmq_sys_x")), [0, 6], [1]),
    (columns.Choice(topics=("TBW102",)), [], [1]), (columns.Choice(topics=("B",)), [2], [0]),
    (columns.Choice(topics=()), [], []),
])  # fmt: skip
def test_chosen_messages_of_brokers_own_topics_are_counted_and_left_out(choice, kept, own) -> None:
    log, left = log_of([Message(topic, queue_offset=n) for n, topic in enumerate(TOPICS)]), []
    batches = list(columns.batches_of(
        log, part(log), choice, FEW, system_topics=False, left=left.append
    ))  # fmt: skip
    assert all(batch.schema == FEW and batch.num_rows for batch in batches)
    assert [n for batch in batches for n in batch["queueOffset"].to_pylist()] == kept
    assert left == own


class EvenOnes(Filter):
    """Does not want 0, wants 1, and looks at the body and properties of all others."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, bytes]] = []

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        verdicts = np.full(len(step.rows), Match.ASK, np.uint8)
        verdicts[step.rows["queueOffset"] == 0] = Match.NO
        verdicts[step.rows["queueOffset"] == 1] = Match.YES
        return verdicts

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        self.asked.append((record.queue_offset, properties["n"], body()))
        return record.queue_offset % 2 == 0


def test_a_filter_is_asked_of_what_it_cannot_judge_by_its_marks() -> None:
    wanted = EvenOnes()
    log = log_of([
        Message(queue_offset=n, body=b"body %d" % n, properties=properties(("n", str(n))))
        for n in range(9)
    ])  # fmt: skip
    (batch,) = columns.batches_of(log, part(log), columns.EVERYTHING, FEW, wanted)
    assert batch["queueOffset"].to_pylist() == [1, 2, 4, 6, 8]
    assert wanted.asked == [(n, str(n), b"body %d" % n) for n in range(2, 9)]


# --- Which rows of a window are wanted: by topic and by time.
START = 1_700_000_000_000
TOPICS_LOG = ("A", "AB", "B", "A")
MESSAGES_LOG = [
    Message(topic, queue_id=n % 2, queue_offset=n, store_timestamp=START + n,
            properties=properties(("UNIQ_KEY", f"u{n}")) if n else b"")
    for n, topic in enumerate(TOPICS_LOG)
]  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> columns.StepRows:
    return rows_of(*MESSAGES_LOG)


@pytest.mark.parametrize(("choice", "numbers"), [
    (columns.EVERYTHING, None), (columns.Choice(topics=("A", "C")), [0, 3]),
    (columns.Choice(topics=()), []), (columns.Choice(pattern="A"), [0, 3]),
    (columns.Choice(pattern="A|B"), [0, 2, 3]),
    (columns.Choice(pattern="A.*", since=START + 1), [1, 3]),
    (columns.Choice(topics=("A",), pattern="B"), []), (columns.Choice(until=START + 2), [0, 1]),
    (columns.Choice(("A",), since=START + 1, until=START + 3), []),
    (columns.Choice(since=START + 1, until=START + 3), [1, 2]),
])  # fmt: skip
def test_wanted_rows(rows, choice, numbers) -> None:
    topics = ["A", "AB", "B"]
    assert columns.EVERYTHING.of_topics(topics) == topics
    assert columns.Choice(topics=("B", "A"), pattern="A|AB").of_topics(topics) == ["A"]
    found = choice.numbers(rows)
    assert (None if found is None else found.tolist()) == numbers


@pytest.mark.parametrize(("text", "pattern", "matches"), [
    ("orders", "order", False), ("orders", "orders", True), ("orders\n", "orders", False),
    ("b", "a|b", True), ("ab", "a|b", False), ("", "", True), ("ORDERS", "(?i)orders", True),
])  # fmt: skip
def test_a_pattern_matches_a_whole_topic(text: str, pattern: str, matches: bool) -> None:
    assert columns.whole_matches(pa.array([text]), pattern).to_pylist() == [matches]


@pytest.mark.parametrize("words", ["a(", "a)|(?:b"])
def test_words_that_are_no_pattern_are_an_error(words: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        columns.whole_matches(pa.array([""]), words)


# --- A window's rows as columns: what docs/source.md promises of each, for plain and odd records.
V6 = bytes([0x20, 1, 0xD, 0xB8, *[0] * 11, 1, 0, 0, 0x2A, 0x9F])
ODD = Message(
    topic="é", queue_id=-1, queue_offset=1 << 40, body=b"body", flag=-5, sys_flag=0x10 | 0x8,
    born_host=V6, born_timestamp=-1, store_timestamp=1_700_000_000_123, reconsume_times=3,
    prepared_transaction_offset=77,
    properties=properties(("TAGS", "a||b"), ("KEYS", " k1  k2 k1"), ("UNIQ_KEY", "u"), ("n", "v")),
)  # fmt: skip


def rows_of(
    *messages: Message, chosen: list[int] | None = None, version: str = "5.3.3"
) -> columns.StepRows:
    log = log_of(list(messages), version=version)
    step = next(log.steps(part(log)))
    numbers = None if chosen is None else np.array(chosen, np.int64)
    return columns.StepRows(
        step, numbers, log.rules.records, log.rules.dispatch.split_properties, log.body
    )


def column(name: str, *messages: Message, **more: Any) -> list[Any]:
    made: list[Any] = rows_of(*messages, **more).column(name).to_pylist()
    return made


def test_a_record_with_everything_or_nothing_is_a_row() -> None:
    (row,) = columns.batch_of(rows_of(Message(), ODD, chosen=[1]), columns.SCHEMA).to_pylist()
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
    (row,) = columns.batch_of(rows_of(Message()), columns.SCHEMA).to_pylist()
    absent = ("tags", "uniqueKey", "keys", "properties", "body", "bodyCRC")
    assert [row[name] for name in absent] == [None, None, [], [], b"", 0]
    hosts = column("bornHost", Message(), ODD, Message(), ODD)
    assert hosts == ["127.0.0.1:10911", "[2001:db8::1]:10911"] * 2
    assert columns.batch_of(rows_of(Message(), chosen=[]), columns.SCHEMA).num_rows == 0


@pytest.mark.parametrize("name", ["storeTimestamp", "bornTimestamp"])
def test_a_time_before_year_1_or_after_9999_is_null_and_its_number_stays(name: str) -> None:
    times = [columns.TIME_LEAST - 1, columns.TIME_LEAST, 0, columns.TIME_MOST,
             columns.TIME_MOST + 1, -(1 << 63), (1 << 63) - 1]  # fmt: skip
    messages = [Message(store_timestamp=time, born_timestamp=time) for time in times]
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert column(name, *messages) == [None, first, epoch, last, None, None, None]
    assert column(f"{name}Millis", *messages) == times


def test_bodies_of_any_length_are_whole() -> None:
    bodies = [bytes(range(length)) for length in (31, 0, 32, 33, 1, 63, 64, 65, 200)]
    assert column("body", *(Message(body=each) for each in bodies)) == bodies


# --- Messages of a query as an Arrow table: the source's columns, with each time once.
ROW: dict[str, Any] = {
    "topic": "T", "queueId": 1, "queueOffset": 2, "physicalOffset": 3, "storeTimestamp": 1 << 60,
    "bornTimestamp": -5, "storeHost": "127.0.0.1:10911", "bornHost": "[::1]:1", "tags": None,
    "keys": ["a", "b"], "uniqueKey": None, "properties": {"KEYS": "a b", "x": ""}, "flag": 0,
    "sysFlag": 8, "reconsumeTimes": 0, "preparedTransactionOffset": 0, "bodyCRC": 7, "size": 100,
}  # fmt: skip


def test_the_columns_are_those_of_the_source_with_each_time_once_and_the_body_last() -> None:
    wanted = [
        name for name in columns.SCHEMA.names if not name.endswith("Millis") and name != "body"
    ]
    assert columns.MESSAGE_SCHEMA.names == wanted
    for name in ("storeTimestamp", "bornTimestamp"):
        assert columns.MESSAGE_SCHEMA.field(name) == pa.field(name, pa.int64(), nullable=False)
    table = columns.messages_table([ROW], body=False)
    assert table.schema == columns.MESSAGE_SCHEMA
    (row,) = table.to_pylist()
    assert row == {**ROW, "properties": [("KEYS", "a b"), ("x", "")]}
    table = columns.messages_table([{**ROW, "body": b"\0\xff"}, {**ROW, "body": b""}], body=True)
    assert table.column_names == [*columns.MESSAGE_SCHEMA.names, "body"]
    assert table["body"].to_pylist() == [b"\0\xff", b""]
    assert columns.messages_table([], body=False).schema == columns.MESSAGE_SCHEMA
    assert columns.messages_table([], body=True).num_rows == 0
