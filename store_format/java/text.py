"""Java's text for single strings, in plain Python: `strings` has the kernels for many.

The decoder of JDK 17 and Python's `errors="replace"` differ in one pattern: an encoded surrogate
(ED A0..BF, and its continuation byte if it is there) becomes one U+FFFD in Java and several in
Python.
"""

import re
import sys
import unicodedata
from array import array

_UNITS = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode(raw: bytes) -> str:
    """`new String(raw, UTF_8)` of the JDK, as a Python string."""
    return _SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", errors="replace")


def hash_text(text: str) -> int:
    """`String.hashCode` of a Python string; lone surrogates are UTF-16 units of their own."""
    units = array("H", text.encode(_UNITS, "surrogatepass"))
    h = 0
    for unit in units:
        h = (31 * h + unit) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


def parse_integer(text: str, bits: int) -> int:
    """`Integer.parseInt` or `Long.parseLong`, by `bits`, and `valueOf`. Raises ValueError.

    As `strings.parse_integer`: a sign, then decimal digits of any script, no blank, no underscore.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    values = [unicodedata.decimal(c, -1) if ord(c) < 0x10000 else -1 for c in digits]
    if not values or min(values) < 0:
        raise ValueError("no number")
    number = int("".join(map(str, values)).lstrip("0")[:20] or "0")  # no long has 20 digits
    number = -number if text[0] == "-" else number
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"no number of {bits} bits")
    return number
