"""Which rows of a window are wanted: all conditions hold, and an unknown value meets none."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.log.rules import NO_CHECKS, RecordRules
from reput.store_format.log.walk import Walk
from reput.udfs.table.columns import EVERYTHING, Choice, Condition, StepRows, whole_matches
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


def where(*conditions: tuple[str, str, Any]) -> Choice:
    return Choice(conditions=tuple(Condition(*each) for each in conditions))


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
        (where(("queueOffset", "less", 2)), [0, 1]),
        (where(("queueOffset", "greater_equal", 2), ("queueId", "equal", 1)), [3]),
        (where(("topic", "starts_with", "A")), [0, 1, 3]),
        (where(("topic", "is_in", ("B", "AB"))), [1, 2]),
        (where(("uniqueKey", "equal", "u2")), [2]),
        (where(("uniqueKey", "starts_with", "u")), [1, 2, 3]),
        (where(("uniqueKey", "starts_with", "")), [1, 2, 3]),
        (where(("uniqueKey", "is_in", ("u1", "u3"))), [1, 3]),
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


@pytest.mark.parametrize(
    ("choice", "topics"),
    [
        (EVERYTHING, None),
        (Choice(pattern="A"), None),
        (Choice(topics=("A", "B")), ("A", "B")),
        (where(("topic", "equal", "A")), ("A",)),
        (where(("topic", "is_in", ("B", "A")), ("topic", "is_in", ("A", "C"))), ("A",)),
        (where(("topic", "starts_with", "A")), None),
        (Choice(("B",), conditions=(Condition("topic", "equal", "A"),)), ()),
    ],
)
def test_named_topics_are_those_that_all_conditions_name(
    choice: Choice, topics: tuple[str, ...] | None
) -> None:
    assert choice.only_topics == topics


def test_topics_are_chosen_by_name_and_pattern() -> None:
    there = ["A", "AB", "B"]
    assert EVERYTHING.of_topics(there) == there
    assert Choice(topics=("B", "A"), pattern="A|AB").of_topics(there) == ["A"]


@pytest.mark.parametrize(
    ("conditions", "places"),
    [
        ([], (0, None)),
        ([("greater", 5)], (6, None)),
        ([("greater_equal", 5)], (5, None)),
        ([("less", 9)], (0, 9)),
        ([("less_equal", 9)], (0, 10)),
        ([("equal", 7)], (7, 8)),
        ([("greater", 5), ("greater", 2), ("less", 9), ("less", 20)], (6, 9)),
        ([("is_in", (7, 8))], (0, None)),
        ([("greater", -9)], (0, None)),
    ],
)
def test_conditions_bound_the_places_that_are_read(
    conditions: list[tuple[str, Any]], places: tuple[int, int | None]
) -> None:
    both = [("physicalOffset", *each) for each in conditions] + [("size", "less", 3)]
    assert where(*both).places == places
