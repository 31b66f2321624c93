"""Which damaged range keeps which lost positions of queues."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.repair_summary import RepairSummary
from reput.store_format.damage.filler import LostPositions, least_bytes
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.layouts import BLANK_BYTES
from reput.udfs.range_files import places_in
from reput.udfs.staging import Staging


def place_lost(
    staging: Staging, found: DamageMap, summary: RepairSummary, crc_property: bool, spare_crc: bool
) -> dict[int, list[LostPositions]]:
    """The lost positions that each range keeps: its offset -> positions, in the order of queues.

    spare_crc: where room is short, fillers may do without the `__CRC32#` that others have.

    Where several ranges lie between two messages of a queue nothing tells which of them took
    the messages between; any will do, as a queue's order is all that its positions show.
    """
    pieces = list(_pieces(staging, found))
    placed, left = _place(pieces, found.gaps, crc_property)
    if left and spare_crc:  # a position is worth more than a checksum, see filler.fill
        crc_property = False
        placed, left = _place(pieces, found.gaps, crc_property)
    if left:  # what a queue lacks before its first message displaces nobody, so it comes last
        inner = [gap for gap in found.gaps if not _begins(gap)]
        begins = [gap for gap in found.gaps if _begins(gap)]
        placed, left = _place(pieces, inner, crc_property, begins)
    for at, positions in placed.items():
        summary.filled += [{**position._asdict(), "range": at} for position in positions]
    for gap in left:
        summary.not_filled.append(vars(gap))
        then = "the queue begins behind them" if _begins(gap) else "only the queue files keep them"
        summary.warnings.append(
            f"topic {gap.topic!r}, queue {gap.queue_id}: no room for {gap.count:,} lost "
            f"positions from {gap.first} on: {then}"
        )
    return placed


def _begins(gap: Gap) -> bool:
    """Whether a queue has nothing before a gap. RocketMQ takes a queue's first queueOffset as it
    is, so that such a gap needs no fillers; but where it has some, they reach to its end.
    """
    return gap.after < 0


def _place(
    pieces: list[tuple[int, int]], gaps: list[Gap], crc_property: bool, last: Sequence[Gap] = ()
) -> tuple[dict[int, list[LostPositions]], list[Gap]]:
    """The positions by the range that has room for them, and the gaps that are left.

    The gap that ends first takes the first range that it may have: what is left then can still be
    taken by those that end later. last: gaps that take what room the others leave.
    """
    starts = np.array([start for start, _ in pieces], np.int64)
    room = [length for _, length in pieces]
    placed: dict[int, list[LostPositions]] = {}
    over = []
    for gap in [*sorted(gaps, key=_end), *sorted(last, key=_end)]:
        low, high = map(int, np.searchsorted(starts, (gap.after, gap.before)))
        first, left = gap.first, gap.count
        need = least_bytes(gap.topic, crc_property)
        short = max(left - sum(each // need for each in room[low:high]), 0)
        if short and _begins(gap):
            over.append(replace(gap, count=short))
            first, left, short = first + short, left - short, 0
        for at in range(low, high):
            many = min(left, room[at] // need)
            if many:
                position = LostPositions(gap.topic, gap.queue_id, first, many)
                placed.setdefault(int(starts[at]), []).append(position)
                room[at] -= many * need
                first, left = first + many, left - many
        if short:
            over.append(replace(gap, first=first, count=left))
    return placed, over


def _end(gap: Gap) -> int:
    return gap.before


def _pieces(staging: Staging, found: DamageMap) -> Iterator[tuple[int, int]]:
    """(offset, room) of each range that is lost; a hole of several segments one by one."""
    size = found.segment_bytes
    read = places_in(staging)
    losses = found.linked.lost.segments
    places = (place for loss in losses for place in read(loss).tolist())
    for start, length in places:
        end = start + length
        while start < end:
            stop = min(end, (start // size + 1) * size)
            yield start, stop - start - (BLANK_BYTES if stop % size == 0 else 0)
            start = stop
