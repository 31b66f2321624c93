"""Subscriptions by tags, as FilterAPI reads them; and values, as broker and client compare them."""

import math
from functools import partial

import pytest

from reput.store_format.filter import program as module
from reput.store_format.filter.filters import AllOf, EveryMessage, TagFilter, WrongTags, tag_filter
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


# --- Numbers in texts and the order of two values, beyond RocketMQ's own answers of test_sql.py.
int_ = partial(module.Value, module.ValueKind.INTEGER)
long = partial(module.Value, module.ValueKind.LONG)
double = partial(module.Value, module.ValueKind.DOUBLE)
text = partial(module.Value, module.ValueKind.TEXT)


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
