"""Compares the bytes of logs, piece by piece, on an engine."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.jobs.comparing.side import Side, Span
from reput.jobs.engines.engine import Engine, Row
from reput.jobs.pipeline.pipeline import guided, stage_by_tasks
from reput.store_format.notes import Progress
from reput.udfs.compare.logs import UNLIKE, ComparedPiece, CompareRanges

_PIECE_BYTES = 64 << 20


class Parting(NamedTuple):
    """The spans in which two logs differ, in physical offsets; `ours` is the first store.

    unlike: spans with different bytes, from the first such byte on.
    ours, theirs: spans that only one log has, after the starts of both logs.
    """

    unlike: tuple[Span, ...]
    ours: tuple[Span, ...]
    theirs: tuple[Span, ...]

    @property
    def spans(self) -> list[Span]:
        """All spans in order, joined where they meet."""
        found: list[Span] = []
        for start, end in sorted((*self.unlike, *self.ours, *self.theirs)):
            if found and start <= found[-1][1]:
                found[-1] = found[-1][0], max(found[-1][1], end)
            else:
                found.append((start, end))
        return found

    @property
    def first(self) -> int | None:
        """The start of the first span; None if there is none."""
        return min((start for start, _ in self.spans), default=None)


def part(engine: Engine, sides: Sequence[Side], progress: Progress) -> list[Parting]:
    """Compare each side with the first side: a Parting for each but the first, in order.

    Raises StoreChanged, OSError, EngineFailed.
    """
    pieces = tuple(_pieces(sides))
    found: dict[int, list[Row]] = {number: [] for number in range(1, len(sides))}
    if pieces:
        groups = guided(len(pieces), engine.most_cores)
        task = CompareRanges(tuple(side.log for side in sides), pieces, groups)
        total = sum((piece.end - piece.start) * (1 + len(piece.logs)) for piece in pieces)
        with stage_by_tasks(engine, progress, "compared", total, "bytes"):
            rows = engine.numbers(range(len(groups))).run(task, UNLIKE).collect()
        for row in sorted(rows, key=lambda row: row["start"]):
            found[row["log"]].append(row)
    return [_parting(sides[0], sides[number], rows) for number, rows in found.items()]


def _pieces(sides: Sequence[Side]) -> Iterable[ComparedPiece]:
    for start, end in _between_edges(sides):
        logs = tuple(n for n, side in enumerate(sides) if n and side.has(start))
        if logs and sides[0].has(start):
            for at in range(start, end, _PIECE_BYTES):
                yield ComparedPiece(at, min(at + _PIECE_BYTES, end), logs)


def _between_edges(sides: Sequence[Side]) -> Iterable[Span]:
    """The spans between neighbouring starts or ends of segments of any log."""
    return pairwise(sorted({edge for side in sides for span in side.spans for edge in span}))


def _parting(ours: Side, theirs: Side, rows: Iterable[Row]) -> Parting:
    begun = max(ours.start, theirs.start)
    unlike = tuple((row["first"], row["last"]) for row in rows)
    spans = [(a, b) for a, b in _between_edges((ours, theirs)) if a >= begun]
    only = tuple(span for span in spans if ours.has(span[0]) and not theirs.has(span[0]))
    theirs_only = tuple(span for span in spans if theirs.has(span[0]) and not ours.has(span[0]))
    if unlike and ours.plan.splits.segment_bytes != theirs.plan.splits.segment_bytes:
        # after the first BLANK the same records have other physical offsets
        unlike = ((unlike[0][0], max(ours.end, theirs.end)),)
    return Parting(unlike, only, theirs_only)
