"""Copies of files that are to go, in a folder or at a URL, compared before anything is deleted."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reput.store_format.disk.files import Files
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.storage.manifest_last import ManifestLast
from reput.store_format.storage.protocol import Storage

_CHUNK = 4 << 20
_PART = ".part"


@dataclass(frozen=True)
class Archive:
    """Where copies are kept, by the paths that the files have below the store."""

    storage: Storage
    folder: str

    def keep(self, files: Files, path: str, done: Callable[[int], None]) -> str:
        """Copy a file, read the copy back and compare; its SHA-256. A copy that is there stays.

        done: is told how many bytes are copied. Raises StoreError where something else has its
        name, StoreChanged where the copy reads otherwise than what was written.
        """
        target = f"{self.folder}/{path}"
        wanted = _digest_of(files, path)
        there = self._digest(target)
        if there is None:
            self._copy(files, path, target, done)
            there = self._digest(target)
            if there != wanted:
                raise StoreChanged(f"{target}: reads otherwise than {path}, of which it is a copy")
        elif there != wanted:
            raise StoreError(f"{target}: is there already, and is no copy of {path}; it stays")
        return wanted

    def _copy(self, files: Files, path: str, target: str, done: Callable[[int], None]) -> None:
        storage = self.storage
        storage.make_folders(target.rpartition("/")[0])
        # where files are there whole or not at all, or have no second name, no other is needed
        part = target if isinstance(storage, ManifestLast) else target + _PART
        if part != target:
            storage.remove(part)
        file, output = files.open_read(path), storage.create(part, digest=True)
        try:
            length = file.length()
            for at in range(0, length, _CHUNK):
                buffer = np.empty(min(_CHUNK, length - at), np.uint8)
                file.read_at(at, buffer)
                output.write(buffer)
                done(len(buffer))
            output.finish(length)
        except BaseException:
            output.abandon()
            raise
        finally:
            file.close()
        if part != target:
            storage.move_all([(part, target)])

    def _digest(self, path: str) -> str | None:
        try:
            reader = self.storage.open(path)
            length = reader.state.size
        except FileNotFoundError:
            return None
        found = hashlib.sha256()
        for at in range(0, length, _CHUNK):
            buffer = np.empty(min(_CHUNK, length - at), np.uint8)
            reader.read_into(at, buffer)
            found.update(buffer)
        reader.close()
        return found.hexdigest()


def _digest_of(files: Files, path: str) -> str:
    found = hashlib.sha256()
    file = files.open_read(path)
    try:
        length = file.length()
        for at in range(0, length, _CHUNK):
            buffer = np.empty(min(_CHUNK, length - at), np.uint8)
            file.read_at(at, buffer)
            found.update(buffer)
    finally:
        file.close()
    return found.hexdigest()
