"""A Storage over `Files`: a real job's work on files that are recorded, lost, or fail.

What is done to names and to durability is LocalStorage's own (`put_in_place`); what it does with
descriptors, modes and locks is not here."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from reput.store_format.faults import StoreChanged
from reput.store_format.files.disk import put_in_place
from reput.store_format.files.protocol import Bytes, FileState, Listed, MayGo, Written
from tests.faults.memory_files import MemoryFiles
from tests.memory_storage import Claims


class FilesStorage(Claims):
    """Jobs on files in memory; paths are below their root."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files = files
        super().__init__()

    def list(self, folder: str) -> list[Listed]:
        if folder not in self.files.folders:
            raise FileNotFoundError(folder)
        above = f"{folder}/" if folder else ""
        return [Listed(n, self._state(above + n)) for n in self.files.names(folder)]

    def _state(self, path: str) -> FileState | None:
        if path in self.files.folders:
            return None
        inode = self.files.names_of[path]
        return FileState(len(self.files.contents[inode]), 0, inode)

    def open(self, path: str, state: FileState | None = None) -> "FilesReader":
        return FilesReader(self.files, path)

    def create(self, path: str, digest: bool = False, published: bool = False) -> "FilesWriter":
        return FilesWriter(self.files, path)

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        assert self.files.exists(folder)
        if self.files.exists(f"{folder}/{path}"):
            return False
        self.files.make_folder(f"{folder}/{path}".rpartition("/")[0])
        output = self.create(f"{folder}/{path}")
        output.write(content)
        output.finish(length)
        return True

    def make_folders(self, path: str) -> None:
        if path:
            self.files.make_folder(path)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        for path, to in moves:
            self.files.rename(path, to)

    def remove(self, path: str) -> None:
        if self.files.exists(path):
            self.files.remove(path)

    def remove_tree(self, folder: str) -> None:
        if not self.files.exists(folder):
            return
        gone = folder if folder.endswith(".gone") else folder + ".gone"
        if gone != folder:
            self.files.rename(folder, gone)
        self._remove(gone)

    def _remove(self, path: str) -> None:
        for name in self.files.names(path):
            self._remove(f"{path}/{name}")
        self.files.remove(path)

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        may_go(to)
        self.make_folders(folder)
        return folder

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        name, content = manifest
        output = self.create(f"{folder}/{name}")
        output.write(content)
        output.finish(len(content))
        self.make_folders(to.rpartition("/")[0])
        put_in_place(self.files, folder, to, bool(may_go(to)), may_go)


class FilesReader:
    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._file = files.open_read(path)
        self.path = path
        self.state = FileState(self._file.length(), 0, self._file.inode)

    def read_into(self, offset: int, buffer: Bytes) -> None:
        self._file.read_at(offset, np.asarray(buffer))

    def close(self) -> None:
        if self._file.length() != self.state.size:
            raise StoreChanged(self.path)


class FilesWriter:
    def __init__(self, files: MemoryFiles, path: str) -> None:
        self._files, self._path = files, path
        self._file = files.create(path)
        self._content = bytearray()

    def write(self, data: Any) -> None:
        self._content += memoryview(data).cast("B")

    def finish(self, length: int) -> Written:
        self._file.write_at(0, self._content)
        self._file.set_length(length)
        return Written(length, hashlib.sha256(self._content).hexdigest(), len(self._content))

    def abandon(self) -> None:
        self._files.remove(self._path)


class Rooted(FilesStorage):
    """A storage whose store is the root itself, so that paths begin with a slash."""

    def list(self, folder: str) -> list[Listed]:
        return super().list(folder.lstrip("/"))

    def open(self, path: str, state: FileState | None = None) -> FilesReader:
        return super().open(path.lstrip("/"), state)

    def _state(self, path: str) -> FileState | None:
        return super()._state(path.lstrip("/"))
