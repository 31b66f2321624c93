"""Reads the source in this process, as Spark's planner and workers do, without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from reput.jobs.sources.log_source import CommitLogSource
from tests.built import write_log
from tests.damaged import Damaged
from tests.logs import Log


def table(store: Path | str, **options: Any) -> pa.Table:
    """All rows of `spark.read.format("commitlog")` with these options, in the parts' order."""
    return table_of(CommitLogSource, store, **options)


def table_of(kind: Any, store: Path | str, **options: Any) -> pa.Table:
    """All rows of a source of this kind."""
    source = kind({"path": str(store), **{n: str(v) for n, v in options.items()}})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(reader.columns)
    return pa.Table.from_batches(batches, reader.columns)


def places(store: Path | str, **options: Any) -> list[int]:
    """The physical offsets of the rows."""
    found: pa.Table = table(store, columns="physicalOffset", **options)
    return found["physicalOffset"].to_pylist()  # type: ignore[no-any-return]


def write(log: Log, folder: Path) -> Path:
    """A store that has this log."""
    return write_log(folder, log.segments)


def up_to(log: Damaged, count: int, torn: int = 0) -> Log:
    """The log as it was after `count` records, with `torn` bytes of the next one."""
    end = log.places[count] + torn if count < len(log.places) else 1 << 62
    segments = {start: bytes(content[: max(end - start, 0)]).ljust(len(content), b"\0")
                for start, content in log.segments.items() if start < end}  # fmt: skip
    return Log(segments, log.settings, log.version, {})
