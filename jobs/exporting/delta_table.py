"""A Delta table of a log's messages, in which each commit is one range of the log, once.

DIR/messages has the messages. DIR/runs has a row for each range: its offsets, sums and options. A
commit has its range's end as a transaction of the table (txnAppId, txnVersion), so that after a
kill the next run goes on after the last whole range. A range ends where a segment or the log does.
Ranges of other options, or of another log, are refused. delta_writers.py has those who write
and read the tables (`DeltaTables`).
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from reput.jobs.exporting.chosen import ChosenLog
from reput.store_format.faults import StoreError
from reput.udfs.table.columns import COLUMNS
from reput.udfs.table.export import MessageSums

MESSAGES, RUNS = "messages", "runs"
CLUSTERED_BY = ("topic", "storeTimestamp")  # if the writer can: 4 at most, of the first 32 columns
ABOUT, APPEND_ONLY = "reput.export", "delta.appendOnly"  # properties of a table

RUN = pa.schema(
    [
        pa.field("logStart", pa.int64(), nullable=False),  # physical offset of the range's start
        pa.field("logEnd", pa.int64(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("places", pa.int64(), nullable=False),  # sum of the physicalOffsets, wrapping
        pa.field("crcs", pa.int64(), nullable=False),  # sum of the bodyCRCs
        pa.field("sizes", pa.int64(), nullable=False),  # sum of the records' sizes
        pa.field("lostBefore", pa.int64(), nullable=False),  # bytes deleted before they were read
        pa.field("leftOut", pa.int64(), nullable=False),  # places where something was left out
        pa.field("notes", pa.list_(pa.string()), nullable=False),
        pa.field("release", pa.string(), nullable=False),
        pa.field("chosen", pa.string(), nullable=False),  # JSON: the options
    ]
)


class Range(NamedTuple):
    """[start, end) of the log. lost_before: bytes before it that were deleted unread."""

    start: int
    end: int
    lost_before: int = 0


class LastMessage(NamedTuple):
    """The last message of a table. place: physicalOffset; size: of its record; crc: bodyCRC."""

    place: int
    size: int
    crc: int


class Commit(NamedTuple):
    """The name of a commit. app: txnAppId; version: the log's end with it (txnVersion)."""

    app: str
    version: int

    @property
    def text(self) -> str:
        """The userMetadata of the commit, which any writer can read."""
        return f"{self.app}:{self.version}"


class DeltaTables(Protocol):
    """Writes and reads Delta tables. path: of one table, or its URL.

    errors: what reading raises if the files of a table do not match its log.
    """

    @property
    def errors(self) -> tuple[type[Exception], ...]: ...

    def about(self, path: str) -> str | None:
        """The property ABOUT as `create` got it (once: the description); None: no table."""

    def create(self, path: str, columns: pa.Schema, about: str) -> None:
        """Make an append-only table. `comment` in a field's metadata is the column's comment. A
        table with the columns CLUSTERED_BY is clustered by them if the writer can.
        """

    def committed(self, path: str, app: str) -> int | None:
        """The greatest version of a Commit by this application; None without a commit."""

    def add_messages(self, path: str, job: ChosenLog, which: Range, commit: Commit) -> list[str]:
        """Commit the messages of a range; a line for each thing left out. `job` counts messages of
        system topics that are.
        """

    def add_row(self, path: str, row: pa.RecordBatch, commit: Commit) -> None: ...

    def rows(self, path: str) -> list[dict[str, Any]]:
        """All rows of a small table."""

    def sums(self, path: str, start: int, end: int) -> MessageSums:
        """The sums of the messages in [start, end) of the log."""

    def last(self, path: str, start: int, end: int) -> LastMessage | None:
        """The last message of a range."""

    def wrong_bodies(self, path: str) -> Iterator[str]:
        """A line for each body that does not match its CRC."""


