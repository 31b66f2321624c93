"""A storage whose files may become longer while they are read, as those of a log that is copied."""

from contextlib import suppress

from reput.store_format.faults import StoreChanged
from reput.store_format.storage.protocol import Bytes, FileState, Reader
from reput.store_format.storage.read_by import ReadBy


class GrowingFiles(ReadBy):
    """Another storage, of which a file is an error only where it has become shorter."""

    def open(self, path: str, state: FileState | None = None) -> Reader:
        """state: what an earlier listing saw. Raises StoreChanged where it is shorter now."""
        reader = self.storage.open(path)
        if state is not None and reader.state.size < state.size:
            now = reader.state
            reader.close()
            raise StoreChanged(f"{path}: changed since it was listed: {state} is now {now}")
        return _GrowingReader(reader)


class _GrowingReader:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        if hasattr(reader, "fileno"):
            self.fileno = reader.fileno

    @property
    def state(self) -> FileState:
        return self._reader.state

    def read_into(self, offset: int, buffer: Bytes) -> None:
        """See Reader."""
        self._reader.read_into(offset, buffer)

    def close(self) -> None:
        """Let go of it; that it has changed is what was expected."""
        with suppress(StoreChanged):
            self._reader.close()
