"""Subscriptions by tags, as FilterAPI reads them and as broker and client compare."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest

from reput.store_format.filter import program as module
from reput.store_format.filter.filters import (
    AllOf,
    EveryMessage,
    TagFilter,
    WrongTags,
    evaluate,
    matches,
    tag_filter,
)
from reput.store_format.filter.program import (
    FALSE,
    NULL,
    TRUE,
    Op,
    Program,
    Thrown,
    Value,
    ValueKind,
)
from reput.store_format.filter.sql import sql_filter
from reput.store_format.filter.texts import GrepFilter
from reput.store_format.kernels.java_text import hash_text
from reput.store_format.release.profiles import profile
from tests.store_format.filter.saying import says


@pytest.mark.parametrize(("text", "tags"), [
    ("A", ("A",)), ("A || B", ("A", "B")), ("A||B||A", ("A", "B")),
    (" \tA\x1f ||\nB C", ("A", "B C")), ("|| A", ("A",)), ("A |||B", ("A", "|B")),
    ("* || A", ("*", "A")),  # only `*` alone is every message
    (" || ", ()),  # no tag: no message at all
    ("\u00a0A", ("\u00a0A",)),  # Java's trim leaves this blank
])  # fmt: skip
def test_tags_are_read_as_rocketmq_reads_them(text: str, tags: tuple[str, ...]) -> None:
    found = tag_filter(text)
    assert isinstance(found, TagFilter)
    assert found.tags == tags


@pytest.mark.parametrize("text", ["||", "||||"])
def test_no_tag_at_all_is_refused(text: str) -> None:
    with pytest.raises(WrongTags, match="no tag"):
        tag_filter(text)


def test_the_text_decides_where_hash_codes_collide_of_which_the_lower_32_bits_count() -> None:
    found = tag_filter("Aa")
    assert isinstance(found, TagFilter)
    assert found.may_match(2112)  # of "Aa" and of "BB"
    assert says(found, [b"TAGS\x01Aa\x02", b"TAGS\x01BB\x02", b"", b"TAGS\x01\x02"]) == [
        True, False, False, False,
    ]  # fmt: skip
    found = tag_filter("polygenelubricants")  # its hash code is the least int
    assert isinstance(found, TagFilter)
    code = -(1 << 31)
    assert hash_text("polygenelubricants") == code
    assert found.may_match(code)
    assert found.may_match(code + (1 << 32))
    both = AllOf(found, sql_filter("a = 1", profile("5.5.0")), GrepFilter("x", 1))
    assert [both.may_match(code), both.may_match(code + 1)] == [True, False]
    assert found.may_match(code - (1 << 32))
    assert not found.may_match(code + 1)
    assert found.may_match(-code)
    for text in ("*", ""):
        found = tag_filter(text)
        assert isinstance(found, EveryMessage)
        assert says(found, [b"", b"TAGS\x01A\x02"]) == [True, True]
        assert found.may_match(7)


# --- The machine of one message: three-valued logic, jumps, and what throws.
FIVE = Value(ValueKind.INTEGER, 5)
A, B = (Op.PROPERTY, "a"), (Op.PROPERTY, "b")


def run(*code: Any, **properties: str) -> Value:
    return evaluate(Program(code, 4), properties)


@pytest.mark.parametrize(("left", "right"), [*product((TRUE, FALSE, NULL), repeat=2)])
def test_and_and_or_know_three_values(left: Value, right: Value) -> None:
    """FALSE decides an AND and TRUE an OR; else null makes null (LogicExpression)."""
    both = NULL if NULL in (left, right) else TRUE
    either = NULL if NULL in (left, right) else FALSE
    code = ((Op.CONSTANT, left), (Op.JUMP_IF_FALSE, 2), (Op.CONSTANT, right), (Op.AND, None))
    assert run(*code) == (FALSE if FALSE in (left, right) else both)
    code = ((Op.CONSTANT, left), (Op.JUMP_IF_TRUE, 2), (Op.CONSTANT, right), (Op.OR, None))
    assert run(*code) == (TRUE if TRUE in (left, right) else either)


@pytest.mark.parametrize(("op", "value", "result"), [
    (Op.NOT, TRUE, FALSE), (Op.NOT, FALSE, TRUE), (Op.NOT, NULL, NULL), (Op.CAST, NULL, NULL),
    (Op.CAST, Value(ValueKind.TEXT, "true"), FALSE), (Op.IS_NULL, NULL, TRUE),
    (Op.IS_NULL, FALSE, FALSE), (Op.NEGATE, FIVE, Value(ValueKind.INTEGER, -5)),
])  # fmt: skip
def test_operators_of_one_value(op: Op, value: Value, result: Value) -> None:
    assert run((Op.CONSTANT, value), (op, None)) == result


def test_null_is_in_no_list_and_equals_null_and_what_throws_matches_after_a_jump_alone() -> None:
    for op, there in ((Op.IN, TRUE), (Op.NOT_IN, FALSE)):
        assert run(A, (op, ("x", "y")), a="x") == there
        assert run(A, (op, ("x", "y"))) == NULL
    # ComparisonExpression.doCreateEqual: a null on the left alone makes null.
    assert run(A, B, (Op.EQUAL, None)) == TRUE
    assert run(A, B, (Op.EQUAL, None), a="x") == FALSE
    assert run(A, B, (Op.EQUAL, None), b="x") == NULL
    throws = (A, (Op.CONSTANT, FIVE), (Op.GREATER, None))
    with pytest.raises(Thrown):
        run(*throws, a="x")
    assert not matches(Program(throws, 2), {"a": "x"})
    or_ = ((Op.CONSTANT, TRUE), (Op.JUMP_IF_TRUE, 4), *throws, (Op.OR, None))
    assert matches(Program(or_, 3), {"a": "x"})
    assert not matches(Program((A,), 1), {})  # null is not TRUE


@pytest.mark.parametrize("op", [Op.CONTAINS, Op.STARTS, Op.ENDS])
def test_a_missing_property_contains_nothing_and_lacks_nothing(op: Op) -> None:
    not_op = Op(op + 1)
    assert (run(A, (op, "x"), a="xax"), run(A, (not_op, "x"), a="xax")) == (TRUE, FALSE)
    assert (run(A, (op, "b"), a="xax"), run(A, (not_op, "b"), a="xax")) == (FALSE, TRUE)
    assert run(A, (op, "x")) == run(A, (not_op, "x")) == FALSE


@pytest.mark.parametrize(("op", "results"), [
    (Op.GREATER, "001"), (Op.GREATER_EQUAL, "011"), (Op.LESS, "100"), (Op.LESS_EQUAL, "110"),
    (Op.EQUAL, "010"),
])  # fmt: skip
def test_a_property_below_at_and_above_a_number(op: Op, results: str) -> None:
    found = [run(A, (Op.CONSTANT, FIVE), (op, None), a=text) for text in ("4", "5", "6")]
    assert found == [TRUE if one == "1" else FALSE for one in results]


@pytest.mark.parametrize(
    ("op", "decides"), [(Op.REST_UNLESS_FALSE, FALSE), (Op.REST_UNLESS_TRUE, TRUE)]
)
def test_a_between_skips_its_rest_where_the_first_bound_decides(op: Op, decides: Value) -> None:
    for result in (TRUE, FALSE, NULL):
        code = ((Op.CONSTANT, FIVE), (Op.CONSTANT, result), (op, 1), (Op.IS_NULL, None))
        # the rest sees the value, which is no null; without it the result stays
        assert run(*code) == (decides if result == decides else FALSE)


# --- The program for a list of tags, run on single messages.
@pytest.mark.parametrize(("tags", "has", "found"), [
    (["a"], "a", True), (["a"], "A", False), (["a"], "aa", False), (["a", "b"], "b", True),
    (["a", "b"], "a||b", False),  # a message's TAGS are one text, and not split
    ([""], "", True), ([], "a", False),
])  # fmt: skip
def test_the_whole_text_of_tags_is_one_of_the_list(tags: list[str], has: str, found: bool) -> None:
    assert matches(module.tags_program(tags), {"TAGS": has}) == found


def test_a_message_without_tags_never_matches_and_texts_are_ordered_as_doubles() -> None:
    assert evaluate(module.tags_program(["a", ""]), {"KEYS": "a"}) == module.NULL
    assert not matches(module.tags_program([]), {})
    tags = ["a"]
    program = module.tags_program(tags)
    tags[0] = "b"
    assert matches(program, {"TAGS": "a"})
    assert hash(program) == hash(module.tags_program(["a"]))
    # A Boolean, an Integer, a Long and a Double of one value are four values.
    kinds = (module.ValueKind.BOOLEAN, module.ValueKind.INTEGER, module.ValueKind.LONG,
             module.ValueKind.DOUBLE)  # fmt: skip
    ones = [module.Value(kind, 1) for kind in kinds]
    assert len(set(ones)) == 4
    assert ones[0] == module.TRUE
    assert module.FALSE not in ones
    assert module.NULL not in ones
    assert module.compare(text("5"), text("5.0")) != 0
    assert module.compare_ordered(text("5"), text("5.0")) == 0
    assert module.compare_ordered(text("10"), text("9")) == 1
    with pytest.raises(module.Thrown):
        module.compare_ordered(text("a"), text("b"))


# --- Texts as Java's number classes read them, and values as ComparisonExpression compares them.
def int_(of: int) -> module.Value:
    return module.Value(module.ValueKind.INTEGER, of)


def long(of: int) -> module.Value:
    return module.Value(module.ValueKind.LONG, of)


def double(of: float) -> module.Value:
    return module.Value(module.ValueKind.DOUBLE, of)


def text(of: str) -> module.Value:
    return module.Value(module.ValueKind.TEXT, of)


@pytest.mark.parametrize(("written", "number"), [
    ("5", 5.0), (" \t5.\x00", 5.0), (".5", 0.5), ("-1e3", -1000.0), ("1f", 1.0), ("1.5D", 1.5),
    ("1e400", math.inf), ("-1e400", -math.inf), ("-Infinity", -math.inf), ("1e-400", 0.0),
    ("0x1p4", 16.0), ("-0x.8P1d", -1.0), ("0x1p99999", math.inf), ("-0x1p99999", -math.inf),
])  # fmt: skip
def test_doubles_as_their_class_reads_them(written: str, number: float) -> None:
    assert module.parse_double(written) == number


@pytest.mark.parametrize(
    "written",
    ["", ".", "1e", "e1", "0x1", "infinity", "nan", "1_0", "1ff", "\u0663", "\u00a05", "--5"],
)
def test_what_is_no_double_throws(written: str) -> None:
    with pytest.raises(module.Thrown):
        module.parse_double(written)


@pytest.mark.parametrize(("left", "right", "order"), [
    (int_(5), long(5), 0), (int_(5), double(5.5), -1), (long(2**53 + 1), double(2.0**53), 0),
    (double(-0.0), double(0.0), -1), (double(math.nan), double(math.inf), 1),
    (double(math.nan), double(math.nan), 0), (double(1.0), double(math.nan), -1),
    (text("7"), int_(5), 1), (long(7), text("8"), -1), (text(" 5.0"), double(5.0), 0),
    (text("a"), text("a"), 0), (module.TRUE, module.FALSE, 1), (text("tRuE"), module.TRUE, 0),
    (text("x"), module.FALSE, 0), (module.TRUE, int_(1), -1), (int_(1), module.TRUE, -1),
])  # fmt: skip
def test_two_values_in_java_s_order(left: module.Value, right: module.Value, order: int) -> None:
    assert module.compare(left, right) == order


@pytest.mark.parametrize(("left", "right"), [
    (text("5.0"), int_(5)), (text(str(2**31)), int_(5)), (long(5), text("x")),
    (module.TRUE, text("true")),
])  # fmt: skip
def test_a_text_that_cannot_become_the_others_class_throws(left, right) -> None:
    with pytest.raises(module.Thrown):
        module.compare(left, right)


@pytest.mark.parametrize(("value", "minus"), [
    (int_(5), int_(-5)), (int_(-(2**31)), int_(-(2**31))), (long(2**31), long(-(2**31))),
    (long(-(2**63)), long(-(2**63))), (double(1.5), double(-1.5)), (text("5"), module.NULL),
    (module.TRUE, module.NULL),
])  # fmt: skip
def test_minus_wraps_at_the_least_number_of_a_class(value, minus) -> None:
    assert module.negated(value) == minus
