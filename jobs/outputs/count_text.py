"""Counts and times as texts for people."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(count: int, what: str) -> str:
    """`1 file`, `3 files`, `7,525 keys`, `2 copies`; what: the noun in the singular."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def plural(what: str) -> str:
    if what.endswith("y") and what[-2:-1] not in "aeiou":
        return f"{what[:-1]}ies"
    return f"{what}s"


def time_text(milliseconds: int) -> str:
    """An ISO time in UTC; the number itself if it is outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
