"""Copies of files before they are deleted, in a folder or at a URL, each compared with its file."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from reput.jobs.outputs.output import Input, refuse_overlap
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Bytes, Files, Storage

_CHUNK = 4 << 20
_PART = ".part"


@dataclass(frozen=True)
class Archive:
    """Where copies are kept. A copy has its file's path below the store, here below `folder`."""

    storage: Storage
    folder: str
    inputs: tuple[Input, ...]  # the stores whose files are copied

    def check(self, paths: Iterable[str] = ()) -> None:
        """Raise OverlapsInput if copies would lie among the files of the inputs.

        paths: files to be copied. Their folders below the archive are checked too: a link there
        may lead back into the store, so that a file would be taken for its own copy.
        """
        folders = dict.fromkeys(path.rpartition("/")[0] for path in paths)
        for folder in (self.folder, *(f"{self.folder}/{each}" for each in folders)):
            refuse_overlap(self.storage, folder, self.inputs)

    def keep(self, files: Files, path: str, done: Callable[[int], None]) -> str:
        """Copy a file, read the copy back and compare; its SHA-256. An existing copy stays.

        done: called with the number of bytes of each copied piece. Raises StoreError if another
        file has the copy's name, StoreChanged if the copy differs from what was written.
        """
        target = f"{self.folder}/{path}"
        wanted = _digest(_pieces_of(files, path))
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
        # a ManifestLast storage shows a file only when it is whole, or cannot rename it
        part = target if isinstance(storage, ManifestLast) else target + _PART
        if part != target:
            storage.remove(part)
        output, length = storage.create(part, digest=True), 0
        try:
            for piece in _pieces_of(files, path):
                output.write(piece)
                length += len(piece)
                done(len(piece))
            output.finish(length)
        except BaseException:
            output.abandon()
            raise
        if part != target:
            storage.move_all([(part, target)])

    def _digest(self, path: str) -> str | None:
        try:
            reader = self.storage.open(path)
            length = reader.state.size
        except FileNotFoundError:
            return None
        try:
            return _digest(_pieces(reader.read_into, length))
        finally:
            reader.close()


def _pieces_of(files: Files, path: str) -> Iterator[Bytes]:
    with closing(files.open_read(path)) as file:
        yield from _pieces(file.read_at, file.length())


def _pieces(read: Callable[[int, Bytes], None], length: int) -> Iterator[Bytes]:
    for at in range(0, length, _CHUNK):
        buffer = np.empty(min(_CHUNK, length - at), np.uint8)
        read(at, buffer)
        yield buffer


def _digest(pieces: Iterable[Bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()
