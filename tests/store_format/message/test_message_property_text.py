"""Properties as text: which pairs count in which release, and in what order they are written."""

import pytest

from reput.store_format.message.message import encode_properties, parse_properties
from reput.store_format.message.refusals import SeparatorInProperty


@pytest.mark.parametrize(
    ("raw", "old", "new"),
    [
        (b"", {}, {}),
        (b"a\x01x\x02b\x01y\x02", {"a": "x", "b": "y"}, {"a": "x", "b": "y"}),
        (b"a\x01x\x02b\x01y", {"a": "x", "b": "y"}, {"a": "x", "b": "y"}),
        (b"a\x01x\x02a\x01y\x02", {"a": "y"}, {"a": "y"}),
        (b"TAGS\x01a\x01\x02", {"TAGS": "a"}, {"TAGS": "a\x01"}),
        (b"TAGS\x01a\x01b\x02", {}, {"TAGS": "a\x01b"}),
        (b"TAGS\x01\x02", {}, {}),
        (b"\x01a\x02", {"": "a"}, {}),
        (b"TAGS\x02\x02\x01\x02", {}, {}),
        (b"a\x01\x01x\x02", {}, {"a": "\x01x"}),
        (b"a\x01\xed\xa0\x80\x02", {"a": "\ufffd"}, {"a": "\ufffd"}),
    ],
)
def test_releases_split_a_pair_in_two_ways(
    raw: bytes, old: dict[str, str], new: dict[str, str]
) -> None:
    assert parse_properties(raw, split=True) == old
    assert parse_properties(raw) == new


@pytest.mark.parametrize(
    ("capacity", "order"),
    [(16, b"p\x011\x02a\x012\x02b\x013\x02"), (128, b"a\x012\x02b\x013\x02p\x011\x02")],
)
def test_the_order_is_that_of_the_hash_map(capacity: int, order: bytes) -> None:
    """`p`, `a`, `b` are 112, 97, 98: buckets 0, 1, 2 of 16, and themselves of 128."""
    for given in ({"p": "1", "a": "2", "b": "3"}, {"b": "3", "a": "2", "p": "1"}):
        assert encode_properties(given, capacity, ended=True) == order
        assert encode_properties(given, capacity, ended=False) == order[:-1]


def test_no_property_is_no_text() -> None:
    assert encode_properties({}, 16, ended=True) == encode_properties({}, 16, ended=False) == b""


def test_values_and_names_are_written_as_they_are() -> None:
    assert encode_properties({"100%": "%s", "%d": "é"}, 16, ended=False) in (
        b"100%\x01%s\x02%d\x01\xc3\xa9", b"%d\x01\xc3\xa9\x02100%\x01%s",
    )  # fmt: skip
    assert encode_properties({"a": "\ud800x"}, 16, ended=True) == b"a\x01?x\x02"  # as Java does


def test_a_blank_text_is_written_and_does_not_hide_a_separator() -> None:
    assert encode_properties({"a": " "}, 16, ended=True) == b"a\x01 \x02"
    with pytest.raises(SeparatorInProperty):
        encode_properties({"a": " ", "b": "\x01"}, 16, ended=True)


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("pair", [("a\x01", "x"), ("a", "\x01"), ("a\x02b", "x"), ("a", "x\x02"),
                                  ("a", "\0"), ("\0", "x")])  # fmt: skip
def test_a_separator_within_a_name_or_value_is_refused(pair: tuple[str, str], ended: bool) -> None:
    with pytest.raises(SeparatorInProperty):
        encode_properties(dict([("b", "y"), pair]), 16, ended)
    with pytest.raises(SeparatorInProperty):
        encode_properties(dict([pair]), 16, ended)
    unchecked = encode_properties(dict([pair]), 16, ended=True, checked=False)
    assert unchecked == f"{pair[0]}\x01{pair[1]}\x02".encode()
