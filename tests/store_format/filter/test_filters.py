"""Subscriptions by tags, as FilterAPI reads them and as broker and client compare."""

from __future__ import annotations

import pytest

from reput.store_format.filter.filters import AllOf, EveryMessage, TagFilter, WrongTags, tag_filter
from reput.store_format.filter.sql import sql_filter
from reput.store_format.filter.texts import GrepFilter
from reput.store_format.kernels.java_text import hash_text
from reput.store_format.release.profiles import profile
from tests.store_format.filter.saying import says


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("A", ("A",)),
        ("A || B", ("A", "B")),
        ("A||B||A", ("A", "B")),
        (" \tA\x1f ||\nB C", ("A", "B C")),
        ("|| A", ("A",)),
        ("A |||B", ("A", "|B")),
        ("* || A", ("*", "A")),  # only `*` alone is every message
        (" || ", ()),  # no tag: no message at all
        ("\u00a0A", ("\u00a0A",)),  # Java's trim leaves this blank
    ],
)
def test_tags_are_read_as_rocketmq_reads_them(text: str, tags: tuple[str, ...]) -> None:
    found = tag_filter(text)
    assert isinstance(found, TagFilter)
    assert found.tags == tags


def test_every_message() -> None:
    for text in ("*", ""):
        found = tag_filter(text)
        assert isinstance(found, EveryMessage)
        assert says(found, [b"", b"TAGS\x01A\x02"]) == [True, True]
        assert found.may_match(7)


@pytest.mark.parametrize("text", ["||", "||||"])
def test_no_tag_at_all_is_refused(text: str) -> None:
    with pytest.raises(WrongTags, match="no tag"):
        tag_filter(text)


def test_the_text_decides_where_hash_codes_collide() -> None:
    found = tag_filter("Aa")
    assert isinstance(found, TagFilter)
    assert found.may_match(2112)  # of "Aa" and of "BB"
    assert says(found, [b"TAGS\x01Aa\x02", b"TAGS\x01BB\x02", b"", b"TAGS\x01\x02"]) == [
        True, False, False, False,
    ]  # fmt: skip


def test_the_lower_32_bits_of_tags_code_count() -> None:
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
