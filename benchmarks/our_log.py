"""Logs that our own writer writes for benchmarks, where RocketMQ would not, or not so quickly."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.put_messages import clock
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.release.settings import writer_settings_from
from reput.udfs.table.message_rows import append_arrow

_AT_ONCE = 100_000


def write_log(
    folder: Path, messages: int, columns: Callable[[range], dict[str, list[Any]]],
    settings: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """A store without derived files. columns: of the messages with these numbers."""
    writer = CommitLogWriter.open(
        str(folder), writer_settings_from(settings or {}),
        clock=clock, dispatches=False,
    )  # fmt: skip
    with writer:
        for start in range(0, messages, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, messages))
            append_arrow(writer, pa.table(columns(numbers)))
