"""Damaged logs in memory, as the tasks that look into damage are given them."""

from typing import Any

import pyarrow as pa

from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from tests.damaged import Damaged
from tests.memory_storage import MemoryStorage


def stored(log: Damaged) -> tuple[MemoryStorage, tuple[Segment, ...]]:
    files = {f"log/{start}": bytes(raw) for start, raw in log.segments.items()}
    segments = (Segment(path, int(path[4:]), FileState(len(raw), 0, 0))
                for path, raw in files.items())  # fmt: skip
    return MemoryStorage(files), tuple(segments)


def rows_of(task: Any, *ids: int) -> list[dict[str, Any]]:
    """The rows of a task that gets these numbers, all in one batch."""
    given = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
    return [row for batch in task(iter([given])) for row in batch.to_pylist()]
