"""Links the scanned splits into one log: proves the parallel walk, and finds the log's end.

The scan of a split without a known first record has searched for that record. If the previous
split ends exactly there, both were walked as by a single reader. Else the split is scanned again
from the physical offset at which the previous split ends.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from reput.store_format.damage.queue_ends import NO_LOSSES, NO_QUEUE_DAMAGE, Losses, QueueDamage
from reput.store_format.faults import REFUSE, Fault
from reput.store_format.log.segments import Splits

if TYPE_CHECKING:
    import pyarrow as pa

Scanned = Mapping[str, Any]  # one SCANNED row, see reput.udfs.staging


class ScannedRow(Mapping[str, Any]):
    """A row of a table, without a dict of its own: 50 TB have 186,264 splits."""

    __slots__ = ("_at", "_columns")

    def __init__(self, columns: dict[str, Any], at: int) -> None:
        self._columns, self._at = columns, at

    def __getitem__(self, name: str) -> Any:
        return self._columns[name][self._at].as_py()

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def by_split(rows: "pa.Table") -> dict[int, Scanned]:
    """Split -> its row in a table of SCANNED rows, or of others with their columns."""
    found: dict[int, Scanned] = {}
    for batch in rows.combine_chunks().to_batches():
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        splits = batch.column("split").to_pylist()
        found.update((split, ScannedRow(columns, at)) for at, split in enumerate(splits))
    return found


class Break(NamedTuple):
    """The end of a log before its last byte, and the fault there."""

    split: int
    offset: int  # physical offset
    fault: Fault
    size: int  # value of the faulty field, mostly totalSize
    rest_is_zero: bool  # only zeros follow in the log


@dataclass
class Linked:
    """The splits that make up the log, in order, and its end (a physical offset)."""

    accepted: list[Scanned] = field(default_factory=list)
    end: int = 0
    broke: Break | None = None
    lost: Losses = NO_LOSSES  # what damage took, if the scan went past it
    # As --on-damage: what to do if a queue's first queueOffset is impossible (queues.py).
    firsts: str = REFUSE
    queue_damage: QueueDamage = NO_QUEUE_DAMAGE

    @property
    def runs(self) -> dict[int, str]:
        """Split -> name of its run files; a split without records has none."""
        return runs_of(self.accepted)


class Rescan(NamedTuple):
    """A split that must be scanned again. first: physical offset of its true first record."""

    split: int
    first: int


def link(splits: Splits, scanned: Mapping[int, Scanned]) -> Linked | Rescan:
    """Follow the log through its splits. scanned: split number -> SCANNED row."""
    linked, before = Linked(), _last_entry(())
    for number, segment in enumerate(splits.segments):
        walk = link_segment(splits, scanned, number)
        if isinstance(walk, Rescan):
            return walk
        other = _out_of_sequence(walk.accepted, before)
        if other is not None:
            linked.accepted += walk.accepted[: other[0]]
            linked.broke = other[1]
            linked.end = other[1].offset
            return linked
        linked.accepted += walk.accepted
        linked.end = walk.end
        before = _last_entry(reversed(walk.accepted)) or before
        if walk.fault not in (Fault.NONE, Fault.BLANK):
            linked.broke = _break(splits, scanned, walk.accepted[-1])
            return linked
        if splits.limit is not None and splits.limit < segment.end:
            linked.end = max(splits.limit, segment.start)
            assert walk.end == linked.end, f"{segment.path}: no record ends at {splits.limit}"
            return linked
        if walk.end < segment.end:
            raise AssertionError(f"split walk of {segment.path} stopped at {walk.end}")
    return linked


# (dictionary that gets the SCANNED rows, numbers of splits, split -> its known first record)
ScanSplitsOf = Callable[[dict[int, Scanned], range | tuple[int, ...], dict[int, int]], None]


def link_all(splits: Splits, scan: ScanSplitsOf) -> Linked:
    """Scan all splits, and scan again each split that was walked from a wrong first record."""
    numbers: range | tuple[int, ...] = range(splits.total)
    scanned: dict[int, Scanned] = {}
    firsts: dict[int, int] = {}
    while True:
        scan(scanned, numbers, firsts)
        linked = link(splits, scanned)
        if isinstance(linked, Linked):
            return linked
        firsts, numbers = {linked.split: linked.first}, (linked.split,)


class SegmentWalk(NamedTuple):
    """The walk of one segment, to its end or first fault."""

    accepted: list[Scanned]  # SCANNED rows of its splits
    end: int  # physical offset of the walk's stop
    fault: Fault  # why it stopped; NONE, BLANK: at the segment's end


def link_segment(
    splits: Splits, scanned: Mapping[int, Scanned], number: int
) -> SegmentWalk | Rescan:
    """Follow segment `number` through its splits."""
    segment = splits.segments[number]
    accepted: list[Scanned] = []
    expected = segment.start
    after = min((number + 1) * splits.in_segment, splits.total)
    for split in range(number * splits.in_segment, after):
        # No record starts in this split: a record or BLANK before it ends after it.
        if expected >= splits.stretch(split).end:
            continue
        row = scanned[split]
        if row["first"] != expected:
            return Rescan(split, expected)
        accepted.append(row)
        expected = row["next"]
        fault = Fault(row["fault"])
        if fault not in (Fault.NONE, Fault.BLANK):
            return SegmentWalk(accepted, expected, fault)
    return SegmentWalk(accepted, expected, Fault.BLANK)


def _out_of_sequence(rows: Sequence[Scanned], before: Sequence[int]) -> tuple[int, Break] | None:
    """The first split of a DLedger log whose first entry does not follow the previous split's last
    entry: (index in `rows`, the break). Entries within a split were compared by the split's walk.

    before: (index, term) of the last entry before the rows, or empty.
    """
    for number, row in enumerate(rows):
        sequence = row.get("sequence")
        if not sequence or sequence[0] < 0:
            continue
        (first, term), fault, value = sequence[:2], Fault.NONE, sequence[0]
        if before and first != before[0] + 1:
            fault = Fault.HEAD_INDEX
        elif before and term < before[1]:
            fault, value = Fault.HEAD_TERM, term
        if fault != Fault.NONE:
            return number, Break(row["split"], row["first"], fault, value, rest_is_zero=False)
        before = sequence[2:]
    return None


def _last_entry(rows: Iterable[Scanned]) -> Sequence[int]:
    """(index, term) of the last DLedger entry, or empty. rows: in reverse order."""
    known = (row.get("sequence") for row in rows)
    return next((each[2:] for each in known if each and each[2] >= 0), ())


def runs_of(rows: Iterable[Scanned]) -> dict[int, str]:
    """Split -> name of its run files, for splits with records."""
    return {row["split"]: row["run"] for row in rows if row["records"]}


def _break(splits: Splits, scanned: Mapping[int, Scanned], row: Scanned) -> Break:
    rest_is_zero = row["rest_is_zero"] and all(
        _is_zero(scanned[split]) for split in range(row["split"] + 1, splits.total)
    )
    return Break(row["split"], row["next"], Fault(row["fault"]), row["size"], rest_is_zero)


def _is_zero(row: Scanned) -> bool:
    """Whether a split has only zeros.

    The walk of a segment's first split always begins at the segment's start, and stops at the
    zeros. The walk of any other split searches for a first record and finds none.
    """
    begun = row["first"] >= 0 and (row["records"] > 0 or Fault(row["fault"]) != Fault.ZEROS)
    return bool(row["rest_is_zero"] and not begun)
