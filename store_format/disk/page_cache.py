"""Linux's page cache: what it holds of a file, and how to read and write past it."""

import ctypes
import os
import re
import sys
from functools import cache

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
