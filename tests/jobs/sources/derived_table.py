"""The rows of a source of derived files, as Spark's workers read them."""

from pathlib import Path
from typing import Any

import pyarrow as pa


def table(kind: Any, store: Path, **options: Any) -> pa.Table:
    source = kind({"path": str(store), **{n: str(v) for n, v in options.items()}})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(reader.columns)
    return pa.Table.from_batches(batches, reader.columns)
