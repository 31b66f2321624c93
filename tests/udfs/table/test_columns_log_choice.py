"""Which rows of a window are wanted: by topic and by time."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.log.rules import NO_CHECKS, RecordRules
from reput.store_format.log.walk import Walk
from reput.udfs.table.columns import EVERYTHING, Choice, StepRows, whole_matches
from tests.logs.encoder import Message, build_log, properties

START = 1_700_000_000_000
TOPICS = ("A", "AB", "B", "A")
MESSAGES = [
    Message(
        topic, queue_id=n % 2, queue_offset=n, store_timestamp=START + n,
        properties=properties(("UNIQ_KEY", f"u{n}")) if n else b"",
    )
    for n, topic in enumerate(TOPICS)
]  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> StepRows:
    raw = np.frombuffer(build_log(MESSAGES, 4096)[0], np.uint8)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = raw[at : at + len(buffer)]

    rules = RecordRules(True, True)
    walk = Walk(read, len(raw), rules, NO_CHECKS, np.empty(len(raw), np.uint8))
    step = next(walk.steps(0, len(raw)))
    return StepRows(step, None, rules, True, lambda at, length: b"")


@pytest.mark.parametrize(
    ("choice", "numbers"),
    [
        (EVERYTHING, None),
        (Choice(topics=("A", "C")), [0, 3]),
        (Choice(topics=()), []),
        (Choice(pattern="A"), [0, 3]),
        (Choice(pattern="A|B"), [0, 2, 3]),
        (Choice(pattern="A.*", since=START + 1), [1, 3]),
        (Choice(topics=("A",), pattern="B"), []),
        (Choice(until=START + 2), [0, 1]),
        (Choice(("A",), since=START + 1, until=START + 3), []),
        (Choice(since=START + 1, until=START + 3), [1, 2]),
    ],
)
def test_wanted_rows(rows: StepRows, choice: Choice, numbers: list[int] | None) -> None:
    found = choice.numbers(rows)
    assert (None if found is None else found.tolist()) == numbers


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        ("orders", "order", False), ("orders", "orders", True), ("orders\n", "orders", False),
        ("b", "a|b", True), ("ab", "a|b", False), ("", "", True), ("ORDERS", "(?i)orders", True),
    ],
)  # fmt: skip
def test_a_pattern_matches_a_whole_topic(text: str, pattern: str, matches: bool) -> None:
    assert whole_matches(pa.array([text]), pattern).to_pylist() == [matches]


@pytest.mark.parametrize("words", ["a(", "a)|(?:b"])
def test_words_that_are_no_pattern_are_an_error(words: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        whole_matches(pa.array([""]), words)


def test_topics_are_chosen_by_name_and_pattern() -> None:
    there = ["A", "AB", "B"]
    assert EVERYTHING.of_topics(there) == there
    assert Choice(topics=("B", "A"), pattern="A|AB").of_topics(there) == ["A"]
