"""Delta tables by delta-rs (package deltalake), in this process, without Spark or Java.

Tables are on a local disk, or at a URL that delta-rs supports. It takes credentials from the
environment, as `storage` does.
"""

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError

from reput.jobs.exporting.chosen_log import ChosenLog
from reput.jobs.exporting.delta_table import Commit, LastMessage, Range
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from reput.udfs.table.export import MessageSums, wrong_bodies

_ROWS_A_GROUP = 1 << 17
_FILE_BYTES = 128 << 20
# delta-rs accepts further schemes, but then writes to another host than the URL names.
_SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss")


class DeltaRs:
    """A DeltaTables writer. Each table is opened once."""

    errors = (DeltaError, pa.ArrowException, OSError)
    counts_system = True

    def __init__(self) -> None:
        self._tables: dict[str, DeltaTable] = {}

    def description(self, path: str) -> str | None:
        """As in DeltaTables. Raises SettingError for a URL that delta-rs does not write to."""
        scheme, apart, _ = path.partition("://")
        if apart and scheme not in _SCHEMES:
            raise SettingError(
                f"--as delta: deltalake does not write to {scheme}://, but to s3://, gs:// and "
                "abfss://; --engine spark does where its Hadoop knows it"
            )
        if path not in self._tables and not DeltaTable.is_deltatable(path, _storage()):
            return None
        return self._open(path).metadata().description or ""

    def _open(self, path: str) -> DeltaTable:
        if path not in self._tables:
            self._tables[path] = DeltaTable(path, storage_options=_storage())
        return self._tables[path]

    def create(self, path: str, name: str, columns: pa.Schema, about: str) -> None:
        """As in DeltaTables; delta-rs cannot cluster."""
        self._tables[path] = DeltaTable.create(
            path, columns, name=name, description=about,
            configuration={"delta.appendOnly": "true"}, storage_options=_storage(),
        )  # fmt: skip

    def committed(self, path: str, app: str) -> int | None:
        return self._open(path).transaction_version(app)

    def add_messages(self, path: str, job: ChosenLog, which: Range, commit: Commit) -> list[str]:
        """As in DeltaTables. Raises the errors of reading the log, StoreError, DeltaError."""
        notes: list[str] = []
        raised: list[Exception] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from job.batches(which.start, which.end, notes, raw=False)
            except Exception as error:
                raised.append(error)  # delta-rs turns it into a text
                raise

        try:
            self._append(path, batches(), job.chosen.columns, commit)
        except DeltaError:
            if raised:
                raise raised[0] from None
            raise
        return notes

    def add_row(self, path: str, row: pa.RecordBatch, commit: Commit) -> None:
        self._append(path, iter([row]), row.schema, commit)

    def _append(
        self, path: str, batches: Iterator[pa.RecordBatch], columns: pa.Schema, commit: Commit
    ) -> None:
        table = self._open(path)
        features = table.protocol().writer_features or []
        if "clustering" in features:
            raise StoreError(f"{path}: is clustered, so that only --engine spark adds to it")
        write_deltalake(
            table, pa.RecordBatchReader.from_batches(columns, batches), mode="append",
            commit_properties=CommitProperties(
                app_transactions=[Transaction(*commit)],
                custom_metadata={"userMetadata": commit.text},
            ),
            writer_properties=WriterProperties(
                max_row_group_size=_ROWS_A_GROUP, compression="SNAPPY"
            ),
            target_file_size=_FILE_BYTES,
        )  # fmt: skip
        table.update_incremental()

    def rows(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._open(path).to_pyarrow_table().to_pylist()
        return found

    def sums(self, path: str, start: int, end: int) -> MessageSums:
        sums = MessageSums()
        for batch in self._batches(path, ["physicalOffset", "bodyCRC", "size"], start, end):
            sums.add(batch)
        return sums

    def last(self, path: str, start: int, end: int) -> LastMessage | None:
        found = None
        for batch in self._batches(path, ["physicalOffset", "size", "bodyCRC"], start, end):
            for row in batch.sort_by("physicalOffset").slice(max(len(batch) - 1, 0)).to_pylist():
                found = max(found or LastMessage(-1, 0, 0), LastMessage(*row.values()))
        return found

    def wrong_bodies(self, path: str) -> Iterator[str]:
        for batch in self._batches(path, ["physicalOffset", "bodyCRC", "body"], 0, 1 << 62):
            yield from wrong_bodies(path, batch)

    def _batches(
        self, path: str, names: list[str], start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        place = pc.field("physicalOffset")
        within = (place >= start) & (place < end)
        there = self._open(path).to_pyarrow_dataset()
        yield from there.to_batches(columns=names, filter=within, batch_size=1 << 16)


def _storage() -> dict[str, str]:
    """Options of delta-rs that it does not read from the environment itself."""
    named = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    options = {"AWS_ENDPOINT_URL": named} if named else {}
    if named.startswith("http://"):
        options["AWS_ALLOW_HTTP"] = "true"
    return options
