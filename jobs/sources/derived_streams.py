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

from reput.jobs.sources.source_options import EARLIEST, END, LATEST, START, OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.jobs.sources.source_options import SourceOptions

Ends = dict[str, int]  # of each queue, or index file, by its path below the store


class FollowedFiles(Protocol):
    """Files of one kind, which a stream follows."""

    options: "SourceOptions"

    def there(self, start: Ends) -> dict[str, tuple[int, int]]:
        """What an offset says of each where nothing was read, and where all was that is there now.

        Raises StoreError where one that is in `start` has not what is to be read next.
        """

    def between(self, start: Ends, end: Ends) -> list[InputPartition]:
        """The partitions that have these entries."""

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]: ...


class DerivedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows queue or index files that a broker makes longer."""

    def __init__(self, files: FollowedFiles) -> None:
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
        """Raises StoreError where files do not have these entries any more."""
        return self.files.between(start, end)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        yield from self.files.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is held for a batch."""


def _at_most(most: int, start: Ends, begun: Ends, ends: Ends) -> Ends:
    """The first `most` entries from `begun` to `ends`, one queue or file after the other."""
    cut = {}
    for name, end in sorted(ends.items()):
        taken = min(end - begun[name], most)
        most -= taken
        if name in start or taken:
            cut[name] = begun[name] + taken
    return cut
