"""What a scan past damage reports: ranges of the log, one by one or many as rows, joined where they
touch, and counted by cause.
"""

from collections.abc import Callable, Generator, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.damage.resync import Prover
from reput.store_format.faults import HEAD_FIELDS, REASONS, Fault
from reput.store_format.layouts import DLEDGER_HEAD, RECORD_HEAD, as_struct
from reput.store_format.log.records import Rows
from reput.store_format.log.walk import Marks


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


# ---
# Reports the ranges of one segment; ranges of one kind that touch are reported as one.

Faults = npt.NDArray[np.uint8]
Values = npt.NDArray[np.int64]
_HEAD, _HEAD_NAMES = as_struct(RECORD_HEAD), RECORD_HEAD.names or ()


class RangeReporter:
    """Gives Damage and Ranges, in the log's order."""

    def __init__(self, prover: Prover) -> None:
        self.count = 0
        self._prover = prover
        self._held: Damage | None = None  # the next range may extend it

    def range(
        self,
        kind: DamageKind,
        at: int,
        end: int,
        fault: Fault,
        follows: str,
        stale_by: int | None = None,
    ) -> Generator[Any, None, None]:
        held = self._held
        if held and held.end == at and held.kind == kind != DamageKind.CONTENT:
            self._held = held._replace(end=end, follows=follows)
            return
        if held and held.end == at and kind == DamageKind.STALE:
            held = held._replace(follows="stale record")
        self._held = held
        yield from self.rest()
        size, value = self._values_at(at, fault)
        value = value if stale_by is None else stale_by
        self._held = Damage(at, end, kind, fault, size, value, follows)
        self.count += 1

    def of_stride(
        self, rows: Rows, faults: Faults, values: Values, wrong: Marks | None
    ) -> Generator[Any, None, None]:
        """The ranges before and of a stride's rows; faults, values: see tolerant.stride."""
        after = np.flatnonzero(faults[: len(rows)])
        ranges = np.zeros(len(after), RANGE)
        ranges["offset"] = rows["physicalOffset"][after - 1] + rows["size"][after - 1]
        ranges["end"] = rows["physicalOffset"][after]
        ranges["size"] = ranges["end"] - ranges["offset"]
        ranges["value"] = values[after]
        ranges["hasValue"] = 1
        ranges["fault"] = faults[after]
        ranges["kind"] = KINDS.index(DamageKind.DAMAGED)
        ranges["kind"][ranges["fault"] == Fault.PLACE] = KINDS.index(DamageKind.STALE)
        if wrong is not None:
            content = [
                self._content(rows[i], int(wrong[i])) for i in np.flatnonzero(wrong[: len(rows)])
            ]
            ranges = np.append(ranges, np.array(content, RANGE))
            ranges = ranges[np.argsort(ranges["offset"])]
        if len(ranges):
            yield from self.rest()
            self.count += len(ranges)
            yield Ranges(ranges)

    def rest(self) -> Generator[Any, None, None]:
        if self._held:
            yield self._held
        self._held = None

    def _content(self, row: Any, fault: int) -> tuple[int, ...]:
        at = int(row["physicalOffset"])
        values = self._values_at(at, Fault(fault))
        end = at + int(row["size"])
        return as_row(Damage(at, end, DamageKind.CONTENT, Fault(fault), *values, "record"))

    def _values_at(self, at: int, fault: Fault) -> tuple[int, int | None]:
        """(totalSize at `at`, the field at fault if it is among the record's first fields)."""
        name = HEAD_FIELDS.get(fault)
        if name is not None:
            head = self._prover.bytes_at(at, DLEDGER_HEAD.itemsize).ljust(
                DLEDGER_HEAD.itemsize, b"\0"
            )
            entry = np.frombuffer(head, DLEDGER_HEAD)[0]
            return int(entry["size"]), int(entry[name])
        at += self._prover.head
        raw = self._prover.bytes_at(at, RECORD_HEAD.itemsize).ljust(RECORD_HEAD.itemsize, b"\0")
        fields = _HEAD.unpack(raw)
        size, name = fields[0], REASONS.get(fault, ("", ""))[0]
        if name in _HEAD_NAMES:
            return size, fields[_HEAD_NAMES.index(name)]
        return size, size if name == "size" else None


# ---
# A segment's damaged ranges counted by cause, those of the log's tail apart.

Causes = dict[tuple[str, int, bool], list[int]]  # (kind, fault, in the tail) -> [ranges, bytes]


class RangeTotals:
    """Counts ranges as they come, in the log's order.

    live_end: returns where the last live record so far ends; ranges after it are the log's tail,
    unless a live record still follows.
    """

    def __init__(self, live_end: Callable[[], int]) -> None:
        self._live_end = live_end
        self._before: Causes = {}
        self._tail: Causes = {}
        self._last = -1  # where the last range starts
        self._lost_end = self._lost_end_in_tail = -1

    @property
    def causes(self) -> list[list[object]]:
        """[kind, fault, in the tail, ranges, bytes] of each cause."""
        self._settle()
        return [[*key, *counted] for key, counted in [*self._before.items(), *self._tail.items()]]

    @property
    def lost_end(self) -> int:
        """Where the last lost range before the tail ends; -1 where none is."""
        self._settle()
        return self._lost_end

    def add(self, damage: Damage) -> None:
        self._settle()
        _count(self._tail, (str(damage.kind), int(damage.fault), True), 1, damage.length)
        self._last = damage.offset
        if damage.kind != DamageKind.CONTENT:
            self._lost_end_in_tail = damage.end

    def add_rows(self, rows: np.ndarray) -> None:
        """Count RANGE rows, each followed by a live record."""
        self._settle()
        causes = rows["kind"].astype(np.int64) << 8 | rows["fault"]
        lengths = rows["end"] - rows["offset"]
        for cause in np.unique(causes).tolist():
            of = causes == cause
            key = str(KINDS[cause >> 8]), cause & 0xFF, False
            _count(self._before, key, int(np.count_nonzero(of)), int(lengths[of].sum()))
        lost = rows["end"][rows["kind"] != CONTENT]
        if len(lost):
            self._lost_end = max(self._lost_end, int(lost[-1]))

    def _settle(self) -> None:
        """Once a live record follows the tail's ranges, count them as ranges before the tail."""
        if not self._tail or self._last >= self._live_end():
            return
        for (kind, fault, _), (count, length) in self._tail.items():
            _count(self._before, (kind, fault, False), count, length)
        self._tail.clear()
        self._lost_end = max(self._lost_end, self._lost_end_in_tail)


def _count(causes: Causes, cause: tuple[str, int, bool], ranges: int, length: int) -> None:
    counted = causes.setdefault(cause, [0, 0])
    counted[0] += ranges
    counted[1] += length
