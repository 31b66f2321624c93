"""Tables of a RocksDB in staging, read by the library itself."""

from pathlib import Path
from typing import Any

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
