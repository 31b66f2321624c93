"""Files of another storage with some bytes replaced as they are read; nothing is written."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.storage.protocol import Bytes, FileState, InputStorage, Reader
from reput.store_format.storage.read_by import ReaderOf


class Overlay(NamedTuple):
    """The bytes `raw` replace those at `offset` of a file."""

    offset: int
    raw: bytes


class Patched:
    """Another storage whose files are read with overlays. overlays: by path."""

    def __init__(self, storage: InputStorage, overlays: Mapping[str, Sequence[Overlay]]) -> None:
        self._storage, self._overlays = storage, dict(overlays)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by unpickling, before there is a _storage
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
