"""SQL92: what RocketMQ says of each expression and message, and what we say of a wrong one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.filter.filters import AllOf, tag_filter
from reput.store_format.filter.rows import Match
from reput.store_format.filter.sql import SqlFilter, WrongExpression, sql_filter
from reput.store_format.release.profiles import profile
from tests.logs import encoder
from tests.store_format.filter import golden
from tests.store_format.filter.expressions import Expressions, properties
from tests.store_format.filter.saying import says, step_of

NEW = profile("5.5.0")
CASES = json.loads(golden.FILE.read_text("utf-8"))


@lru_cache
def wanted(text: str, release: str = "5.5.0") -> SqlFilter:
    return sql_filter(text, profile(release))


def matches(text: str, found: Mapping[str, str], release: str = "5.5.0") -> bool:
    (said,) = says(wanted(text, release), [encoder.properties(*found.items())])
    return said


@pytest.mark.parametrize("release", golden.RELEASES)
def test_what_rocketmq_says(release: str) -> None:
    raw = golden.raw_properties()
    column = 1 + golden.RELEASES.index(release)
    wrong = [
        (case[0], said, case[column])
        for case in CASES
        if (said := golden.ours(lambda t=case[0]: wanted(t, release), raw, False)) != case[column]
    ]
    assert wrong == []
    assert sum(case[column] is not None for case in CASES) > 120


def test_a_window_at_once_gives_the_same() -> None:
    raw, asked = golden.raw_properties(), 0
    for case in CASES:
        if case[3] is not None:
            assert "".join("01"[one] for one in says(wanted(case[0]), raw)) == case[3], case[0]
            verdicts = wanted(case[0]).judge(step_of(raw), False)
            asked += int(np.count_nonzero(verdicts == Match.ASK))
    assert asked < 0.1 * len(CASES) * len(raw)


@given(st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_a_window_at_once_gives_the_same_at_random(seed: int, other: int) -> None:
    source = Expressions(seed, odd=0)
    raw = [encoder.properties(*properties(other + n).items()) for n in range(4)]
    for _ in range(4):
        text = source.one()
        try:
            made = sql_filter(text, NEW)
        except WrongExpression:
            continue
        says(made, raw)


@given(st.text(alphabet="ab'(),=<>!-+ .05eENOTANDRIS\n", max_size=30))
def test_any_text_parses_or_says_where_it_does_not(text: str) -> None:
    try:
        line, column = sql_filter(text, NEW).rest or (1, 1)
    except WrongExpression as error:
        line, column = error.line, error.column
    assert 1 <= line <= text.count("\n") + 1
    assert 1 <= column <= len(text) + 1


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=6), st.booleans())
def test_properties_of_any_bytes(values: list[bytes], split: bool) -> None:
    raw = [b"\x02".join([b"a\x01" + value, b"b\x01" + values[0], b"a" + value]) for value in values]
    for text in (
        "a = 'x'",
        "a > 5.5",
        "a = b",
        "a <> b",
        "NOT (a CONTAINS 'é')",
        "a > b",
        "a = TRUE",
    ):
        says(wanted(text), raw, split)


def test_the_words_of_5_1_3_are_names_before() -> None:
    found = {"a": "xyz"}
    assert matches("a CONTAINS 'y'", found, "5.1.3")
    assert not matches("a CONTAINS 'y'", found, "5.1.2")
    assert wanted("a CONTAINS 'y'", "5.1.2").rest == (1, 3)  # `a` alone, which is FALSE
    assert matches("CONTAINS = 'y'", {"CONTAINS": "y"}, "5.1.2")
    with pytest.raises(WrongExpression):
        wanted("CONTAINS = 'y'", "5.1.3")


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a = 1 AND\n b ? 2", 2, 4, "'?' begins no word"),
        ("a = ", 1, 5, "a number, a property"),
        ("a =\n\n", 3, 1, "ends where"),
        ("(a = 1", 1, 7, "), OR"),
        ("a NOT 5", 1, 7, "BETWEEN, CONTAINS"),
        ("a > 'x'", 1, 5, "only numbers"),
        ("a = 1 AND 5", 1, 11, "neither true nor false"),
        ("a = NULL", 1, 5, "IS NULL"),
        ("a = 0.0", 1, 5, "write 0"),
        ("a = 99999999999999999999", 1, 5, "more than a long"),
        ("a BETWEEN 3 AND 1", 1, 11, "greater than"),
        ("5 IN ('x')", 1, 1, "a property on its left"),
        ("NOT " * 10_000 + "a", 1, 7997, "nested too deeply"),
        ("(" * 10_000 + "a = 1" + ")" * 10_000, 1, 2000, "nested too deeply"),
        ("-" * 10_000 + "a = 1", 1, 2000, "nested too deeply"),
        ("a" * (1 << 21), 1, 1, "characters, more than"),
    ],
)
def test_errors_say_where_and_what(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(WrongExpression, match=r"^SQL92") as error:
        sql_filter(text, NEW)
    assert (error.value.line, error.value.column) == (line, column)
    assert says in str(error.value)
    assert len(str(error.value)) < 300


def test_a_long_expression_is_not_a_deep_one() -> None:
    many = " OR ".join(f"a = {n}" for n in range(5000))
    assert matches(many, {"a": "4999"})
    assert not matches(many, {"a": "5000"})
    within = ", ".join(f"'{n}'" for n in range(5000))
    assert matches(f"a IN ({within})", {"a": "4999"})
    # each BETWEEN would double the work if its left side were evaluated twice
    deep = "-(" * 100 + "a" + ") BETWEEN 1 AND 2" * 100 + " IS NULL"
    assert matches(deep, {"a": "1"})


def test_the_text_that_rocketmq_ignores_is_reported() -> None:
    assert wanted("a = 1 AND b = 2").rest is None
    assert wanted("a = 1\n b = 2").rest == (2, 2)


@pytest.mark.parametrize("number", ["0.74391500080636083", "0.77835337406812415", "123456789.5"])
def test_numbers_at_once_are_rounded_as_java_rounds(number: str) -> None:
    """In the first two, digits divided by a power of ten would be rounded twice."""
    assert matches(f"a = {number}", {"a": number})
    assert not matches(f"a > {number} OR a < {number}", {"a": number})
    assert matches("a < b", {"a": "-0", "b": "0"})  # as doubles, they differ in Java


def test_of_two_properties_of_one_name_the_last_counts() -> None:
    assert says(wanted("a = '2'"), [b"a\x011\x02a\x012\x02", b"a\x012\x02a\x011\x02"]) == [
        True,
        False,
    ]


def test_pairs_count_as_the_release_splits_them() -> None:
    raw = [b"a\x01x\x01y\x02", b"a\x01x\x01\x02"]
    assert says(wanted("a IS NOT NULL"), raw, split=False) == [True, True]
    assert says(wanted("a = 'x'"), raw, split=True) == [False, True]


def test_all_of_several_filters() -> None:
    raw = [b"TAGS\x01A\x02a\x015\x02", b"TAGS\x01A\x02", b"a\x015\x02", b"TAGS\x01A\x02a\x01 5\x02"]
    both = AllOf(tag_filter("A || B"), wanted("a > 4.5"))
    assert says(both, raw) == [True, False, False, True]
    assert both.judge(step_of(raw), False).tolist() == [1, 0, 0, Match.ASK]


def test_a_between_with_a_missing_bound_is_neither_true_nor_false() -> None:
    assert not matches("a BETWEEN b AND 7", {"a": "5"})
    assert not matches("NOT (a BETWEEN b AND 7)", {"a": "5"})
    assert matches("a NOT BETWEEN b AND 7", {"a": "8"})
