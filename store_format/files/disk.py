"""`Files` on this machine's disks, where links are not followed; and the atomic step that gives a
whole folder its final name.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import Self

from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.protocol import Bytes, Data, Files, StoreInUse
from reput.store_format.files.system import held_here, identity, is_ours
from reput.store_format.names import COMMIT_LOG

# ---
# `Files` on this machine's disks: links are not followed, errors name the file.

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def fill_from(descriptor: int, path: str, at: int, buffer: Bytes, how: int = 0) -> None:
    """Fill the buffer from a place. Raises StoreChanged at the file's end. how: preadv2's flags."""
    done = os.preadv(descriptor, [buffer], at, how)
    if done == buffer.nbytes:
        return  # nearly always: for many small reads the rest would take as long as the read
    view = memoryview(buffer).cast("B")
    while done < len(view):
        count = os.preadv(descriptor, [view[done:]], at + done, how)
        if count == 0:
            raise StoreChanged(f"{path}: ends before offset {at + len(view)}")
        done += count


class DiskFile:
    def __init__(self, path: str, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def write_at(self, at: int, data: Data) -> None:
        try:
            done = os.pwrite(self._descriptor, data, at)
            if done < len(data):  # a signal came, or the disk is nearly full
                view = memoryview(data).cast("B")
                while done < len(view):
                    done += os.pwrite(self._descriptor, view[done:], at + done)
        except OSError as error:
            error.filename = self.path  # else nobody knows which disk is full
            raise

    def read_at(self, at: int, buffer: Bytes) -> None:
        fill_from(self._descriptor, self.path, at, buffer)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def set_length(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def give_name(self, path: str) -> None:
        # Only with a folder's descriptor, which counts for nothing beside a whole path, does Python
        # follow the link in /proc (linkat with AT_SYMLINK_FOLLOW).
        source = f"/proc/self/fd/{self._descriptor}"
        os.link(source, path, src_dir_fd=self._descriptor, follow_symlinks=True)
        self.path = path

    def lock_pages(self, length: int) -> Callable[[], None]:
        """DefaultMappedFile.mlock, which also ignores a refusal (RLIMIT_MEMLOCK)."""
        try:
            pages = mmap.mmap(self._descriptor, length)
        except (OSError, ValueError):  # a file system that maps no files
            return lambda: None
        place = ctypes.c_char.from_buffer(pages)
        ctypes.CDLL(None).mlock(ctypes.byref(place), ctypes.c_size_t(length))
        del place  # else the pages could not be released
        return pages.close

    def close(self) -> None:
        os.close(self._descriptor)


class DiskFiles:
    """The files below a folder of this machine. Links are not followed.

    root: its path without a slash at the end, '' for the machine's root. owner: the user and group
    that new files and folders get, if they should not get those of this process.
    """

    def __init__(
        self, root: str, file_mode: int = 0o644, folder_mode: int = 0o755,
        owner: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        self.root = root
        self.file_mode, self.folder_mode, self.owner = file_mode, folder_mode, owner

    @classmethod
    def as_owned_by(cls, store: os.stat_result, root: str) -> Self:
        """Files in which new ones get the store's mode and owner, for its broker."""
        mode = stat.S_IMODE(store.st_mode)
        owner = (store.st_uid, store.st_gid) if os.geteuid() == 0 else None
        return cls(root, mode & 0o666, mode, owner)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root or "/"

    def open(self, path: str) -> DiskFile:
        return self._open(path, os.O_RDWR)

    def open_read(self, path: str) -> DiskFile:
        return self._open(path, os.O_RDONLY | os.O_NONBLOCK)

    def create(self, path: str, length: int = 0, own: bool = False) -> DiskFile:
        file = self._named_at_last(path, length) if length and not own else None
        if file is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            file = self._open(path, flags, 0o600 if own else self.file_mode)
            if not own:
                self.give(path)
            if length:
                file.set_length(length)
        return file

    def _named_at_last(self, path: str, length: int) -> DiskFile | None:
        """A new file that got its name once it had its length (O_TMPFILE); None where that fails,
        as on NFS, or without /proc.
        """
        try:
            file = self._open(path.rpartition("/")[0], os.O_RDWR | os.O_TMPFILE, self.file_mode)
        except (OSError, StoreError):
            return None
        try:
            file.set_length(length)
            file.give_name(self._at(path))
        except OSError:
            file.close()
            return None
        self.give(path)
        return file

    def give(self, path: str) -> None:
        """Give a file or folder that is made to the owner of new ones."""
        if self.owner is not None:
            os.chown(self._at(path), *self.owner, follow_symlinks=False)

    def _open(self, path: str, flags: int, mode: int = 0) -> DiskFile:
        at = self._at(path)
        try:
            descriptor = os.open(at, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StoreError(f"{at}: is a link: put what it leads to in its place") from None
            if error.errno in (errno.EISDIR, errno.ENXIO):
                raise StoreError(f"{at}: is not a regular file") from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StoreError(f"{at}: is not a regular file")
        return DiskFile(at, descriptor)

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._at(path))

    def is_folder(self, path: str) -> bool:
        at = self._at(path)
        about = os.lstat(at)
        if stat.S_ISDIR(about.st_mode):
            if path and about.st_dev != os.stat(self._at(path.rpartition("/")[0])).st_dev:
                raise StoreError(f"{at}: another file system is mounted there")
            return True
        if not stat.S_ISREG(about.st_mode):
            kind = "a link" if stat.S_ISLNK(about.st_mode) else "neither a file nor a folder"
            raise StoreError(f"{at}: is {kind}")
        return False

    def is_ours(self, path: str) -> bool:
        about = os.lstat(self._at(path))
        kind = stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)
        return kind and is_ours(about)

    def inode(self, path: str) -> int:
        return os.lstat(self._at(path)).st_ino

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._at(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def make_folder(self, path: str) -> None:
        parts = path.split("/") if path else []
        if not os.path.isdir(self.root):
            above, name = os.path.split(os.path.abspath(self.root))
            DiskFiles(above, self.file_mode, self.folder_mode, self.owner).make_folder(name)
        for depth in range(1, len(parts) + 1):
            here = self._at("/".join(parts[:depth]))
            if not os.path.isdir(here):
                os.mkdir(here, self.folder_mode)
                self.give("/".join(parts[:depth]))
                self.sync_folder("/".join(parts[: depth - 1]))

    def add_folder(self, path: str, like: str | None = None, own: bool = False) -> None:
        at = self._at(path)
        os.mkdir(at, 0o700 if own else self.folder_mode)
        if like is None:
            if not own:
                self.give(path)
            return
        about = os.lstat(self._at(like))
        if self.owner is not None:
            os.chown(at, about.st_uid, about.st_gid, follow_symlinks=False)
        os.chmod(at, stat.S_IMODE(about.st_mode))

    def rename(self, path: str, to: str) -> None:
        os.rename(self._at(path), self._at(to))

    def exchange(self, path: str, to: str) -> None:
        """Linux's renameat2 with RENAME_EXCHANGE."""
        libc = ctypes.CDLL(None, use_errno=True)
        names = os.fsencode(self._at(path)), os.fsencode(self._at(to))
        if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), self._at(path), None, self._at(to))

    def link(self, path: str, to: str) -> None:
        os.link(self._at(path), self._at(to), follow_symlinks=False)

    def remove(self, path: str) -> None:
        at = self._at(path)
        if os.path.isdir(at) and not os.path.islink(at):
            os.rmdir(at)
        else:
            os.unlink(at)

    def sync_folder(self, path: str) -> None:
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def used_share(self) -> float:
        """UtilAll.getDiskPartitionSpaceUsedPercent: whole percents, rounded up."""
        try:
            disk = os.statvfs(self._at(""))
        except OSError:
            return 0.0
        used = disk.f_blocks - disk.f_bfree
        whole = used + disk.f_bavail  # without the blocks kept for root
        return -(-used * 100 // whole) / 100 if whole else 0.0

    def sync_all(self, path: str) -> None:
        """Linux's syncfs, which reports write errors since Linux 5.8."""
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if libc.syncfs(descriptor):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), self._at(path))
        finally:
            os.close(descriptor)

    def open_below(self, path: str) -> DiskFile:
        """Open a file for reading; neither it nor a folder below the root may be a link."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        *folders, name = path.split("/")
        here = os.open(self._at(""), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                below = os.open(folder, flags | os.O_DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            file = os.open(name, flags, dir_fd=here)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise StoreError(f"{self._at(path)}: a link is on the way to it") from None
            raise
        finally:
            os.close(here)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise StoreError(f"{self._at(path)}: is not a regular file")
        return DiskFile(self._at(path), file)

    def lock(self, path: str) -> Callable[[], None]:
        """FileChannel.tryLock(0, 1, false): a POSIX lock on the first byte.

        The file is kept. A new one gets the word `lock` (DefaultMessageStore.start). An older
        file's content is kept, as it may be somebody's own file, or have a second name elsewhere.
        """
        at = self._at(path)
        # This must be asked before the file is opened: a process loses its POSIX locks on a file
        # as soon as it closes any descriptor of that file.
        if os.path.exists(at) and identity(os.stat(at)) in held_here:
            raise StoreInUse(f"{at}: this process has the store open already")
        new = not os.path.lexists(at)
        if not new and not stat.S_ISREG(os.lstat(at).st_mode):
            raise StoreError(f"{at}: is not a regular file")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(at, flags, self.file_mode)
        if new:
            self.give(path)
        about = os.fstat(descriptor)
        key = identity(about)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise StoreInUse(f"{at}: another process has the store open") from None
            raise
        held_here.add(key)

        def release() -> None:
            os.close(descriptor)
            held_here.discard(key)

        try:
            if about.st_size == 0 and about.st_nlink == 1:
                os.pwrite(descriptor, b"lock", 0)
                os.fsync(descriptor)
        except OSError as error:
            release()
            error.filename = at  # else nobody knows which disk is full
            raise
        return release


class FixedFiles(DiskFiles):
    """The files below a folder that others may have filled: read without following any link."""

    def open_read(self, path: str) -> DiskFile:
        return self.open_below(path)


class SpreadFiles(DiskFiles):
    """A store's files whose segments lie in folders of their own (storePathCommitLog=A,B). They
    have the names that they have in one folder: `commitlog/NAME`.
    """

    segments: Mapping[str, str]  # name -> path

    def _at(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        is_one = folder == COMMIT_LOG and name in self.segments
        return self.segments[name] if is_one else super()._at(path)

    def names(self, folder: str) -> list[str]:
        if folder != COMMIT_LOG:
            return super().names(folder)
        return sorted(name for name, path in self.segments.items() if os.path.lexists(path))

    def sync_folder(self, path: str) -> None:
        folders = {os.path.dirname(each) for each in self.segments.values()}
        for folder in sorted(folders) if path == COMMIT_LOG else ():
            DiskFiles(folder).sync_folder("")
        if path != COMMIT_LOG:
            super().sync_folder(path)

    def rename(self, path: str, to: str) -> None:
        """From one disk to another the file is copied, durably, before its old name goes."""
        try:
            super().rename(path, to)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            part = f"{self._at(to)}.part"
            shutil.copy2(self._at(path), part, follow_symlinks=False)
            self.sync_all(to.rpartition("/")[0])
            os.rename(part, self._at(to))
            os.unlink(self._at(path))


# ---
# Gives a whole folder its final name in one atomic step; if that fails nothing has changed.


class NotDurable(OSError):
    """The folder got its name, but the fsync after that failed, so a power cut may undo it.

    Neither the old set nor the new one may be removed then. The fsync is not tried again: a second
    one may succeed without having written what the first one lost.
    """


def put_in_place(
    files: Files, folder: str, to: str, replace: bool,
    approve: Callable[[str], object] = lambda path: None,
) -> None:  # fmt: skip
    """Make all of `folder` durable, then give it the name `to`, on the same file system.

    Without `replace`, `to` must be missing or empty. With it, what was at `to` has the name
    `folder` afterwards. approve: is called with the path of what would be replaced, and raises if
    that must stay. It is called right before the step and again right after it. The second call
    sees a name that no other process knows, so that what was approved is what is removed later.
    Raises OSError, or what approve raises, if nothing has changed; NotDurable if it has.
    """
    files.sync_all(folder)
    if replace and files.exists(to):
        approve(to)
        known = files.inode(to)
        files.exchange(folder, to)
        try:
            if files.inode(folder) != known:
                raise StoreChanged(f"{to}: another folder came there meanwhile: it was put back")
            approve(folder)
        except BaseException:
            files.exchange(to, folder)
            raise
    else:
        files.rename(folder, to)
    parent = to.rpartition("/")[0]
    try:
        files.sync_folder(parent)
    except OSError as error:
        raise NotDurable(
            error.errno, f"the new set is there, but may not outlast a power cut: {error}", to
        ) from None
