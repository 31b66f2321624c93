"""What Linux's page cache is asked, and which releases of Linux can go past it."""

import mmap
import os
from pathlib import Path

import pytest

from reput.store_format.files.system import available_memory, cached_bytes, uncached_flags

RWF_DONTCACHE = 0x80  # <linux/fs.h>


@pytest.mark.parametrize(
    ("release", "flags"),
    [
        ("6.16.0", RWF_DONTCACHE),
        ("6.16-rc1", RWF_DONTCACHE),
        ("6.100.1-custom", RWF_DONTCACHE),
        ("7.0.0", RWF_DONTCACHE),
        ("6.15.99", 0),
        ("6.14.0", 0),  # had it, and could lose bytes
        ("6.9.16", 0),
        ("5.15.0-6.16", 0),
        ("6", 0),
        ("unknown", 0),
        ("", 0),
    ],
)
def test_reads_leave_nothing_behind_from_linux_6_16_on(release: str, flags: int) -> None:
    assert uncached_flags(release) == flags


def test_cached_bytes_are_whole_pages_of_the_part_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(5 * mmap.PAGESIZE + 1))
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.pread(descriptor, 6 * mmap.PAGESIZE, 0)
        all_of_it, two, none = (
            cached_bytes(descriptor, at, length)
            for at, length in ((0, 6 * mmap.PAGESIZE), (mmap.PAGESIZE, 2 * mmap.PAGESIZE),
                               (6 * mmap.PAGESIZE, mmap.PAGESIZE))
        )  # fmt: skip
    finally:
        os.close(descriptor)
    if all_of_it is None or two is None:
        pytest.skip("this Linux does not say what is cached")
    # other processes may push pages out meanwhile
    assert all_of_it % mmap.PAGESIZE == two % mmap.PAGESIZE == 0
    assert 0 <= all_of_it <= 6 * mmap.PAGESIZE
    assert 0 <= two <= 2 * mmap.PAGESIZE
    assert none == 0


def test_what_has_no_page_cache_is_unknown(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        assert cached_bytes(reader, 0, 4096) in (None, 0)
    finally:
        os.close(reader)
        os.close(writer)
    assert cached_bytes(-1, 0, 4096) is None


def test_available_memory_is_part_of_what_there_is() -> None:
    available = available_memory()
    if available is None:
        pytest.skip("no /proc/meminfo")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1 << 20 < available <= total
    assert available % 1024 == 0