def _declared(kind: pa.DataType) -> pa.DataType:
    """A column's type as Spark's SQL can declare it: elements and values may be null."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_type)
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def chosen_in(writer: DeltaTables, folder: str) -> dict[str, Any]:
    """The options with which a table was made. Raises StoreError if reput did not make it."""
    path = f"{folder}/{MESSAGES}"
    try:
        chosen: dict[str, Any] = json.loads(writer.about(path) or "")
        del chosen["store"]
    except (ValueError, KeyError, TypeError):
        raise StoreError(f"{path}: is not a table that reput has exported") from None
    return chosen


class MessageTable:
    """The two tables in a folder, which are made if they are missing."""

    def __init__(self, writer: DeltaTables, job: ChosenLog) -> None:
        """Raises StoreError if the tables are of another store, or of other options."""
        self.writer, self.job = writer, job
        self.chosen = json.dumps({"store": job.store, **job.chosen.as_json()}, sort_keys=True)
        self.app = "reput-" + hashlib.sha256(self.chosen.encode()).hexdigest()[:32]
        self.messages, self.run_rows = f"{job.folder}/{MESSAGES}", f"{job.folder}/{RUNS}"
        comments = {each.field.name: {"comment": each.comment} for each in COLUMNS}
        columns = [
            field.with_type(_declared(field.type)).with_metadata(comments[field.name])
            for field in job.chosen.columns
        ]
        self._make(self.messages, pa.schema(columns))
        self._make(self.run_rows, RUN)
        self._runs: list[dict[str, Any]] | None = None  # cache of `runs`, until a row is added
        self._complete_runs()

    def _make(self, path: str, columns: pa.Schema) -> None:
        there = self.writer.about(path)
        if there is None:
            self.writer.create(path, columns, self.chosen)
        elif there != self.chosen:
            raise StoreError(
                f"{path}: is a table of another store or of other options, and ranges are not "
                f"mixed: it has {there or 'nothing of an export'}, this is {self.chosen}"
            )

    @property
    def end(self) -> int | None:
        """The physical offset up to which the table has the log; None if it is empty."""
        committed = self.writer.committed(self.messages, self.app)
        return max((end for end in (committed, self._noted()) if end is not None), default=None)

    def add(self, which: Range) -> tuple[MessageSums, list[str]]:
        """Commit the messages of a range, and then its row of `runs`. Returns the sums of the
        table's messages in the range, and a line for each thing left out.

        Raises the errors of reading the log, and those of the writer.
        """
        commit = Commit(self.app, which.end)
        notes = self.writer.add_messages(self.messages, self.job, which, commit)
        sums = self.sums(which.start, which.end)
        self._note(which, sums, len(notes), notes[:100])
        return sums, notes

    def _note(self, which: Range, sums: MessageSums, left_out: int, notes: list[str]) -> None:
        row = {
            "logStart": which.start, "logEnd": which.end, "messages": sums.messages,
            "places": sums.places, "crcs": sums.crcs, "sizes": sums.sizes,
            "lostBefore": which.lost_before, "leftOut": left_out, "notes": notes,
            "release": self.job.plan.profile.release, "chosen": self.chosen,
        }  # fmt: skip
        batch = pa.RecordBatch.from_pylist([row], RUN)
        self._runs = None
        self.writer.add_row(self.run_rows, batch, Commit(self.app, which.end))

    def _complete_runs(self) -> None:
        """Add the row of a range after whose commit a kill came; what it left out is unknown."""
        noted, end = self._noted(), self.end
        if end is None or noted == end:
            return
        start = noted if noted is not None else 0
        sums = self.sums(start, end)
        first = start if noted is not None else max(sums.first, 0)
        self._note(Range(first, end), sums, 0, ["noted by the next run, as this one was killed"])

    def _noted(self) -> int | None:
        return max((run["logEnd"] for run in self.runs()), default=None)

    def runs(self) -> list[dict[str, Any]]:
        """The rows of DIR/runs, in the log's order; cached, as Spark takes seconds to read them."""
        if self._runs is None:
            rows = self.writer.rows(self.run_rows)
            self._runs = sorted(rows, key=lambda row: row["logStart"])
        return self._runs

    def sums(self, start: int, end: int) -> MessageSums:
        """The sums of the messages in [start, end) of the log."""
        return self.writer.sums(self.messages, start, end)

    def last(self) -> LastMessage | None:
        """The last message of the table; None if it is empty."""
        runs = [run for run in self.runs() if run["messages"]]
        if not runs:
            return None
        return self.writer.last(self.messages, runs[-1]["logStart"], runs[-1]["logEnd"])

    def wrong_bodies(self) -> Iterator[str]:
        """A line for each body that does not match its CRC."""
        if self.job.chosen.bodies:
            yield from self.writer.wrong_bodies(self.messages)
