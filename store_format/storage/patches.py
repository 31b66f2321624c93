"""Files of another storage, with some of their bytes read as others: nothing is written."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.storage.protocol import Bytes, FileState, InputStorage, Reader
from reput.store_format.storage.read_by import ReaderOf


class Overlay(NamedTuple):
    """`raw` is read at `offset` of a file, whatever stands there."""

    offset: int
    raw: bytes


class Patched:
    """A storage that reads overlays in place of what is in its files; all else is the storage's."""

    def __init__(self, storage: InputStorage, overlays: Mapping[str, Sequence[Overlay]]) -> None:
        self._storage, self._overlays = storage, dict(overlays)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for while this is unpickled
            raise AttributeError(name)
        return getattr(self._storage, name)

    def open(self, path: str, state: FileState | None = None) -> Reader:
        reader = self._storage.open(path, state)
        return _PatchedReader(reader, self._overlays[path]) if path in self._overlays else reader


class _PatchedReader(ReaderOf):
    def __init__(self, reader: Reader, overlays: Sequence[Overlay]) -> None:
        super().__init__(reader)
        self._overlays = overlays

    def read_into(self, offset: int, buffer: Bytes) -> None:
        self._reader.read_into(offset, buffer)
        end = offset + len(buffer)
        for at, raw in self._overlays:
            low, high = max(at, offset), min(at + len(raw), end)
            if low < high:
                buffer[low - offset : high - offset] = np.frombuffer(
                    raw[low - at : high - at], "u1"
                )
