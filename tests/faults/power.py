"""What a whole command does to a folder of this machine, recorded for `crash_states`.

Whoever writes, by whichever call: before and after each change of a name, and at each sync, the
folder is compared with what it was. So nothing that a command does is out of sight, but that the
order of writes between two syncs is lost, which a disk does not keep either."""

import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import SECTOR_BYTES
from tests.faults.failing import same_again
from tests.faults.memory_files import MemoryFiles, Op

_NAMES = ("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "link")
_APART = 1 << 32  # inodes of this machine that no folder put here has


class Recorded(NamedTuple):
    start: MemoryFiles
    ops: list[Op]
    end: MemoryFiles


def recorded(root: Path, work: Callable[[], Any]) -> Recorded:
    """Do the work, and tell each step that it made below a folder."""
    folder = _Folder(root)
    start = same_again(folder.files)
    with folder.watched():
        work()
    return Recorded(start, folder.files.ops, same_again(folder.files))


def put(files: MemoryFiles, root: Path) -> None:
    """Make a folder on this machine the one that a crash has left."""
    shutil.rmtree(root, ignore_errors=True)
    for path in sorted(files.folders):
        (root / path).mkdir()
    there: dict[int, Path] = {}
    for path, inode in files.names_of.items():
        if inode in there:
            (root / path).hardlink_to(there[inode])
        else:
            (root / path).write_bytes(files.contents[inode])
            there[inode] = root / path


@contextmanager
def same_inodes(files: MemoryFiles, root: Path) -> Iterator[None]:
    """Let notes that name an inode lead to where `put` has put it."""
    known = {os.lstat(root / path).st_ino: inode for path, inode in _named(files).items()}

    def inode(self: DiskFiles, path: str) -> int:
        number = os.lstat(self._at(path)).st_ino
        return known.get(number, number + _APART)

    with mock.patch.object(DiskFiles, "inode", inode):
        yield


class _Folder:
    """A folder of this machine, and the same in memory, step by step."""

    def __init__(self, root: Path) -> None:
        self.root, self.files = root, MemoryFiles()
        self._lock = threading.RLock()
        self._of: dict[int, int] = {os.stat(root).st_ino: -1}  # this machine's inode -> in memory
        self.look()
        self.files.ops.clear()

    @contextmanager
    def watched(self) -> Iterator[None]:
        with ExitStack() as stack:
            for name in _NAMES:
                stack.enter_context(mock.patch.object(os, name, self._around(getattr(os, name))))
            for name in ("fsync", "fdatasync"):
                stack.enter_context(mock.patch.object(os, name, self._synced))
            exchange, inode = self._around(DiskFiles.exchange), DiskFiles.inode
            for name, made in (
                ("exchange", lambda *words: exchange(*words)),
                ("sync_all", lambda *_: self._sync_all()),
                ("inode", lambda *words: self._of.get(inode(*words), _APART)),
            ):
                stack.enter_context(mock.patch.object(DiskFiles, name, made))
            yield
        self.look()

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def around(*words: Any, **more: Any) -> Any:
            with self._lock:
                self.look()
                try:
                    return call(*words, **more)
                finally:
                    self.look()

        return around

    def _synced(self, descriptor: int) -> None:
        with self._lock:
            self.look()
            inode = self._of.get(os.fstat(descriptor).st_ino)
            names = {"": -1, **_named(self.files)}
            path = next((path for path, number in names.items() if number == inode), None)
            if path in self.files.folders:
                self.files.sync_folder(path)
            elif path is not None:
                self.files.open(path).sync()

    def _sync_all(self) -> None:
        with self._lock:
            self.look()
            self.files.sync_all("")

    def look(self) -> None:
        """Let the folder in memory be as this machine's is now."""
        with self._lock:
            there = {path: about.st_ino for path, about in _walk(self.root)}
            self._of = {real: made for real, made in self._of.items()
                        if real in there.values() or made == -1}  # fmt: skip
            while self._one_name(there):
                pass
            for path in {real: path for path, real in there.items()}.values():
                if path in self.files.names_of:
                    self._content(path)

    def _one_name(self, there: dict[str, int]) -> bool:
        """Change one name in memory to what it is; whether there was one."""
        files, named = self.files, _named(self.files)
        wanted = {path: self._of.get(real) for path, real in there.items()}
        for path, inode in sorted(named.items()):  # a folder before what is in it
            now = next((to for to, other in wanted.items() if other == inode), None)
            if wanted.get(path) == inode or now is None or named.get(now) == inode:
                continue
            if wanted.get(path, -2) == named.get(now, -3):
                files.exchange(path, now)
            else:
                if now in files.folders:
                    self._remove(now)
                files.rename(path, now)
            return True
        for path, inode in sorted(named.items(), reverse=True):
            if wanted.get(path) != inode:
                files.remove(path)
                return True
        for path, inode in wanted.items():
            if path in named:
                continue
            if inode is not None:
                of = next(name for name, number in named.items() if number == inode)
                files.link(of, path)
            elif stat.S_ISDIR(os.lstat(self.root / path).st_mode):
                files.add_folder(path)
                self._of[there[path]] = files.folder_ids[path]
            else:
                self._of[there[path]] = files.create(path).inode + _FILES
            return True
        return False

    def _remove(self, folder: str) -> None:
        for name in self.files.names(folder):
            self.files.remove(f"{folder}/{name}")

    def _content(self, path: str) -> None:
        file, now = self.files.open(path), (self.root / path).read_bytes()
        old = bytes(file.bytes)
        if now == old:
            return
        if len(now) < len(old):
            file.set_length(len(now))
        old = old.ljust(len(now), b"\0")
        begin = -1
        for at in range(0, len(now) + SECTOR_BYTES, SECTOR_BYTES):
            differs = now[at : at + SECTOR_BYTES] != old[at : at + SECTOR_BYTES]
            if differs and begin < 0:
                begin = at
            elif not differs and begin >= 0:
                file.write_at(begin, now[begin : min(at, len(now))])
                begin = -1
        if len(file.bytes) < len(now):
            file.set_length(len(now))


_FILES = 1 << 20  # inodes of files are so much above those of folders


def _named(files: MemoryFiles) -> dict[str, int]:
    """One number for each file and folder but the root; as notes have it."""
    folders = {path: files.folder_ids[path] for path in files.folders if path}
    return folders | {path: inode + _FILES for path, inode in files.names_of.items()}


def _walk(root: Path, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    for entry in sorted(os.scandir(root / below), key=lambda entry: entry.name):
        path = f"{below}/{entry.name}" if below else entry.name
        yield path, entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path)
