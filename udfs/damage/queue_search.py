"""Searches queues for lost positions and foreign records, and joins the findings of all tasks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, get_type_hints

import pyarrow as pa

from reput.store_format.damage.contradictions import OldQueues
from reput.store_format.damage.queue_ends import Losses
from reput.store_format.damage.queue_findings import (
    KINDS,
    Finding,
    Gap,
    QueueFindings,
    QueueGap,
    QueueSearch,
    Renumbering,
    StrayRecord,
)
from reput.store_format.names import LMQ_PREFIX
from reput.udfs.range_files import loss_reader
from reput.udfs.rebuild.runs import QUEUE_KEY, Row, StagedRuns, key_of
from reput.udfs.staging import LineFile, rows_of, schema

_ARROW = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}


def _columns(kind: type[Finding]) -> pa.StructType:
    return pa.struct([(name, _ARROW[each]) for name, each in get_type_hints(kind).items()])


# One row for each task that found something: a list of each kind of finding, by its type's name.
FINDINGS = schema(
    **{kind.__name__: pa.list_(_columns(kind)) for kind in KINDS},
    gaps_unlisted=pa.int64(),
    positions_unlisted=pa.int64(),
    lines=pa.string(),  # the name of the task's file of gaps in staging, '' where there is none
)


def joined(rows: Iterable[Row]) -> QueueFindings:
    """The findings of all tasks, by their FINDINGS rows."""
    rows = list(rows)
    return QueueFindings(
        {kind: [kind(**each) for row in rows for each in row[kind.__name__]] for kind in KINDS},
        sum(row["gaps_unlisted"] for row in rows),
        sum(row["positions_unlisted"] for row in rows),
        tuple(row["lines"] for row in rows if row["lines"]),
    )


@dataclass(frozen=True)
class SearchQueues:
    """Turns RUN rows of whole queues, in order, into a FINDINGS row.

    most: how many gaps are listed, the first by offset; and of other findings as many.
    lines: also write all gaps as JSON lines into a file in staging.
    """

    files: StagedRuns
    losses: Losses
    most: int
    lines: bool = False
    old: OldQueues | None = None  # where the store has queue files

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gaps, misplaced, hints = _First(self.most), _First(self.most), _First(self.most)
        lines = LineFile(self.files.staging) if self.lines else None
        for finding in self._findings(rows_of(batches)):
            match finding:
                case Gap():
                    gaps.add(finding)
                    if lines:
                        lines.add({"type": "missing", **vars(finding)})
                case Renumbering() | StrayRecord():
                    misplaced.add(finding)
                case _:
                    hints.add(finding)
        listed = [*gaps.listed(), *misplaced.listed(), *hints.listed()]
        if listed:
            row: dict[str, Any] = {
                kind.__name__: [vars(each) for each in listed if type(each) is kind]
                for kind in KINDS
            }
            row["gaps_unlisted"] = gaps.dropped + misplaced.dropped
            row["positions_unlisted"] = gaps.positions
            row["lines"] = lines.finish() if lines else ""
            yield pa.RecordBatch.from_pylist([row], FINDINGS)

    def _findings(self, rows: Iterator[Row]) -> Iterator[Finding]:
        lost = loss_reader(self.losses, self.files.staging)
        for (topic, queue_id, batch), runs in groupby(rows, key_of(QUEUE_KEY)):
            # messages of an LMQ belong to another queue too
            asks = self.old and not batch and not topic.startswith(LMQ_PREFIX)
            old = self.old.of(topic, queue_id) if self.old and asks else None
            yield from QueueSearch(self.files, lost, old, self.most).findings(runs)


class _First:
    """Keeps the first `most` findings by their offsets in the log; they may come in any order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: list[Finding] = []
        self.dropped = self.positions = 0

    def add(self, finding: Finding) -> None:
        self._held.append(finding)
        if len(self._held) >= 2 * self._most:
            self._cut()

    def listed(self) -> list[Finding]:
        self._cut()
        return self._held

    def _cut(self) -> None:
        self._held.sort(key=_order)
        dropped = self._held[self._most :]
        self.dropped += len(dropped)
        self.positions += sum(each.count for each in dropped if isinstance(each, Gap))
        del self._held[self._most :]


def _order(finding: Finding) -> tuple[int, str, int, int]:
    if isinstance(finding, QueueGap):
        return finding.after, finding.topic, finding.queue_id, finding.first
    return finding.place, finding.topic, finding.queue_id, 0
