"""SQL92: what RocketMQ says of each expression and message, and what we say of a wrong one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.store_format.filter.filters import AllOf, evaluate, matches, tag_filter
from reput.store_format.filter.program import FALSE, Op, Value, ValueKind
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


def test_a_long_expression_is_not_a_deep_one_and_a_refusal_is_at_the_part_that_is_wrong() -> None:
    many = " OR ".join(f"a = {n}" for n in range(5000))
    assert judged(many, {"a": "4999"})
    assert not judged(many, {"a": "5000"})
    within = ", ".join(f"'{n}'" for n in range(5000))
    assert judged(f"a IN ({within})", {"a": "4999"})
    # each BETWEEN would double the work if its left side were evaluated twice
    deep = "-(" * 100 + "a" + ") BETWEEN 1 AND 2" * 100 + " IS NULL"
    assert judged(deep, {"a": "1"})
    for text, column in (("a > 'x'", 5), ("a BETWEEN 7 AND 1", 11), ("a = 1 AND\t5", 11)):
        with pytest.raises(WrongExpression) as raised:
            parse(text, True)
        assert (raised.value.line, raised.value.column) == (1, column)


@pytest.mark.parametrize("number", ["0.74391500080636083", "0.77835337406812415", "123456789.5"])
def test_numbers_at_once_are_rounded_as_java_rounds(number: str) -> None:
    """In the first two, digits divided by a power of ten would be rounded twice."""
    assert judged(f"a = {number}", {"a": number})
    assert not judged(f"a > {number} OR a < {number}", {"a": number})
    assert judged("a < b", {"a": "-0", "b": "0"})  # as doubles, they differ in Java


def test_the_last_of_two_properties_counts_and_words_only_from_5_1_3_on() -> None:
    assert says(wanted("a = '2'"), [b"a\x011\x02a\x012\x02", b"a\x012\x02a\x011\x02"]) == [
        True,
        False,
    ]
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


# --- What the `create` methods of RocketMQ's expressions make of their parts, and what they
# refuse.
def code(text: str) -> list[Any]:
    return list(parse(text, True).program.instructions)


@pytest.mark.parametrize(("literal", "kind", "of"), [
    ("0", ValueKind.INTEGER, 0), ("2147483647", ValueKind.INTEGER, 2147483647),
    ("2147483648", ValueKind.LONG, 2147483648), ("5L", ValueKind.INTEGER, 5),
    ("9223372036854775807l", ValueKind.LONG, 9223372036854775807), (".5", ValueKind.DOUBLE, 0.5),
    ("5.", ValueKind.DOUBLE, 5.0), ("1e3", ValueKind.DOUBLE, 1000.0),
    ("4.9e-324", ValueKind.DOUBLE, 4.9e-324), ("''", ValueKind.TEXT, ""),
])  # fmt: skip
def test_a_literal_has_the_smallest_class_that_holds_it(literal, kind, of) -> None:
    assert code(f"a = {literal}")[1] == (Op.CONSTANT, Value(kind, of))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [
    "a = 9223372036854775808", "a = 0.0", "a = 0e5", "a = 1e-400", "a = 1e309", "a > 'x'",
    "'x' > a", "a > TRUE", "a > NULL", "a > (b > 5)", "a BETWEEN 'x' AND 'y'", "a = NULL",
    "NULL <> a", "TRUE = 5", "FALSE = 'x'", "a BETWEEN 7 AND 1", "a BETWEEN 1.5 AND 1",
    "a BETWEEN NULL AND 1", "5 IN ('x')", "'x' IN ('x')", "(a = 1) IN ('x')", "5", "'x'", "-5",
    "NOT 5", "a = 1 AND 'x'", "5 OR a = 1",
])  # fmt: skip
def test_what_rocketmq_refuses(text: str) -> None:
    with pytest.raises(WrongExpression) as raised:
        parse(text, True)
    assert "stands where" not in raised.value.reason  # the grammar itself takes it


@pytest.mark.parametrize("text", ["5 = TRUE", "5 = 'x'", "a BETWEEN -1 AND -7",
                                  "a NOT BETWEEN 7 AND 1", "a BETWEEN 1 AND 1",
                                  "a > b", "NULL IS NULL"])  # fmt: skip
def test_what_it_takes_though_it_looks_wrong(text: str) -> None:
    assert parse(text, True).rest is None


@pytest.mark.parametrize("test", ["CONTAINS", "NOT CONTAINS", "STARTSWITH", "NOT ENDSWITH"])
def test_a_test_for_the_empty_text_is_false_whatever_is_on_its_left(test: str) -> None:
    assert code(f"-(a > 5) {test} ''") == [(Op.CONSTANT, FALSE)]


@pytest.mark.parametrize(("text", "a", "value"), [
    ("a BETWEEN 1 AND b", "0", FALSE),  # 'x' is not a number, but is not looked at any more
    ("a NOT BETWEEN 1 AND b", "0", Value(ValueKind.BOOLEAN, True)),
    ("a = 'y' AND b > 5", "x", FALSE), ("a = 'x' OR b > 5", "x", Value(ValueKind.BOOLEAN, True)),
    ("c > 5 = TRUE", "x", Value(ValueKind.NULL, None)),
])  # fmt: skip
def test_what_is_decided_is_not_evaluated_on(text: str, a: str, value: Value) -> None:
    assert evaluate(parse(text, True).program, {"a": a, "b": "x"}) == value


@pytest.mark.parametrize(("text", "depth"), [
    ("a = 1", 2), ("a = 1 AND b = 2", 3), ("(a = 1 AND b = 2) AND c = 3", 3), ("a IS NULL", 1),
    ("a = 1 AND (b = 2 AND c = 3)", 4), ("a BETWEEN 1 AND 2", 3),
])  # fmt: skip
def test_the_depth_is_the_most_values_on_the_stack(text: str, depth: int) -> None:
    assert parse(text, True).program.depth == depth


# --- The dialect of SelectorParser.jj: what binds closer, what is a word, and where a text may
# end.
def holds(text: str, text_words: bool = True, /, **properties: str) -> bool:
    return matches(parse(text, text_words).program, properties)


@pytest.mark.parametrize(("text", "yes"), [
    ("a = 1 OR a = 2 AND a = 3", True),  # AND binds closer than OR
    ("(a = 1 OR a = 2) AND a = 3", False),
    ("NOT a = 2", False),  # NOT is a unary: it takes `a` alone, which is FALSE, and a TRUE = 2
    ("NOT (a = 2)", True), ("a BETWEEN 0 AND 1 AND a = 1", True), ("a IS NOT NULL = TRUE", True),
    ("a > 0 = TRUE", True),  # a comparison binds closer than an equality
    ("- - a IS NULL", True), ("a = +1", True),
])  # fmt: skip
def test_what_binds_closer(text: str, yes: bool) -> None:
    assert holds(text, a="1") == yes


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


@pytest.mark.parametrize(("text", "rest"), [
    ("a = 1", None), ("a = 1 b = 2", (1, 7)), ("a = 1\n\n  )", (3, 3)), ("a = 1L2", (1, 7)),
    ("a = 01", (1, 6)), ("a = 1 'x'", (1, 7)),
])  # fmt: skip
def test_the_rest_after_a_whole_expression_is_ignored(text, rest) -> None:
    assert parse(text, True).rest == rest
