"""Assigns the lost positions of queues to the damaged ranges whose fillers keep them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from reput.jobs.salvaging.damage_map import DamageMap
from reput.jobs.salvaging.repair_summary import RepairSummary
from reput.store_format.damage.queue_findings import Gap
from reput.store_format.damage.repair import LostPositions, least_bytes
from reput.store_format.layouts import BLANK_BYTES
from reput.udfs.range_files import places_in
from reput.udfs.staging import Staging


def place_lost(
    staging: Staging, found: DamageMap, summary: RepairSummary, crc_property: bool, spare_crc: bool
) -> dict[int, list[LostPositions]]:
    """The lost positions that each range keeps: range offset -> positions, in queue order.

    spare_crc: whether fillers may lack the `__CRC32#` property if room is short.

    If several ranges lie between two messages of a queue, nothing shows which range held the lost
    messages between them. Any range will do, as positions only show a queue's order.
    """
    pieces = list(_pieces(staging, found))
    placed, left = _place(pieces, found.gaps, crc_property)
    if left and spare_crc:  # a position is worth more than a checksum, see filler.fill
        crc_property = False
        placed, left = _place(pieces, found.gaps, crc_property)
    if left:  # gaps before a queue's first message need no fillers, so they come last
        inner = [gap for gap in found.gaps if not _begins(gap)]
        begins = [gap for gap in found.gaps if _begins(gap)]
        placed, left = _place(pieces, inner, crc_property, begins)
    for at, positions in placed.items():
        summary.filled += [{**position._asdict(), "range": at} for position in positions]
    for gap in left:
        summary.not_filled.append(vars(gap))
        summary.warnings.append(
            f"topic {gap.topic!r}, queue {gap.queue_id}: no room for {gap.count:,} lost "
            f"positions from {gap.first} on: {_without_fillers(gap)}"
        )
    return placed


def _without_fillers(gap: Gap) -> str:
    """What becomes of the queue's later positions."""
    if _begins(gap):
        return "the queue begins behind them"
    return "each batch keeps its own" if gap.batch else "only the queue files keep them"


def _begins(gap: Gap) -> bool:
    """Whether a gap precedes its queue's first message. RocketMQ accepts any first queueOffset, so
    such a gap needs no fillers; if it gets some, they are those at the gap's end.
    """
    return gap.after < 0


def _place(
    pieces: list[tuple[int, int]], gaps: list[Gap], crc_property: bool, last: Sequence[Gap] = ()
) -> tuple[dict[int, list[LostPositions]], list[Gap]]:
    """(range offset -> the positions that it has room for, the gaps without room).

    The gap that ends first takes the first range between its neighbours, as gaps that end later
    can still use later ranges. last: gaps that only get the room which the others leave.
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
    """(offset, room in bytes) of each lost range, which is split where a segment ends."""
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
