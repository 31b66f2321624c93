"""A table of a RocksDB in staging. The RocksDB library writes it on a local disk."""

import os
from contextlib import ExitStack

from reput.store_format.files.private import Scratch, scratch_folder
from reput.store_format.rocksdb.database import TableWriter, table_options
from reput.udfs.staging import Staging, local_folder, table_file_name

_COPIED_BYTES = 1 << 20


class NewTable:
    """A table in staging, which its first rows create."""

    def __init__(self, staging: Staging) -> None:
        self._staging, self.name = staging, table_file_name()
        self._writer: TableWriter | None = None
        self._scratch = ExitStack()
        self._path = ""

    def __enter__(self) -> "NewTable":
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.close()

    def put_rows(self, keys: list[bytes], values: list[bytes]) -> None:
        """Write some rows, whose keys are above all earlier ones."""
        if self._writer is None:
            self._path = self._local_path()
            self._writer = TableWriter(self._path, table_options(True, True))
        self._writer.put(keys, values)

    def finish(self) -> None:
        if self._writer is None:
            return
        self._writer.finish()
        if local_folder(self._staging) is None:
            copy_in(self._staging, self._path, self.name)

    def _local_path(self) -> str:
        """A path for the library, which can write local files only."""
        folder = local_folder(self._staging)
        if folder is None:
            folder = self._scratch.enter_context(scratch_folder(Scratch.TABLE))
        return f"{folder}/{self.name}"


def copy_in(staging: Staging, path: str, name: str) -> None:
    """Copy a local file into staging."""
    output = staging.storage.create(staging.path(name))
    with open(path, "rb") as file:
        while some := file.read(_COPIED_BYTES):
            output.write(some)
    output.finish(os.path.getsize(path))
