"""Publishing on file systems that cannot rename a folder in one step: the manifest is written last.

1. A file UNFINISHED is written into the output folder; it names the job that publishes.
2. What an older set or a killed job left there is removed, the old manifest first. Only names that
   may go (MayGo) are removed, one by one. A file that came there meanwhile stays and ends the job.
3. The files get their names.
4. The manifest is written, then UNFINISHED is removed.

A folder with a manifest has a whole set. A folder with UNFINISHED and no manifest has none, and the
next job starts at step 1. Only one job at a time may publish to a folder; if there are two, at most
one finds its own name in UNFINISHED in step 4.
"""

import errno
import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import Listed, MayGo, Storage, Written, walk_lists
from reput.store_format.names import MANIFEST, UNFINISHED

_ZEROS = bytes(1 << 20)
AT_ONCE = 32  # requests, when many files get their names


class SequentialWriter:
    """A Writer that sends every byte in order, zeros too. Subclasses have `_send` and `_close`."""

    def __init__(self, path: str, digest: bool) -> None:
        self.path = path
        self._at = 0
        self._hash = hashlib.sha256() if digest else None

    def write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        if self._hash:
            self._hash.update(view)
        self._send(view)
        self._at += len(view)

    def finish(self, length: int) -> Written:
        used, digest = self._at, self._hash.hexdigest() if self._hash else ""
        assert length >= used, f"{self.path}: {used} bytes written of {length}"
        while self._at < length:
            self.write(_ZEROS[: length - self._at])
        self._close()
        return Written(length, digest, used)

    def abandon(self) -> None:
        """Give the file up: what was sent does not stay as a file."""
        raise NotImplementedError

    def _send(self, view: memoryview) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class ManifestLast(Storage):
    """`begin_set` and `publish` of a Storage that publishes this way, and has no locks."""

    def begin_set(self, folder: str, to: str, may_go: MayGo) -> str:
        """Clear `to`; the files of the set then get their names in it one by one."""
        going = [path for path in may_go(to) if path not in (UNFINISHED, MANIFEST)]
        self.make_folders(to)
        self.remove(f"{to}/{UNFINISHED}")
        _write(self, f"{to}/{UNFINISHED}", folder.encode())
        self.remove(f"{to}/{MANIFEST}")
        self.remove_all(f"{to}/{path}" for path in going if path[-1:] != "/")
        for path in sorted(going, reverse=True):  # a folder's content before the folder
            if path[-1:] == "/":
                self.remove_folder(f"{to}/{path[:-1]}")
        left = [name for name in _names(self, to) if name != UNFINISHED]
        if left:
            raise FileExistsError(errno.EEXIST, "is there and is of no set", f"{to}/{left[0]}")
        return to

    def remove_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.remove(path)

    def remove_folder(self, path: str) -> None:
        """Remove a folder; it stays if it is not empty."""
        self.remove(path)

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        """Write the manifest; with it, `to` holds a set."""
        marker = f"{to}/{UNFINISHED}"
        try:
            mine = self.read_bytes(marker) == folder.encode()
        except FileNotFoundError:
            mine = False
        if not mine:
            raise StoreError(f"{to}: another job has published to it meanwhile")
        name, content = manifest
        _write(self, f"{to}/{name}", content)
        self.remove(marker)


def all_below(storage: Storage, folder: str) -> list[Listed]:
    """All that is below a folder, as `walk` has it, in as few requests as the storage can; links on
    a disk are followed. Nothing if there is no such folder.
    """
    flat = isinstance(storage, ManifestLast)
    try:
        return list(storage.walk(folder) if flat else walk_lists(storage, folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def for_all(function: Callable[[Any], None], items: Iterable[Any]) -> None:
    """Call the function for each item, AT_ONCE at a time; the first error ends it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for _ in pool.map(function, items):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _names(storage: Storage, folder: str) -> list[str]:
    try:
        return [name for name, _ in storage.list(folder)]
    except FileNotFoundError:
        return []


def _write(storage: Storage, path: str, content: bytes) -> None:
    output = storage.create(path)
    output.write(content)
    output.finish(len(content))
