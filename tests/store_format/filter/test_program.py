"""The program for a list of tags, run on single messages."""

import math

import pytest

from reput.store_format.filter import program as module
from reput.store_format.filter.filters import evaluate, matches


@pytest.mark.parametrize(("tags", "has", "found"), [
    (["a"], "a", True), (["a"], "A", False), (["a"], "aa", False), (["a", "b"], "b", True),
    (["a", "b"], "a||b", False),  # a message's TAGS are one text, and not split
    ([""], "", True), ([], "a", False),
])  # fmt: skip
def test_the_whole_text_of_tags_is_one_of_the_list(tags: list[str], has: str, found: bool) -> None:
    assert matches(module.tags_program(tags), {"TAGS": has}) == found


def test_a_message_without_tags_never_matches_and_java_s_kinds_differ() -> None:
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


def test_two_texts_are_equal_as_texts_and_ordered_as_doubles() -> None:
    assert module.compare(text("5"), text("5.0")) != 0
    assert module.compare_ordered(text("5"), text("5.0")) == 0
    assert module.compare_ordered(text("10"), text("9")) == 1
    with pytest.raises(module.Thrown):
        module.compare_ordered(text("a"), text("b"))
