"""A local folder that behaves as S3 does and counts what it is asked for, whichever process asks.

moto takes 2 minutes for 10,000 files; a folder makes 100,000 objects in one. Zeros at a file's end
are counted and not written, and a copy is a second name.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from reput.store_format.files.local import VolumeStorage, VolumeWriter
from reput.store_format.files.protocol import FileState, Listed, Written
from tests.store_format.files.s3_server import kind_of

_logs: dict[tuple[str, int], int] = {}  # of each process, which may have been forked


class CountedFolder(VolumeStorage):
    """The storage. counts: a folder for the processes' counts."""

    moves_by_copies = True

    def __init__(self, counts: str) -> None:
        super().__init__()
        self.counts = counts

    def asked(self, method: str, path: str, size: int) -> None:
        """Count a request. A line is one write, so that no worker's end loses it."""
        key = self.counts, os.getpid()
        if key not in _logs:
            path_of = f"{self.counts}/{key[1]}"
            _logs[key] = os.open(path_of, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(_logs[key], f"{method} {kind_of(path)} {size}\n".encode())

    @contextmanager
    def counted(self) -> Iterator[Counter[tuple[str, str]]]:
        """As `s3_server.counted`."""
        before, found = self._counts(), Counter[tuple[str, str]]()
        yield found
        found.update(self._counts() - before)

    def _counts(self) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for entry in os.scandir(self.counts):
            with open(entry.path) as lines:
                for method, kind, size in map(str.split, lines):
                    found[method, kind] += 1
                    found[f"{method} bytes", kind] += int(size)
        return found

    def open(self, path: str, state: FileState | None = None) -> Any:
        return _Reader(self, super().open(path, state))

    def create(self, path: str, digest: bool = False, published: bool = False) -> "_Writer":
        return _Writer(self, path, digest)

    def list(self, folder: str) -> list[Listed]:
        self.asked("LIST", "", 0)
        return super().list(folder)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        for path, to in moves:
            self.asked("COPY", to, 0)
            try:
                os.link(path, to)
            except FileExistsError:  # a second attempt
                os.unlink(to)
                os.link(path, to)


class _Reader:
    def __init__(self, storage: CountedFolder, reader: Any) -> None:
        self._storage, self._reader = storage, reader

    def read_into(self, offset: int, buffer: Any) -> None:
        self._storage.asked("GET", self._reader.path, len(buffer))
        self._reader.read_into(offset, buffer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class _Writer(VolumeWriter):
    def __init__(self, storage: CountedFolder, path: str, digest: bool) -> None:
        super().__init__(path, 0o600, digest)
        self._storage = storage

    def finish(self, length: int) -> Written:
        os.ftruncate(self._descriptor, length)
        self._storage.asked("PUT", self.path, length)
        self._close()
        return Written(length, self._hash.hexdigest() if self._hash else "", self._at)
