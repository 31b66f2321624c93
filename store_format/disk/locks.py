"""Locks: a store's lock as RocketMQ takes it, and the lock of a job on its staging folder.

RocketMQ locks the first byte of the store's file `lock` with Java's FileLock, which is a POSIX
record lock (fcntl). A job locks its staging folder with flock. The kernel releases both when the
process ends in whatever way, so a folder without a lock is a leftover of a dead process.
"""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress

from reput.store_format.faults import StoreError

# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("@hhqqi4x")

# The lock files that this process holds, by device and inode. It has to keep this list, because a
# POSIX lock does not exclude other parts of the same process.
held_here: set[tuple[int, int]] = set()


def identity(about: os.stat_result) -> tuple[int, int]:
    """Device and inode, which identify a file whatever path it is found by."""
    return about.st_dev, about.st_ino


def is_ours(about: os.stat_result) -> bool:
    """Whether this user owns the file and nobody else may write to it: then it is trusted."""
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def is_our_folder(path: str) -> bool:
    """Whether the path is a folder (no link) of this user that nobody else may write to."""
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and is_ours(about)


def lock_holder(path: str) -> int | None:
    """The id of the process that holds a store's lock file: None if nobody does, 0 if the process
    runs on another machine.

    F_GETLK only asks and takes no lock; the file is only read. Raises OSError, StoreError for a
    link or a socket.
    """
    try:
        # This must be asked before the file is opened: a process loses its POSIX locks on a file
        # as soon as it closes any descriptor of that file.
        if identity(os.stat(path)) in held_here:
            return os.getpid()
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise StoreError(f"{path}: is not a regular file") from None
        raise
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(process, 0)


def holder_text(holder: int) -> str:
    """The lock's holder in words, for a message."""
    return f"process {holder}" if holder else "a process of another machine"


def claim_folder(path: str, mode: int = 0o700) -> Callable[[], None] | None:
    """Make a folder and lock it; returns a function that unlocks it.

    Returns None if another job has taken the folder for a leftover before it was locked, and
    removes it. The caller then needs another name. Raises OSError.
    """
    os.mkdir(path, mode)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # The lock is shared, as a network file system may refuse an exclusive lock on a folder,
        # which cannot be opened for writing.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(descriptor)
            return None
        # The file system has no locks: is_abandoned then says False, so nobody takes the folder
        # for a leftover.
    with suppress(FileNotFoundError):
        if os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return lambda: os.close(descriptor)
    os.close(descriptor)
    return None


def is_abandoned(path: str) -> bool:
    """Whether no process locks a job's folder. False if the file system has no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if not is_ours(os.fstat(descriptor)):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
