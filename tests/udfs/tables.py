"""What tasks yield, and tables of a RocksDB in staging, read by the library itself."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import rocksdict

from reput.store_format.rocksdb.database import make_database, table_options


def rows_in(tables: dict[str, bytes], folder: Path) -> list[tuple[bytes, bytes]]:
    """The rows of some tables, by key. tables: their files; folder: an empty one."""
    database = folder / "database"
    database.mkdir()
    paths = [folder / name for name in tables]
    for path, raw in zip(paths, tables.values(), strict=True):
        path.write_bytes(raw)
    make_database(str(database), {"default": (table_options(True, True), list(map(str, paths)))})
    with rocksdict.Rdict(str(database), rocksdict.Options(raw_mode=True)) as opened:
        rows: Any = opened.items()
        return list(rows)


def rows_of(task: Any, *ids: int, schema: pa.Schema | None = None) -> list[dict[str, Any]]:
    """The rows of a task that gets these numbers, all in one batch; schema: of what it yields."""
    given = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
    batches = list(task(iter([given])))
    assert schema is None or all(batch.schema == schema for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]
