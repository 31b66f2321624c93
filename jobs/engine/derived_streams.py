"""`spark.readStream.format("consumequeue")` and `"indexfile"`: entries as brokers append them.

The offset of a stream says of each queue, or of each index file, which entries have been read: the
position of the next one, or the number of the last one. It stands in the query's checkpoint, so a
batch that is repeated has the same rows.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from reput.jobs.engine.source_options import EARLIEST, END, LATEST, START, OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.jobs.engine.source_options import SourceOptions

Ends = dict[str, int]  # of each queue, or index file, by its path below the store


class Files(Protocol):
    """Files of one kind, which a stream follows."""

    options: "SourceOptions"

    def ends(self, start: Ends) -> Ends:
        """Up to which entry each can be read now, those that were in `start` not before that.

        Raises StoreError where one has not what is to be read next.
        """

    def first(self, name: str) -> int:
        """What an offset says of a file from which nothing was read."""

    def between(self, start: Ends, end: Ends) -> list[InputPartition]:
        """The partitions that have these entries."""

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]: ...


class DerivedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows queue or index files that a broker makes longer."""

    def __init__(self, files: Files) -> None:
        """Raises OptionError."""
        options = files.options
        if options.end != LATEST:
            raise OptionError(f"option {END}: is for a batch; a stream goes on")
        if options.start not in (EARLIEST, LATEST):
            raise OptionError(f"option {START}={options.start}: earliest or latest is wanted")
        self.files = files
        self.target: Ends | None = None  # of AvailableNow: nothing behind it is read
        self.seen: Ends | None = None

    def initialOffset(self) -> Ends:  # noqa: N802 (Spark's name)
        return {} if self.files.options.start == EARLIEST else self.files.ends({})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.files.options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.files.ends({})

    def latestOffset(self, start: Ends, limit: ReadLimit) -> Ends:  # noqa: N802
        self.seen = ends = self.files.ends(start)
        if self.target is not None:
            ends = {
                name: max(min(end, self.target[name]), start.get(name, 0))
                for name, end in ends.items()
                if name in self.target
            }
        if isinstance(limit, ReadMaxRows):
            ends = self._at_most(limit.max_rows, start, ends)
        return ends

    def _at_most(self, most: int, start: Ends, ends: Ends) -> Ends:
        """The first so many entries, one queue or file after the other."""
        cut = {}
        for name, end in sorted(ends.items()):
            begun = start[name] if name in start else self.files.first(name)
            taken = min(end - begun, most)
            most -= taken
            if name in start or taken:
                cut[name] = begun + taken
        return cut

    def reportLatestOffset(self) -> Ends | None:  # noqa: N802
        return self.seen

    def partitions(self, start: Ends, end: Ends) -> list[InputPartition]:
        """Raises StoreError where files do not have these entries any more."""
        return self.files.between(start, end)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of a partition."""
        yield from self.files.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is held for a batch."""
