"""`spark.readStream.format("consumequeue")` and `"indexfile"`: entries as brokers append them.

The offset of a stream has, for each queue, the position of the next entry to read, or for each
index file the number of the last entry read. It is kept in the query's checkpoint, so a repeated
batch has the same rows.
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

from reput.jobs.sources.source_options import EARLIEST, END, LATEST, START, OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.jobs.sources.source_options import SourceOptions

Ends = dict[str, int]  # path of a queue, or name of an index file -> its part of the offset


class FollowedFiles(Protocol):
    """Files of one kind that a stream follows."""

    options: "SourceOptions"

    def there(self, start: Ends) -> dict[str, tuple[int, int]]:
        """Path or name -> (offset before the first entry, offset after all present entries).

        Raises StoreError if a queue or file of `start` lacks the entries to be read next.
        """

    def between(self, start: Ends, end: Ends) -> list[InputPartition]:
        """The partitions with the entries from `start` to `end`."""

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]: ...


class DerivedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows queue or index files to which a broker appends."""

    def __init__(self, files: FollowedFiles) -> None:
        """Raises OptionError."""
        options = files.options
        if options.end != LATEST:
            raise OptionError(f"option {END}: is for a batch; a stream goes on")
        if options.start not in (EARLIEST, LATEST):
            raise OptionError(f"option {START}={options.start}: earliest or latest is wanted")
        self.files = files
        self.target: Ends | None = None  # end for the trigger AvailableNow
        self.seen: Ends | None = None

    def initialOffset(self) -> Ends:  # noqa: N802 (Spark's name)
        return {} if self.files.options.start == EARLIEST else self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.files.options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self._ends()

    def _ends(self) -> Ends:
        return {name: end for name, (_, end) in self.files.there({}).items()}

    def latestOffset(self, start: Ends, limit: ReadLimit) -> Ends:  # noqa: N802
        there = self.files.there(start)
        self.seen = ends = {name: end for name, (_, end) in there.items()}
        if self.target is not None:
            ends = {
                name: max(min(end, self.target[name]), start.get(name, 0))
                for name, end in ends.items()
                if name in self.target
            }
        if isinstance(limit, ReadMaxRows):
            begun = {name: start.get(name, there[name][0]) for name in ends}
            ends = _at_most(limit.max_rows, start, begun, ends)
        return ends

    def reportLatestOffset(self) -> Ends | None:  # noqa: N802
        return self.seen

    def partitions(self, start: Ends, end: Ends) -> list[InputPartition]:
        """Raises StoreError if files no longer have these entries."""
        return self.files.between(start, end)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield from self.files.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: no state is held for a batch."""


def _at_most(most: int, start: Ends, begun: Ends, ends: Ends) -> Ends:
    """The offset after the first `most` entries from `begun` on, queue by queue or file by file."""
    cut = {}
    for name, end in sorted(ends.items()):
        taken = min(end - begun[name], most)
        most -= taken
        if name in start or taken:
            cut[name] = begun[name] + taken
    return cut
