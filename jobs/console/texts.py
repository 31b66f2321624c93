"""Texts and times as a terminal may show them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(milliseconds: int) -> str:
    """An ISO time in UTC; the number itself where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def safe(text: str) -> str:
    """Text that a terminal can take: what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
