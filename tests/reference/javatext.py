"""Java's text and number rules, where they differ from Python's."""

import unicodedata


def wrap32(value: int) -> int:
    """An int as Java keeps it: 32 bits, two's complement."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


def wrap64(value: int) -> int:
    """A long as Java keeps it."""
    return (value + 0x8000_0000_0000_0000) % 0x1_0000_0000_0000_0000 - 0x8000_0000_0000_0000


def divide(value: int, divisor: int) -> int:
    """Java's `/`: towards zero, where Python's `//` goes down."""
    quotient = abs(value) // abs(divisor)
    return quotient if (value < 0) == (divisor < 0) else -quotient


def remainder(value: int, divisor: int) -> int:
    """Java's `%`: the sign of the left side."""
    return value - divide(value, divisor) * divisor


def decode_utf8(data: bytes) -> str:
    """`new String(bytes, UTF_8)`.

    An encoded surrogate (ED, A0..BF, with its continuation byte if there is one) is one U+FFFD in
    Java; Python would give one for each byte. Everything else agrees.
    """
    pieces = []
    start = at = 0
    while (at := data.find(b"\xed", at)) >= 0:
        if at + 1 < len(data) and 0xA0 <= data[at + 1] <= 0xBF:
            end = at + 2
            if end < len(data) and 0x80 <= data[end] <= 0xBF:
                end += 1
            pieces += [data[start:at].decode("utf-8", "replace"), "\ufffd"]
            start = at = end
        else:
            at += 1
    pieces.append(data[start:].decode("utf-8", "replace"))
    return "".join(pieces)


def hash_code(text: str) -> int:
    """`String.hashCode`: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return wrap32(value)


def split(text: str, separator: str) -> list[str]:
    """`String.split` at one plain character: trailing empty parts are dropped."""
    if separator not in text:
        return [text]
    parts = text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def parse_integer(text: str, bits: int) -> int:
    """`Integer.parseInt`, `Long.parseLong`, `Short.parseShort`: ValueError where Java throws.

    A sign, then digits in any script (Character.digit looks at single UTF-16 units, so only
    those of the basic plane); no blanks, no underscores.
    """
    negative = text.startswith("-")
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits:
        raise ValueError(f"no digits in {text!r}")
    value = 0
    for character in digits:
        digit = unicodedata.decimal(character, None) if ord(character) < 0x10000 else None
        if digit is None:
            raise ValueError(f"not a number: {text!r}")
        value = value * 10 + digit
    value = -value if negative else value
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{text!r} does not fit in {bits} bits")
    return value


def is_blank(text: str | None) -> bool:
    """commons-lang `StringUtils.isBlank`: null, empty, or only `Character.isWhitespace`."""
    return all(_is_whitespace(character) for character in text or "")


def _is_whitespace(character: str) -> bool:
    if character in "\t\n\v\f\r\x1c\x1d\x1e\x1f":
        return True
    # Spaces, but not those that forbid a line break.
    return (unicodedata.category(character) in ("Zs", "Zl", "Zp")
        and character not in "\xa0\u2007\u202f")  # fmt: skip
