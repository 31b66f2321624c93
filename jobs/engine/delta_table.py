"""A Delta table of a log's messages, written by delta-rs: each commit one range of the log, once.

DIR/messages has the messages, DIR/runs a row for each range: from where to where the log was read,
what came of it, by which options. A commit names its range's end as a transaction of the table
(txnAppId, txnVersion), so that whoever is killed and begins again goes on behind the last whole
range. A range ends where a segment or the log does. Ranges of other options, or of another log, are
refused.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from reput.store_format.faults import StoreError
from reput.udfs.export import Sums
from reput.udfs.message_columns import COLUMNS

_MESSAGES, _RUNS = "messages", "runs"
_ROWS_A_GROUP = 1 << 17
_FILE_BYTES = 128 << 20

RUN = pa.schema(
    [
        pa.field("logStart", pa.int64(), nullable=False),  # of the range, a physical offset
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
    """[start, end) of the log; lost_before: bytes before it that nobody can read any more."""

    start: int
    end: int
    lost_before: int = 0


class Last(NamedTuple):
    """The last message of a table: where it is in the log, its record's size, its bodyCRC."""

    place: int
    size: int
    crc: int


def chosen_in(folder: str) -> dict[str, Any]:
    """The options that a table was made with. Raises StoreError where it is none of ours."""
    path = f"{folder}/{_MESSAGES}"
    try:
        told: dict[str, Any] = json.loads(DeltaTable(path).metadata().description or "")
        del told["store"]
    except (ValueError, KeyError, TypeError, DeltaError):
        raise StoreError(f"{path}: is no table that reput has exported") from None
    return told


class MessageTable:
    """The two tables in a local folder. Made where they are not there."""

    def __init__(self, folder: str, store: str, chosen: dict[str, Any], release: str) -> None:
        """chosen: the options that say which messages, and what of them. Raises StoreError."""
        self.folder, self.release = folder, release
        self.chosen = json.dumps({"store": store, **chosen}, sort_keys=True)
        self.app = "reput-" + hashlib.sha256(self.chosen.encode()).hexdigest()[:32]
        names = [each.field.name for each in COLUMNS]
        if not chosen["bodies"]:
            names.remove("body")
        self.columns = pa.schema([each.field for each in COLUMNS if each.field.name in names])
        told = {each.field.name: {"comment": each.comment} for each in COLUMNS}
        commented = pa.schema([field.with_metadata(told[field.name]) for field in self.columns])
        self._messages = self._open(_MESSAGES, commented)
        self._runs = self._open(_RUNS, RUN)
        self._complete_runs()

    def _open(self, name: str, schema: pa.Schema) -> DeltaTable:
        path = f"{self.folder}/{name}"
        if not DeltaTable.is_deltatable(path):
            return DeltaTable.create(
                path, schema, name=name, description=self.chosen,
                configuration={"delta.appendOnly": "true"},
            )  # fmt: skip
        table = DeltaTable(path)
        there = table.metadata().description
        if there != self.chosen:
            raise StoreError(
                f"{path}: is a table of another store or of other options, and ranges are not "
                f"mixed: it has {there or 'nothing of an export'}, this is {self.chosen}"
            )
        return table

    @property
    def end(self) -> int | None:
        """Up to where the log is in the table; None where nothing is."""
        return self._messages.transaction_version(self.app)

    def add(
        self, which: Range, batches: Iterator[pa.RecordBatch], notes: list[str]
    ) -> Sums:  # fmt: skip
        """Commit the messages of a range, and then what was done.

        notes: filled while the batches are read. Raises what reading them does, DeltaError.
        """
        sums = Sums()
        raised: list[Exception] = []

        def summed() -> Iterator[pa.RecordBatch]:
            try:
                for batch in batches:
                    sums.add(batch)
                    yield batch
            except Exception as error:
                raised.append(error)  # delta-rs makes a text of it
                raise

        try:
            self._commit(self._messages, summed(), self.columns, which.end)
        except DeltaError:
            if raised:
                raise raised[0] from None
            raise
        self._note(which, sums, len(notes), notes[:100])
        return sums

    def _commit(
        self, table: DeltaTable, batches: Iterator[pa.RecordBatch], schema: pa.Schema, end: int
    ) -> None:
        write_deltalake(
            table, pa.RecordBatchReader.from_batches(schema, batches), mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction(self.app, end)]),
            writer_properties=WriterProperties(
                max_row_group_size=_ROWS_A_GROUP, compression="SNAPPY"
            ),
            target_file_size=_FILE_BYTES,
        )  # fmt: skip
        table.update_incremental()

    def _note(self, which: Range, sums: Sums, left_out: int, notes: list[str]) -> None:
        row = {
            "logStart": which.start, "logEnd": which.end, "messages": sums.messages,
            "places": sums.places, "crcs": sums.crcs, "sizes": sums.sizes,
            "lostBefore": which.lost_before, "leftOut": left_out, "notes": notes,
            "release": self.release, "chosen": self.chosen,
        }  # fmt: skip
        batch = pa.RecordBatch.from_pylist([row], RUN)
        self._commit(self._runs, iter([batch]), RUN, which.end)

    def _complete_runs(self) -> None:
        """Note the range whose commit a kill came right behind; what it left out is not known."""
        noted, end = self._runs.transaction_version(self.app), self.end
        if end is None or noted == end:
            return
        start = noted if noted is not None else 0
        sums = self.sums(start, end)
        first = start if noted is not None else max(sums.first, 0)
        self._note(Range(first, end), sums, 0, ["noted by the next run, as this one was killed"])

    def runs(self) -> list[dict[str, Any]]:
        """The rows of DIR/runs, in the log's order."""
        rows: list[dict[str, Any]] = self._runs.to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row["logStart"])

    def sums(self, start: int, end: int) -> Sums:
        """What the table has of [start, end) of the log."""
        sums = Sums()
        for batch in self._batches(["physicalOffset", "bodyCRC", "size"], start, end):
            sums.add(batch.sort_by("physicalOffset"))
        return sums

    def last(self) -> Last | None:
        """The last message that it has; None for none."""
        runs = [run for run in self.runs() if run["messages"]]
        if not runs:
            return None
        found = Last(-1, 0, 0)
        names = ["physicalOffset", "size", "bodyCRC"]
        for batch in self._batches(names, runs[-1]["logStart"], runs[-1]["logEnd"]):
            for row in batch.sort_by("physicalOffset").slice(max(len(batch) - 1, 0)).to_pylist():
                found = max(found, Last(*(row[name] for name in names)))
        return found

    def bodies(self) -> Iterator[pa.RecordBatch]:
        """Bodies with their CRCs, and where they are from."""
        if "body" in self.columns.names:
            yield from self._batches(["physicalOffset", "bodyCRC", "body"], 0, 1 << 62)

    def _batches(self, names: list[str], start: int, end: int) -> Iterator[pa.RecordBatch]:
        place = pc.field("physicalOffset")
        there = self._messages.to_pyarrow_dataset()
        within = (place >= start) & (place < end)
        yield from there.to_batches(columns=names, filter=within, batch_size=1 << 16)
