"""The rows of queues in RocksDB."""

from pathlib import Path

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import open_database
from reput.store_format.rocksdb.queues import ENTRIES, MIN, OFFSETS, parse_offset_key


def rows(folder: Path) -> dict[str, dict[bytes, bytes]]:
    """What is in a RocksDB of queues; without minima, which a broker finds when it is asked."""
    database = open_database(Folder(LocalStorage(), str(folder)))
    try:
        found = {family: dict(database.rows(family)) for family in (ENTRIES, OFFSETS)}
    finally:
        database.close()
    for key in list(found[OFFSETS]):
        about = parse_offset_key(key)
        if about is not None and about.kind == MIN:
            del found[OFFSETS][key]
    return found
