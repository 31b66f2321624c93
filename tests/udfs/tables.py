"""What tasks yield."""

from typing import Any

import pyarrow as pa


def rows_of(task: Any, *ids: int, schema: pa.Schema | None = None) -> list[dict[str, Any]]:
    """The rows of a task that gets these numbers, all in one batch; schema: of what it yields."""
    given = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
    batches = list(task(iter([given])))
    assert schema is None or all(batch.schema == schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]
