"""Java's text in kernels: every UTF-8 pattern, hash and number, against a plain reference."""

import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from reput.store_format.java import parse_integer
from reput.store_format.kernels import java_text
from reput.store_format.kernels.bytes import BLOCK
from reput.store_format.kernels.compiler import settled
from tests.reference import javatext as reference

# Every boundary between two classes of bytes in UTF-8.
BOUNDARIES = bytes.fromhex(
    "00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff"
)


@njit(cache=True)
@settled
def _points(buf: npt.NDArray[np.uint8], end: int, out: Any) -> int:
    """All code points of buf[:end]; returns how many."""
    at, count = 0, 0
    while at < end:
        out[count], at = java_text.decode_at(buf, at, end)
        count += 1
    return count


def kernel_points(raw: bytes) -> npt.NDArray[np.uint32]:
    buf = np.frombuffer(raw + b"\x80", np.uint8)  # what stands behind the end must not matter
    out = np.zeros(len(raw) + 1, np.uint32)
    return out[: _points(buf, len(raw), out)]


def reference_points(raw: bytes) -> npt.NDArray[np.uint32]:
    return np.frombuffer(reference.decode_utf8(raw).encode("utf-32-le"), np.uint32)


def separated(*columns: bytes) -> bytes:
    """Every combination of one byte a column, each followed by a line feed."""
    grid = np.array(np.meshgrid(*(np.frombuffer(c, np.uint8) for c in columns), indexing="ij"))
    rows = grid.reshape(len(columns), -1).T
    feed = np.full((len(rows), 1), 10, np.uint8)
    return np.hstack((rows, feed)).tobytes()


ALL = bytes(range(256))


@pytest.mark.parametrize("lead", range(0, 256, 16))
def test_all_sequences_of_three_bytes(lead: int) -> None:
    # those of one and two bytes are among them: a line feed ends any sequence
    raw = separated(ALL[lead : lead + 16], ALL, ALL)
    assert np.array_equal(kernel_points(raw), reference_points(raw))


def test_sequences_of_four_bytes_at_every_boundary_and_those_that_the_text_ends_in() -> None:
    raw = separated(BOUNDARIES, BOUNDARIES, BOUNDARIES, BOUNDARIES)
    assert np.array_equal(kernel_points(raw), reference_points(raw))
    # a second, third and fourth byte of any value behind each lead of four
    for columns in ([ALL, b"\x80\xbf", b"\x80"], [b"\x90\x8f", ALL, b"\x80"],
                    [b"\x90", b"\x80", ALL]):  # fmt: skip
        raw = separated(bytes(range(0xF0, 0xF8)), *columns)
        assert np.array_equal(kernel_points(raw), reference_points(raw))
    for first in range(256):
        for raw in (bytes([first]), *(bytes([first, second]) for second in BOUNDARIES)):
            assert kernel_points(raw).tolist() == reference_points(raw).tolist(), raw.hex()
    for lead in (0xE0, 0xED, 0xEF, 0xF0, 0xF4):
        for second in BOUNDARIES:
            for third in BOUNDARIES:
                raw = bytes([lead, second, third])
                assert kernel_points(raw).tolist() == reference_points(raw).tolist(), raw.hex()


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.binary(max_size=40))
def test_decode_and_kernel_are_one(raw: bytes) -> None:
    text = java_text.decode(raw)
    assert text == reference.decode_utf8(raw)
    assert "".join(map(chr, kernel_points(raw).tolist())) == text


