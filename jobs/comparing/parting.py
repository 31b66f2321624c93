"""Where logs part: their bytes compared, piece by piece, on an engine."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.jobs.comparing.side import Side, Span
from reput.jobs.engines.engine import Engine, Row
from reput.jobs.opening.progress import Progress
from reput.jobs.pipeline.stages import stage_by_tasks
from reput.jobs.pipeline.task_sizes import guided
from reput.udfs.comparing.log_ranges import UNLIKE, ComparedPiece, CompareRanges

_PIECE_BYTES = 64 << 20


class Parting(NamedTuple):
    """How the logs of two stores differ, `ours` being the first; physical offsets.

    unlike: spans in which bytes differ, from the first such byte on; ours, theirs: what only one
    has, of what begins where both logs have begun.
    """

    unlike: tuple[Span, ...]
    ours: tuple[Span, ...]
    theirs: tuple[Span, ...]

    @property
    def spans(self) -> list[Span]:
        """All of these, in order, joined where they meet."""
        found: list[Span] = []
        for start, end in sorted((*self.unlike, *self.ours, *self.theirs)):
            if found and start <= found[-1][1]:
                found[-1] = found[-1][0], max(found[-1][1], end)
            else:
                found.append((start, end))
        return found

    @property
    def first(self) -> int | None:
        """The first offset at which they differ, or only one has anything; None for none."""
        return min((start for start, _ in self.spans), default=None)


def part(engine: Engine, sides: Sequence[Side], progress: Progress) -> list[Parting]:
    """How each of the sides but the first differs from the first, in their order.

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
    """Spans in which no segment of any log begins or ends."""
    return pairwise(sorted({edge for side in sides for span in side.spans for edge in span}))


def _parting(ours: Side, theirs: Side, rows: Iterable[Row]) -> Parting:
    begun = max(ours.start, theirs.start)
    unlike = tuple((row["first"], row["last"]) for row in rows)
    spans = [(a, b) for a, b in _between_edges((ours, theirs)) if a >= begun]
    only = tuple(span for span in spans if ours.has(span[0]) and not theirs.has(span[0]))
    theirs_only = tuple(span for span in spans if theirs.has(span[0]) and not ours.has(span[0]))
    if unlike and ours.plan.splits.segment_bytes != theirs.plan.splits.segment_bytes:
        # from the first BLANK on, the same records stand at other places
        unlike = ((unlike[0][0], max(ours.end, theirs.end)),)
    return Parting(unlike, only, theirs_only)
