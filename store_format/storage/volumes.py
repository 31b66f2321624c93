"""Databricks volumes, `/Volumes/...`: an object store that looks like a folder.

Files are written from start to end and never opened again for writing. No file is renamed, linked,
synced or made with holes. Other machines may see other inodes than the driver.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator

from reput.store_format.storage.local import LocalReader, LocalStorage
from reput.store_format.storage.manifest_last import ManifestLast, SequentialWriter
from reput.store_format.storage.protocol import FileState, Listed

_DBFS = re.compile(r"^(dbfs|file):/+", re.IGNORECASE)
_MOUNTS = ("Volumes", "dbfs")


class VolumeReader(LocalReader):
    @staticmethod
    def state_of(about: os.stat_result) -> FileState:
        return FileState(about.st_size, about.st_mtime_ns, 0)


class VolumeWriter(SequentialWriter):
    """The file appears whole when it is closed, because the mount uploads it then."""

    def __init__(self, path: str, mode: int, digest: bool) -> None:
        super().__init__(path, digest)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def _send(self, view: memoryview) -> None:
        done = 0
        while done < len(view):
            done += os.write(self._descriptor, view[done:])

    def _close(self) -> None:
        os.close(self._descriptor)

    def abandon(self) -> None:
        os.close(self._descriptor)
        os.unlink(self.path)


class VolumeStorage(ManifestLast, LocalStorage):
    """A mounted object store: sequential writes, and publishing by a manifest."""

    reader = VolumeReader

    @staticmethod
    def is_for(path: str) -> bool:
        """Whether a path is on a Databricks mount."""
        return _plain(path).split("/")[1] in _MOUNTS

    def resolve(self, path: str) -> str:
        """The mounted path: /Volumes/x for dbfs:/Volumes/x, /dbfs/x for dbfs:/x."""
        return _plain(path)

    def create(self, path: str, digest: bool = False, published: bool = False) -> VolumeWriter:
        return VolumeWriter(path, self.file_mode, digest)

    def walk(self, folder: str, below: str = "") -> Iterator[Listed]:
        return LocalStorage.walk(self, folder, below)

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        """By copy and removal, which every mount can do."""
        for path, to in moves:
            with open(path, "rb") as source, open(to, "xb") as target:
                shutil.copyfileobj(source, target, 1 << 22)
            os.unlink(path)

    def remove_tree(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def _plain(path: str) -> str:
    found = _DBFS.match(path)
    if found and found[1].lower() == "dbfs":
        rest = path[found.end() :]
        path = f"/{rest}" if rest.split("/")[0] in _MOUNTS else f"/dbfs/{rest}"
    elif found:
        path = "/" + path[found.end() :]
    return os.path.abspath(path)
