"""How many there are of a thing, as a person says it."""


def counted(count: int, what: str) -> str:
    """`1 file`, `3 files`, `7,525 keys`, `2 copies`; what: the word for a single one."""
    return f"{count:,} {what if count == 1 else plural(what)}"


def plural(what: str) -> str:
    """The word for several."""
    if what.endswith("y") and what[-2:-1] not in "aeiou":
        return f"{what[:-1]}ies"
    return f"{what}s"
