"""Base classes of storages that read another storage's files in their own way."""

from reput.store_format.storage.protocol import (
    Bytes,
    FileState,
    InputStorage,
    Listed,
    Reader,
    is_back_to_back,
)


class ReadBy:
    """Another storage, which is only listed and read. A subclass has `open`."""

    def __init__(self, storage: InputStorage) -> None:
        self.storage = storage
        self.window_bytes, self.reads_ahead = storage.window_bytes, 0
        self.back_to_back = is_back_to_back(storage)

    def list(self, folder: str) -> list[Listed]:
        return self.storage.list(folder)

    def read_bytes(self, path: str) -> bytes:
        return self.storage.read_bytes(path)


class ReaderOf:
    """Another storage's open file. A subclass changes some of the methods."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def state(self) -> FileState:
        return self._reader.state

    def read_into(self, offset: int, buffer: Bytes) -> None:
        self._reader.read_into(offset, buffer)

    def close(self) -> None:
        self._reader.close()
