"""Java's ways in plain Python: text, hash codes, HashMap's order, fastjson's integer keys."""

import re
import sys
import unicodedata
from array import array
from functools import lru_cache

# ---
# Java's text for single strings, in plain Python: kernels/java_text.py has the kernels for many.
#
# The decoder of JDK 17 and Python's `errors="replace"` differ in one pattern: an encoded surrogate
# (ED A0..BF, and its continuation byte if it is there) becomes one U+FFFD in Java and several in
# Python.

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

    A sign, then decimal digits of any script, no blank, no underscore; as the kernel
    `java_text.parse_integer`.
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


# ---
# The order in which `java.util.HashMap` yields its keys, and so of a message's properties.
#
# A broker reads a message's properties into a HashMap and writes them out again
# (MessageDecoder.string2messageProperties, messageProperties2String).

_LOAD_FACTOR = 0.75
_LONGEST_LIST = 8  # HashMap.TREEIFY_THRESHOLD
_LEAST_WITH_TREES = 64  # HashMap.MIN_TREEIFY_CAPACITY


@lru_cache(maxsize=4096)
def hash_map_order(names: tuple[str, ...], capacity: int) -> tuple[int, ...]:
    """The order in which a HashMap iterates over `names`, as their indices.

    The names must differ and are put into the map in the given order. capacity: the map's first
    one, a power of two. A table of fewer than 64 buckets doubles when a bucket of eight names gets
    one more (HashMap.treeifyBin). A larger table turns such a bucket into a tree, whose order this
    function does not reproduce.
    """
    hashes = [hash_text(name) & 0xFFFFFFFF for name in names]
    spreads = [h ^ (h >> 16) for h in hashes]
    for many, spread in enumerate(spreads):
        if capacity < _LEAST_WITH_TREES:
            bucket = spread & (capacity - 1)
            if sum(other & (capacity - 1) == bucket for other in spreads[:many]) >= _LONGEST_LIST:
                capacity *= 2
        if many + 1 > capacity * _LOAD_FACTOR:
            capacity *= 2
    return tuple(sorted(range(len(names)), key=lambda i: spreads[i] & (capacity - 1)))


# ---
# JSON as RocketMQ writes it by fastjson, which leaves integer keys without quotes.

# A text, or a key without quotes.
_TEXT_OR_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?[0-9]+)(\s*:)')


def quoted_keys(raw: bytes, mark: bytes = b"") -> bytes:
    """The JSON with its integer keys as texts, each with `mark` before it."""

    def quoted(found: re.Match[bytes]) -> bytes:
        if found[2] is None:
            return found[0]
        return b'%b"%b%b"%b' % (found[1], mark, found[2], found[3])

    return _TEXT_OR_KEY.sub(quoted, raw)
