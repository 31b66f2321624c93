"""SQL92: what RocketMQ says of each expression and message, and what we say of a wrong one."""

import json
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.filter.filters import AllOf, matches, tag_filter
from reput.store_format.filter.rows import Match
from reput.store_format.filter.sql import SqlFilter, WrongExpression, parse, sql_filter
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


def judged(text: str, found: Mapping[str, str], release: str = "5.5.0") -> bool:
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
    for text in ("a = 'x'", "a > 5.5", "a = b", "a <> b", "NOT (a CONTAINS 'é')",
                 "a > b", "a = TRUE"):  # fmt: skip
        says(wanted(text), raw, split)


@pytest.mark.parametrize(("text", "line", "column", "says"), [
    ("a = 1 AND\n b ? 2", 2, 4, "'?' begins no word"), ("a = ", 1, 5, "a number, a property"),
    ("a =\n\n", 3, 1, "ends where"), ("(a = 1", 1, 7, "), OR"),
    ("a NOT 5", 1, 7, "BETWEEN, CONTAINS"), ("a > 'x'", 1, 5, "only numbers"),
    ("a = 1 AND 5", 1, 11, "neither true nor false"), ("a = NULL", 1, 5, "IS NULL"),
    ("a = 0.0", 1, 5, "write 0"), ("a = 99999999999999999999", 1, 5, "more than a long"),
    ("a BETWEEN 3 AND 1", 1, 11, "greater than"), ("5 IN ('x')", 1, 1, "a property on its left"),
    ("NOT " * 10_000 + "a", 1, 7997, "nested too deeply"),
    ("(" * 10_000 + "a = 1" + ")" * 10_000, 1, 2000, "nested too deeply"),
    ("-" * 10_000 + "a = 1", 1, 2000, "nested too deeply"),
    ("a" * (1 << 21), 1, 1, "characters, more than"),
    (" \n ", 2, 2, "ends where one of these was expected: "), ("a\n = \n)", 3, 1, "')' stands"),
    ("a = 'x", 1, 5, "begins no word"), ("a IN ()", 1, 7, "a text in single quotes"),
    ("a = \xe9", 1, 5, "begins"),
])  # fmt: skip
def test_errors_say_where_and_what(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(WrongExpression, match=r"^SQL92") as error:
        sql_filter(text, NEW)
    assert (error.value.line, error.value.column) == (line, column)
    assert says in str(error.value)
    assert len(str(error.value)) < 300


def test_a_long_expression_is_not_a_deep_one() -> None:
    many = " OR ".join(f"a = {n}" for n in range(5000))
    assert judged(many, {"a": "4999"})
    assert not judged(many, {"a": "5000"})
    within = ", ".join(f"'{n}'" for n in range(5000))
    assert judged(f"a IN ({within})", {"a": "4999"})
    # each BETWEEN would double the work if its left side were evaluated twice
    deep = "-(" * 100 + "a" + ") BETWEEN 1 AND 2" * 100 + " IS NULL"
    assert judged(deep, {"a": "1"})


@pytest.mark.parametrize("number", ["0.74391500080636083", "0.77835337406812415", "123456789.5"])
def test_numbers_at_once_are_rounded_as_java_rounds(number: str) -> None:
    """In the first two, digits divided by a power of ten would be rounded twice."""
    assert judged(f"a = {number}", {"a": number})
    assert not judged(f"a > {number} OR a < {number}", {"a": number})
    assert judged("a < b", {"a": "-0", "b": "0"})  # as doubles, they differ in Java


def test_the_last_of_two_properties_counts_and_words_only_from_5_1_3_on() -> None:
    raw = [b"a\x011\x02a\x012\x02", b"a\x012\x02a\x011\x02"]
    assert says(wanted("a = '2'"), raw) == [True, False]
    raw = [b"a\x01x\x01y\x02", b"a\x01x\x01\x02"]
    assert says(wanted("a IS NOT NULL"), raw, split=False) == [True, True]
    assert says(wanted("a = 'x'"), raw, split=True) == [False, True]
    raw = [b"TAGS\x01A\x02a\x015\x02", b"TAGS\x01A\x02", b"a\x015\x02", b"TAGS\x01A\x02a\x01 5\x02"]
    both = AllOf(tag_filter("A || B"), wanted("a > 4.5"))
    assert says(both, raw) == [True, False, False, True]
    assert both.judge(step_of(raw), False).tolist() == [1, 0, 0, Match.ASK]
    assert not judged("a BETWEEN b AND 7", {"a": "5"})
    assert not judged("NOT (a BETWEEN b AND 7)", {"a": "5"})
    assert judged("a NOT BETWEEN b AND 7", {"a": "8"})
    found = {"a": "xyz"}
    assert judged("a CONTAINS 'y'", found, "5.1.3")
    assert not judged("a CONTAINS 'y'", found, "5.1.2")
    assert wanted("a CONTAINS 'y'", "5.1.2").rest == (1, 3)  # `a` alone, which is FALSE
    assert judged("CONTAINS = 'y'", {"CONTAINS": "y"}, "5.1.2")
    with pytest.raises(WrongExpression):
        wanted("CONTAINS = 'y'", "5.1.3")


@pytest.mark.parametrize(("text", "depth"), [
    ("a = 1", 2), ("a = 1 AND b = 2", 3), ("(a = 1 AND b = 2) AND c = 3", 3), ("a IS NULL", 1),
    ("a = 1 AND (b = 2 AND c = 3)", 4), ("a BETWEEN 1 AND 2", 3),
])  # fmt: skip
def test_the_depth_is_the_most_values_on_the_stack(text: str, depth: int) -> None:
    assert parse(text, True).program.depth == depth


# --- The dialect of SelectorParser.jj: what is a word, and where a text may end.
def holds(text: str, text_words: bool = True, /, **properties: str) -> bool:
    return matches(parse(text, text_words).program, properties)


def test_words_are_in_any_case_blanks_stand_anywhere_and_two_quotes_are_one() -> None:
    assert holds("a Is nOt nUlL aNd a bEtWeEn 1 AnD 3 AND a iN ('2') OR fAlSe", a="2")
    assert not holds("A = 2", a="2")
    assert holds("_x$1 = 2 AND $ = 2 AND Andy = 2", **{"_x$1": "2", "$": "2", "Andy": "2"})
    assert holds("/* a * / ** */\ta\f=\r\n1--= 2\n-- end\r", a="1")
    assert parse("a = 1 -- no line's end", True).rest == (1, 7)  # then it is no comment
    assert holds("a = 'it''s' AND b = '' AND c = ''''", a="it's", b="", c="'")
    assert holds("a = 1" + " " * ((1 << 20) - 5), a="1")
    with pytest.raises(WrongExpression, match="has 1048577 characters"):
        parse("a = 1" + " " * ((1 << 20) - 4), True)
