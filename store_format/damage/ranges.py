"""What a scan past damage reports: ranges of the log, one by one or many as rows."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from reput.store_format.faults import Fault


class DamageKind(StrEnum):
    """What a range of the log is, if not sound."""

    DAMAGED = "damaged"
    STALE = "stale"  # records of an earlier time, or of another place
    CONTENT = "content"  # one record that only fails a CRC; it is dispatched
    MISSING = "missing"  # no file, or a file that ends too early


class Damage(NamedTuple):
    """One range [offset, end) of the log, in physical offsets, and what was wrong first."""

    offset: int
    end: int
    kind: DamageKind
    fault: Fault
    size: int  # totalSize at `offset`
    # the field at fault, if it is among the record's first fields; of stale records: the witnesses
    # (witnesses.packed)
    value: int | None
    follows: str  # what is at `end`: record, stale record, BLANK, zeros, segment's end

    @property
    def length(self) -> int:
        return self.end - self.offset


KINDS = tuple(DamageKind)
CONTENT = KINDS.index(DamageKind.CONTENT)
FOLLOWS = ("record", "stale record", "BLANK", "zeros", "segment's end", "the log's end")

# One row a range, see Damage. kind and follows: numbers in the tuples above.
RANGE = np.dtype(
    [
        ("offset", "<i8"),
        ("end", "<i8"),
        ("size", "<i8"),
        ("value", "<i8"),
        ("hasValue", "u1"),
        ("kind", "u1"),
        ("fault", "u1"),
        ("follows", "u1"),
    ]
)


class Ranges(NamedTuple):
    """Ranges in the log's order, RANGE rows; a live record follows each of them."""

    rows: np.ndarray


def as_row(d: Damage) -> tuple[int, ...]:
    value = d.value if d.value is not None else 0
    row = (d.offset, d.end, d.size, value, d.value is not None, KINDS.index(d.kind))
    return (*row, int(d.fault), FOLLOWS.index(d.follows))


def damages(rows: np.ndarray) -> Iterator[Damage]:
    for offset, end, size, value, has_value, kind, fault, follows in rows.tolist():
        said = value if has_value else None
        yield Damage(offset, end, KINDS[kind], Fault(fault), size, said, FOLLOWS[follows])
