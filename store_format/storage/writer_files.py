"""A writer's `Files`, listed and read as a storage is."""

import sys
from contextlib import closing

from reput.store_format.disk.files import Bytes, Files, OpenFile
from reput.store_format.disk.small_files import read_small
from reput.store_format.faults import StoreError
from reput.store_format.storage.protocol import FileState, Listed, Reader


class FilesRead:
    """Lists and reads a `Files`. Paths are below its root, with or without a leading slash."""

    def __init__(self, files: Files) -> None:
        self._files = files

    window_bytes, reads_ahead = 1 << 20, 0

    def list(self, folder: str) -> list[Listed]:
        names = self._files.names(folder.lstrip("/"))
        return [Listed(name, self._state(f"{folder}/{name}")) for name in names]

    def _state(self, path: str) -> FileState | None:
        try:
            if self._files.is_folder(path.lstrip("/")):
                return None
        except StoreError:
            return None  # a link, or a device
        with closing(self.open(path)) as reader:
            return reader.state

    def open(self, path: str, state: FileState | None = None) -> Reader:
        return _Reader(self._files.open_read(path.lstrip("/")))

    def read_bytes(self, path: str) -> bytes:
        return read_small(self._files, path.lstrip("/"), sys.maxsize)


class _Reader:
    def __init__(self, file: OpenFile) -> None:
        self._file = file

    @property
    def state(self) -> FileState:
        return FileState(self._file.length(), 0, 0)

    def read_into(self, offset: int, buffer: Bytes) -> None:
        self._file.read_at(offset, buffer)

    def close(self) -> None:
        self._file.close()
