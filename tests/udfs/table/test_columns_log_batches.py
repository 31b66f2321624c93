"""A part of a log as Arrow batches: the rows that a filter and a choice want, and what was left."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.filter.filters import Filter
from reput.store_format.filter.rows import Match, Verdicts
from reput.store_format.log.record import Record
from reput.store_format.log.walk import Step
from reput.udfs.table.columns import EVERYTHING, SCHEMA, Choice, batches_of
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, properties
from tests.udfs.table.parts import log_of, part

FEW = pa.schema([SCHEMA.field(name) for name in ("topic", "queueOffset")])
TOPICS = ("A", "TBW102", "B", "rmq_sys_x", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys", "A",
          "SCHEDULE_TOPIC_XXXX", "a_rmq_sys_x")  # fmt: skip
OWN = (1, 3, 4, 7)
MESSAGES = [
    Message(topic, queue_offset=n, body=b"body %d" % n, properties=properties(("n", str(n))))
    for n, topic in enumerate(TOPICS)
]


def found(choice: Choice = EVERYTHING, **more: Any) -> list[int]:
    log = log_of(MESSAGES)
    batches = list(batches_of(log, part(log), choice, FEW, **more))
    assert all(batch.schema == FEW and batch.num_rows for batch in batches)
    return [n for batch in batches for n in batch["queueOffset"].to_pylist()]


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


def test_without_a_wish_all_rows_come_with_the_columns_of_the_schema() -> None:
    assert found() == list(range(9))


def test_a_filter_is_asked_only_about_records_that_it_does_not_know_at_once() -> None:
    wanted = EvenOnes()
    assert found(wanted=wanted) == [1, 2, 4, 6, 8]
    assert wanted.asked == [(n, str(n), b"body %d" % n) for n in range(2, 9)]


def test_filter_and_choice_must_both_want_a_row() -> None:
    assert found(Choice(topics=("A", "B")), wanted=EvenOnes()) == [2, 6]
    assert found(Choice(topics=())) == []


@pytest.mark.parametrize(
    ("choice", "kept", "own"),
    [
        (EVERYTHING, [0, 2, 5, 6, 8], [4]),
        (Choice(topics=("A", "rmq_sys_x")), [0, 6], [1]),
        (Choice(topics=("TBW102",)), [], [1]),
        (Choice(topics=("B",)), [2], [0]),
        (Choice(topics=()), [], []),
    ],
)
def test_chosen_messages_of_brokers_own_topics_are_counted_and_left_out(
    choice: Choice, kept: list[int], own: list[int]
) -> None:
    left: list[int] = []
    assert found(choice, system_topics=False, left=left.append) == kept
    assert left == own
    assert set(found(choice)) - set(kept) <= set(OWN)


def test_it_says_up_to_where_the_log_was_read_also_where_nothing_is_wanted() -> None:
    reached: list[int] = []
    assert found(Choice(topics=()), reached=reached.append) == []
    assert reached[-1] > record_places(build_log(MESSAGES, 1 << 14))[-1]


def test_what_damage_takes_is_told() -> None:
    log, told = log_of(MESSAGES, on_damage="skip"), list[str]()
    raw = bytearray(log.storage.files["log/0"])
    place = record_places(build_log(MESSAGES, 1 << 14))[2]
    raw[place + 4] ^= 1
    log.storage.files["log/0"] = bytes(raw)
    batches = list(batches_of(log, part(log), EVERYTHING, FEW, tell=told.append))
    assert [n for batch in batches for n in batch["queueOffset"].to_pylist()] == [0, 1]
    assert len(told) == 1
    assert str(place) in told[0]
