"""Reports the ranges of one segment; ranges of one kind that touch are reported as one."""

from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.damage.ranges import KINDS, RANGE, Damage, DamageKind, Ranges, as_row
from reput.store_format.damage.resync import Prover
from reput.store_format.faults import HEAD_FIELDS, REASONS, Fault
from reput.store_format.layouts import DLEDGER_HEAD, RECORD_HEAD, as_struct
from reput.store_format.log.records import Rows
from reput.store_format.log.walk import Marks

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
        """The ranges before and of a stride's rows; faults, values: see strides.stride."""
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
