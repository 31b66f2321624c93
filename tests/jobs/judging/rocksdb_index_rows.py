"""The rows of an index in RocksDB."""

from contextlib import closing
from pathlib import Path

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.rocksdb.database import open_database
from reput.store_format.rocksdb.rows import FAMILY

Rows = dict[bytes, bytes]


def rows(folder: Path) -> Rows:
    with closing(open_database(Folder(LocalStorage(), str(folder)))) as database:
        return dict(database.rows(FAMILY))
