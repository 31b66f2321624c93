"""Single texts as the JDK decodes and hashes them."""

import pytest

from reput.store_format.java import decode, hash_text, parse_integer

BAD = "\ufffd"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", ""),
        (b"a\x00b", "a\x00b"),
        ("\u00e9\u4e2d\U0001f600".encode(), "\u00e9\u4e2d\U0001f600"),
        (b"\xff", BAD),
        (b"\xc3", BAD),
        (b"\xc3x", f"{BAD}x"),
        (b"\xc0\x80", 2 * BAD),  # Java's own two bytes for NUL are not UTF-8
        (b"\xe4\xb8", BAD),  # a prefix of three bytes is one
        (b"\xf0\x9f\x98", BAD),
        (b"\xf4\x90\x80\x80", 4 * BAD),  # beyond the last code point
        (b"\xed\xa0\x80", BAD),  # an encoded surrogate is one, in Python three
        (b"\xed\xbf\xbf", BAD),
        (b"\xed\xa0", BAD),
        (b"\xed\xa0x", f"{BAD}x"),
        (b"\xed\xa0\x80\xed\xb0\x80", 2 * BAD),
        (b"\xed\x9f\xbf", "\ud7ff"),
    ],
)
def test_text_is_decoded_as_by_jdk_17(raw: bytes, text: str) -> None:
    assert decode(raw) == text


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(1 << 31)),  # known to have the lowest int
        ("\uffff\uffff", 0xFFFF * 32),
        ("\U00010000", 0xD800 * 31 + 0xDC00),  # by UTF-16 units
        ("\ud800", 0xD800),
    ],
)
def test_a_hash_is_javas_signed_int(text: str, hashed: int) -> None:
    assert hash_text(text) == hashed


@pytest.mark.parametrize(
    ("written", "bits", "number"),
    [
        ("5", 32, 5), ("+5", 32, 5), ("-5", 32, -5), ("-0", 32, 0), ("0" * 40 + "7", 32, 7),
        ("2147483647", 32, 2**31 - 1), ("-2147483648", 32, -(2**31)),
        ("9223372036854775807", 64, 2**63 - 1), ("-9223372036854775808", 64, -(2**63)),
        ("\u0663\uff15", 32, 35),  # Arabic and fullwidth digits: Character.digit
    ],
)  # fmt: skip
def test_integers_of_any_script_up_to_the_classs_end(written: str, bits: int, number: int) -> None:
    assert parse_integer(written, bits) == number


@pytest.mark.parametrize(
    ("written", "bits"),
    [
        ("", 32), ("+", 32), ("-", 64), ("+-5", 32), (" 5", 32), ("5 ", 32), ("5.0", 32),
        ("1_0", 32), ("0x1", 32), ("5L", 64), ("2147483648", 32), ("-2147483649", 32),
        ("9223372036854775808", 64), ("9" * 4000, 64), ("\U0001d7db", 32),  # a pair of chars
    ],
)  # fmt: skip
def test_what_is_no_integer_throws(written: str, bits: int) -> None:
    with pytest.raises(ValueError, match="no number"):
        parse_integer(written, bits)
