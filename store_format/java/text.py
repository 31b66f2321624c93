"""Java's text for single strings, in plain Python: `strings` has the kernels for many.

The decoder of JDK 17 and Python's `errors="replace"` differ in one pattern: an encoded surrogate
(ED A0..BF, and its continuation byte if it is there) becomes one U+FFFD in Java and several in
Python.
"""

import re

import numpy as np

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def decode(raw: bytes) -> str:
    """`new String(raw, UTF_8)` of the JDK, as a Python string."""
    return _SURROGATE.sub("\ufffd".encode(), raw).decode("utf-8", errors="replace")


def hash_text(text: str) -> int:
    """`String.hashCode` of a Python string; lone surrogates are UTF-16 units of their own."""
    raw = np.frombuffer(text.encode("utf-16-be", "surrogatepass"), ">u2")
    h = 0
    for unit in raw.tolist():
        h = (31 * h + unit) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h
