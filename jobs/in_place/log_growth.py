"""A streaming source with a row for each growth of a log's files.

Its offsets, which Structured Streaming keeps in the checkpoint, are the size of the log's files in
bytes and the last time that one of them changed. It reads no records: a catch-up continues from
the derived files.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from reput.store_format.files.by_url import storage_for
from reput.store_format.files.protocol import listed

NAME = "reput_log_growth"
_NONE = {"bytes": 0, "changed": 0}


class LogGrowth(DataSource):
    """The source. Option `folders`: the folders of segments, one path or URL per line."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "bytes BIGINT, changed BIGINT, seen BIGINT"

    def streamReader(self, schema: Any) -> "GrowthReader":  # noqa: N802 (Spark's name)
        return GrowthReader(self.options["folders"].splitlines())


def _end_quietly(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Spark ends the reader's process by closing its pipe, which is no error."""
    if not issubclass(kind, (BrokenPipeError, EOFError)):
        sys.__excepthook__(kind, error, trace)


class GrowthReader(DataSourceStreamReader):
    """Lists the folders for the sizes and times of their files."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders
        sys.excepthook = _end_quietly

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (Spark's name)
        return dict(_NONE)

    def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802 (Spark's name)
        found = dict(_NONE)
        for folder in self.folders:
            storage = storage_for(folder)
            for _name, state in listed(storage, storage.resolve(folder)):
                if state is not None:
                    found["bytes"] += state.size
                    found["changed"] = max(found["changed"], state.mtime)
        return found

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((end["bytes"], end["changed"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int]]:
        size, changed = partition.value
        yield size, changed, time.time_ns()