@pytest.mark.parametrize(("raw", "text"), [
    (b"\xed\xa0\x80", "\ufffd"), (b"\xed\xa0", "\ufffd"), (b"\xed", "\ufffd"),
    (b"\xed\xbf\xbfA", "\ufffdA"), (b"\xed\xa0\xed\xb0\x80", "\ufffd\ufffd"),
    (b"\xed\x9f\xbf", "\ud7ff"), (b"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"),
    (b"\xf0\x8f\xbf\xbf", "\ufffd\ufffd\ufffd\ufffd"), (b"\xf4\x8f\xbf\xbf", "\U0010ffff"),
    (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"), (b"\xf0\x9f\x98", "\ufffd"),
    (b"\xf0\x9f\x98A", "\ufffdA"), (b"\xc0\x80", "\ufffd\ufffd"), (b"\xfe\xff", "\ufffd\ufffd"),
])  # fmt: skip
def test_what_java_makes_of_malformed_text(raw: bytes, text: str) -> None:
    assert java_text.decode(raw) == text
    assert kernel_points(raw).tolist() == [ord(c) for c in text]


def kernel_hash(raw: bytes, seed: int = 0) -> int:
    """The hash; the same one at the buffer's start, behind ASCII and behind what is not."""
    hashes = set()
    for before in (b"", b"a" * BLOCK, b"\x80" * BLOCK):
        buf = np.frombuffer(before + raw + b"\x80", np.uint8)
        at = len(before)
        hashes.add(int(java_text.hash_code(buf, at, at + len(raw), np.int32(seed))))
    (only,) = hashes
    return only


@pytest.mark.parametrize(("text", "value"), [
    ("", 0), ("a", 97), ("TagA", 2598919), ("a||b", 3012833),
    ("polygenelubricants", -(1 << 31)),  # a known string of Integer.MIN_VALUE
    ("\U0001f600", 0xD83D * 31 + 0xDE00), ("\uffff", 0xFFFF), ("\U0010ffff", 0xDBFF * 31 + 0xDFFF),
    ("\U00010000", 0xD800 * 31 + 0xDC00),
])  # fmt: skip
def test_known_hashes(text: str, value: int) -> None:
    assert kernel_hash(text.encode()) == value
    assert java_text.hash_text(text) == value


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_hash_of_any_bytes_and_of_what_is_put_behind_it(raw: bytes, more: bytes) -> None:
    text = reference.decode_utf8(raw)
    assert kernel_hash(raw) == java_text.hash_text(text) == reference.hash_code(text)
    whole = text + "#" + reference.decode_utf8(more)
    assert kernel_hash(more, kernel_hash(b"#", kernel_hash(raw))) == java_text.hash_text(whole)


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.text(max_size=40))
def test_a_hash_of_any_text(text: str) -> None:
    assert java_text.hash_text(text) == reference.hash_code(text)
    assert java_text.hash_text("\ud800" + text) == reference.hash_code("\ud800" + text)


def kernel_integer(raw: bytes, bits: int) -> int | None:
    fits, value = java_text.parse_integer(np.frombuffer(raw + b"7", np.uint8), 0, len(raw), bits)
    return value if fits else None


def integer(text: str, bits: int) -> int | None:
    """As the kernel reads it, and Python in the same way."""
    try:
        plain: int | None = parse_integer(text, bits)
    except ValueError:
        plain = None
    assert kernel_integer(text.encode(), bits) == plain
    return plain


MOST = {16: 32767, 32: 2147483647, 64: 9223372036854775807}


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_the_range_of_a_number(bits: int) -> None:
    most = MOST[bits]
    for value in (0, 1, -1, most - 1, most, -most, -most - 1, most // 10, -(most // 10) * 10):
        assert integer(str(value), bits) == integer(f"{value:+d}", bits) == value
    for value in (most + 1, most + 3, -most - 2, most * 10, -most * 10, most * 100, 10**30):
        assert integer(str(value), bits) is None


@pytest.mark.parametrize(("text", "value"), [
    ("", None), ("+", None), ("-", None), ("--1", None), ("+-1", None), ("1-", None), (" 1", None),
    ("1 ", None), ("1_0", None), ("1.0", None), ("0x1", None), ("1e3", None), ("a", None),
    ("/", None), (":", None), ("-0", 0), ("+0", 0), ("007", 7), ("0" * 40 + "5", 5),
    ("9" * 4000, None),
    ("\u0663", 3),  # Arabic-Indic
    ("\uff11\uff12", 12),  # fullwidth
    ("1\u0967", 11),  # Devanagari after ASCII
    ("\U0001d7d9", None),  # a digit, but two UTF-16 units: Character.digit sees neither
    ("\u00b2", None),  # superscript two is no decimal digit
    ("\u2161", None),  # Roman numeral two
    ("\u2212", None),  # a minus, but not Java's
])  # fmt: skip
def test_what_java_takes_for_a_number(text: str, value: int | None) -> None:
    for bits in MOST:
        assert integer(text, bits) == value


def test_every_decimal_digit_of_the_plane_is_one_and_malformed_text_no_number() -> None:
    for character in map(chr, range(0x10000)):
        value = unicodedata.decimal(character, None)
        if value is not None:
            assert kernel_integer(character.encode(), 32) == value
    for raw in (b"\xff", b"1\xff", b"\xd9", b"1\xd9", b"\xed\xa0\x80"):
        assert kernel_integer(raw, 32) is None


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.text("+-0123456789\u0660\u0669\uff10 x", max_size=22), st.sampled_from(sorted(MOST)))
def test_any_number(text: str, bits: int) -> None:
    try:
        expected: int | None = reference.parse_integer(text, bits)
    except ValueError:
        expected = None
    assert integer(text, bits) == expected
