"""A Storage in memory, for thousands of rebuilds: what jobs ask of a file system, and no more."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from reput.store_format.faults import StoreChanged
from reput.store_format.files.overlap import Whereabouts, by_key
from reput.store_format.files.protocol import Bytes, FileState, Listed, MayGo, Storage, Written


class Claims(Storage):
    """Whose staging folders are, where there is one process: a set. Nobody holds a store."""

    def __init__(self) -> None:
        self.claimed: set[str] = set()

    def resolve(self, path: str) -> str:
        return path

    def whereabouts(self, path: str) -> Whereabouts:
        return by_key((type(self).__name__, id(self)), path)

    def claim(self, folder: str) -> Callable[[], None]:
        self.make_folders(folder)
        self.claimed.add(folder)
        return lambda: self.claimed.discard(folder)

    def is_abandoned(self, folder: str) -> bool | None:
        return folder not in self.claimed


class MemoryStorage(Claims):
    """Files by path; a folder is there if it was made or holds something."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files: dict[str, bytes] = dict(files or {})
        self.folders: set[str] = set()
        super().__init__()

    def list(self, folder: str) -> list[Listed]:
        if folder in self.files:
            raise NotADirectoryError(folder)
        below = folder + "/"
        paths = [p for p in (*self.files, *self.folders) if p.startswith(below)]
        if not paths and folder not in self.folders:
            raise FileNotFoundError(folder)
        names = {path.removeprefix(below).split("/")[0] for path in paths}
        return sorted(Listed(name, self._state(below + name)) for name in names)

    def _state(self, path: str) -> FileState | None:
        return FileState(len(self.files[path]), 0, 0) if path in self.files else None

    def open(self, path: str, state: FileState | None = None) -> "MemoryReader":
        return MemoryReader(path, self.read_bytes(path))

    def create(self, path: str, digest: bool = False, published: bool = False) -> "MemoryWriter":
        if path in self.files:
            raise FileExistsError(path)
        return MemoryWriter(self, path)

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        if f"{folder}/{path}" in self.files:
            return False
        self.files[f"{folder}/{path}"] = content.ljust(length, b"\0")
        return True

    def read_bytes(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def make_folders(self, path: str) -> None:
        self.folders.add(path)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        for path, to in moves:
            if path in self.files:
                self.files[to] = self.files.pop(path)
                continue
            below = [each for each in self.files if each.startswith(path + "/")]
            assert below, path
            self.move_all((each, to + each.removeprefix(path)) for each in below)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def remove_tree(self, folder: str) -> None:
        self.files = {p: c for p, c in self.files.items() if not p.startswith(folder + "/")}
        self.folders = {p for p in self.folders if not (p + "/").startswith(folder + "/")}

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        may_go(to)
        return folder

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        name, content = manifest
        self.files[f"{folder}/{name}"] = content
        paths = [path for path in self.files if path.startswith(folder + "/")]
        self.move_all((path, to + path.removeprefix(folder)) for path in paths)
        self.remove_tree(folder)
        self.folders.add(to)


class WatchedStorage(MemoryStorage):
    """Notes the paths of all readers that are opened, and of those closed."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self.opened: list[str] = []
        self.closed: list[str] = []

    def open(self, path: str, state: FileState | None = None) -> "MemoryReader":
        reader = super().open(path, state)
        self.opened.append(path)
        reader.close = lambda: self.closed.append(path)  # type: ignore[method-assign]
        return reader

    @property
    def open_now(self) -> int:
        return len(self.opened) - len(self.closed)


class MemoryReader:
    """A file as it was when it was opened."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path = path
        self._content = np.frombuffer(content, np.uint8)
        self.state = FileState(len(content), 0, 0)

    def read_into(self, offset: int, buffer: Bytes) -> None:
        if offset + len(buffer) > len(self._content):
            raise StoreChanged(f"{self.path}: ends before offset {offset + len(buffer)}")
        buffer[:] = self._content[offset : offset + len(buffer)]

    def close(self) -> None:
        pass


class MemoryWriter:
    """Appears in the storage when it is finished, as no reader may see a part."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self._storage, self._path = storage, path
        self._content = bytearray()

    def write(self, data: Any) -> None:
        self._content += memoryview(data).cast("B")

    def finish(self, length: int) -> Written:
        assert len(self._content) <= length
        content = bytes(self._content).ljust(length, b"\0")
        self._storage.files[self._path] = content
        return Written(length, hashlib.sha256(self._content).hexdigest(), len(self._content))

    def abandon(self) -> None:
        pass
