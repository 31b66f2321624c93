"""Decisions to commit or roll back transactions: one for all, or a file with a line for each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from reput.store_format.faults import StoreError

_LINES_MOST = 10_000_000
_SHOWN = 60


class Outcome(StrEnum):
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Decisions(NamedTuple):
    """default: for transactions that are not named; None: they stay as they are.
    named: by UNIQ_KEY, or by the half message's physical offset.
    """

    default: Outcome | None
    named: Mapping[str | int, Outcome]


def read_decisions(name: str, text: str) -> Decisions:
    """The decisions of a file: lines `UNIQ_KEY commit`, or `PHYSICAL_OFFSET rollback`.

    Empty lines and lines that begin with `#` are left out. A name of at most 20 decimal digits,
    which is shorter than a UNIQ_KEY, is a physical offset. Raises StoreError, which names file,
    line and field.
    """
    found: dict[str | int, Outcome] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{name}: line {number}"
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if number > _LINES_MOST:
            raise StoreError(f"{where}: more than {_LINES_MOST} lines")
        if len(words) != 2:
            raise StoreError(f"{where}: {len(words)} words; `UNIQ_KEY commit` is wanted")
        try:
            decision = Outcome(words[1].lower())
        except ValueError:
            raise StoreError(
                f"{where}: decision {words[1][:_SHOWN]!r}: commit or rollback is wanted"
            ) from None
        whole = words[0].isascii() and words[0].isdigit() and len(words[0]) <= 20
        key = int(words[0]) if whole else words[0]
        if found.setdefault(key, decision) != decision:
            raise StoreError(f"{where}: {words[0][:_SHOWN]!r} was decided otherwise before")
    return Decisions(None, found)
