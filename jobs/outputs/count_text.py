"""How many there are of a thing, and when it was, as a person reads it."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counted(count: int, what: str) -> str:
    """`1 file`, `3 files`, `7,525 keys`, `2 copies`; what: the word for a single one."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def plural(what: str) -> str:
    """The word for several."""
    if what.endswith("y") and what[-2:-1] not in "aeiou":
        return f"{what[:-1]}ies"
    return f"{what}s"


def time_text(milliseconds: int) -> str:
    """An ISO time in UTC; the number itself where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
