"""Who holds what: a store's lock as RocketMQ takes it, and folders that belong to a running job.

RocketMQ locks the first byte of the store's file `lock` with Java's FileLock, which is a POSIX
record lock (fcntl). A job's staging folder is held with flock: both end with the process, however
that ends, so that what a dead one left is told from what is in use.
"""

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress

# struct flock of Linux on 64-bit machines: l_type, l_whence, l_start, l_len, l_pid.
_FLOCK = struct.Struct("@hhqqi4x")

# POSIX locks do not keep a process from itself: what this one holds, by device and inode.
held_here: set[tuple[int, int]] = set()


def identity(about: os.stat_result) -> tuple[int, int]:
    """What names a file whatever its path."""
    return about.st_dev, about.st_ino


def is_ours(about: os.stat_result) -> bool:
    """Whether this user made it and nobody else may write to it: what it says can be trusted."""
    return about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def is_our_folder(path: str) -> bool:
    """Whether it is a folder, no link, and ours alone."""
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and is_ours(about)


def lock_holder(path: str) -> int | None:
    """The process that holds a store's lock file, None for nobody; 0 where it is elsewhere.

    Asked with F_GETLK, which takes no lock: the file is only read. Raises OSError.
    """
    try:
        # Looked at before it is opened: POSIX locks go with the first descriptor closed.
        if identity(os.stat(path)) in held_here:
            return os.getpid()
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return None if kind == fcntl.F_UNLCK else max(process, 0)


def holder_text(holder: int) -> str:
    """Who that is, for a message."""
    return f"process {holder}" if holder else "a process of another machine"


def claim_folder(path: str, mode: int = 0o700) -> Callable[[], None] | None:
    """Make a folder and hold it; returns what lets go. None where another took it for a leftover
    in between: then it is (about to be) gone, and another name is wanted. Raises OSError.
    """
    os.mkdir(path, mode)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # Shared, as a network file system may refuse an exclusive one without write access.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(descriptor)
            return None
        # A file system without locks: nobody will take the folder for a leftover (is_abandoned).
    with suppress(FileNotFoundError):
        if os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return lambda: os.close(descriptor)
    os.close(descriptor)
    return None


def is_abandoned(path: str) -> bool:
    """Whether nobody holds a folder of ours any more. False where the file system cannot tell."""
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
