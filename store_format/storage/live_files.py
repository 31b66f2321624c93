"""Storages whose files are written to while they are read, by a broker or by a copying job."""

from contextlib import suppress

from reput.store_format.faults import StoreChanged
from reput.store_format.storage.protocol import ANY_TIME, FileState, Reader
from reput.store_format.storage.read_by import ReadBy, ReaderOf


class LiveFiles(ReadBy):
    """Another storage, whose files a running broker may write to while they are read."""

    def open(self, path: str, state: FileState | None = None) -> Reader:
        if state is None:
            return self.storage.open(path)
        return self.storage.open(path, state._replace(mtime=ANY_TIME))


class GrowingFiles(ReadBy):
    """Another storage, whose files may grow while they are read but not become shorter."""

    def open(self, path: str, state: FileState | None = None) -> Reader:
        """state: from an earlier listing. Raises StoreChanged if the file is shorter now."""
        reader = self.storage.open(path)
        if state is not None and reader.state.size < state.size:
            now = reader.state
            reader.close()
            raise StoreChanged(f"{path}: changed since it was listed: {state} is now {now}")
        return _GrowingReader(reader)


class _GrowingReader(ReaderOf):
    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        if hasattr(reader, "fileno"):
            self.fileno = reader.fileno

    def close(self) -> None:
        """Close the file. A changed file is no error here."""
        with suppress(StoreChanged):
            self._reader.close()
