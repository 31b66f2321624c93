"""What only the system knows of files: who holds a lock, and what the page cache holds."""

import ctypes
import errno
import fcntl
import os
import re
import stat
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from reput.store_format.faults import StoreError

# ---
# Locks: a store's lock as RocketMQ takes it, and the lock of a job on its staging folder.
#
# RocketMQ locks the first byte of the store's file `lock` with Java's FileLock, which is a POSIX
# record lock (fcntl). A job locks its staging folder with flock. The kernel releases both when the
# process ends in whatever way, so a folder without a lock is a leftover of a dead process.

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


# ---
# Linux's page cache: what it holds of a file, and how to read and write past it.

_RWF_DONTCACHE = 0x80  # <linux/fs.h>; Python has no name for it
_DONTCACHE_SINCE = (6, 16)  # Linux; 6.14 had it first, and could lose bytes written twice
_SYS_CACHESTAT = 451  # the same number on every architecture, since Linux 6.5
_MEMORY = re.compile(r"^MemAvailable: +(\d+) kB$", re.MULTILINE)


@cache
def uncached_flags(release: str) -> int:
    """The flags of preadv2 and pwritev2 with which this release of Linux leaves nothing new in its
    page cache. 0: it has none, or they cannot be trusted.
    """
    version = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    return _RWF_DONTCACHE if version >= _DONTCACHE_SINCE else 0


class _Range(ctypes.Structure):
    _fields_ = (("off", ctypes.c_uint64), ("len", ctypes.c_uint64))


class _Found(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted")
    )


def cached_bytes(descriptor: int, at: int, length: int) -> int | None:
    """How many bytes of a part of an open file are in the page cache, in whole pages.

    None if unknown: without Linux, before Linux 6.5, or if the file is another user's.
    """
    if sys.platform != "linux":  # elsewhere the number is another call's
        return None
    asked, found = _Range(at, length), _Found()
    call = ctypes.CDLL(None).syscall
    if call(_SYS_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(found), 0) != 0:
        return None
    return int(found.cache) * os.sysconf("SC_PAGESIZE")


def available_memory() -> int | None:
    """Bytes available without swapping, with those of the page cache. None: unknown."""
    try:
        with open("/proc/meminfo", encoding="ascii") as meminfo:
            found = _MEMORY.search(meminfo.read())
    except OSError:
        return None
    return int(found[1]) << 10 if found else None
