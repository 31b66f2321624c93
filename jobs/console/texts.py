"""Texts and times as a terminal may show them."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_HUMP = re.compile("_([a-z])")
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def safe(text: str) -> str:
    """Text that a terminal can take: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def duration(milliseconds: int) -> str:
    """A time span by its two largest units, as `3 d 4 h`."""
    sign, rest = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    for (name, size), (smaller, less) in pairwise(_UNITS):
        if rest >= size:
            more = rest % size // less
            fine = f" {more} {smaller}" if more and smaller != "ms" else ""
            return f"{sign}{rest // size} {name}{fine}"
    return f"{sign}{rest} ms"


def camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A row's fields by the names that they have in JSON: `queue_id` as `queueId`."""
    return {_HUMP.sub(lambda found: found[1].upper(), name): fields[name] for name in fields}
