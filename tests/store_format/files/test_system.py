"""Who holds a store's lock, and which job folders are left over."""

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files import system
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import StoreInUse

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(path: Path, byte: int = 0) -> Iterator[int]:
    """Another process locks one byte, as Java's FileChannel.tryLock(0, 1, false) does for 0."""
    command = [sys.executable, "-S", "-c", HOLD, str(path), str(byte)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"")


def test_a_lock_of_another_process_is_seen_and_only_the_first_byte_counts(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_bytes(b"lock")
    assert system.lock_holder(str(file)) is None
    with held_by_another(file) as process:
        assert system.lock_holder(str(file)) == process
        with pytest.raises(StoreInUse, match="another process"):
            DiskFiles(str(tmp_path)).lock("lock")
    assert system.lock_holder(str(file)) is None
    assert file.read_bytes() == b"lock"
    with held_by_another(file, byte=1):
        assert system.lock_holder(str(file)) is None


def test_what_is_no_file_is_refused_and_asking_loses_no_lock(tmp_path: Path) -> None:
    assert system.lock_holder(f"{tmp_path}/none") is None
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{tmp_path}/socket")
        for name in ("link", "socket"):
            with pytest.raises(StoreError, match=f"{name}: is not a regular file"):
                system.lock_holder(f"{tmp_path}/{name}")
    release = DiskFiles(str(tmp_path)).lock("lock")
    (tmp_path / "other").symlink_to("lock")
    for name in ("lock", "other"):
        assert system.lock_holder(f"{tmp_path}/{name}") == os.getpid()
    ask = [sys.executable, "-S", "-c",
        "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), 6, 1)"]  # fmt: skip
    assert subprocess.run([*ask, str(tmp_path / "lock")], capture_output=True).returncode == 1
    release()
    assert system.lock_holder(f"{tmp_path}/lock") is None


def test_a_claimed_folder_is_abandoned_when_it_is_let_go(tmp_path: Path) -> None:
    folder = f"{tmp_path}/staging"
    release = system.claim_folder(folder)
    assert release is not None
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert not system.is_abandoned(folder)
    with pytest.raises(FileExistsError):
        system.claim_folder(folder)
    release()
    assert system.is_abandoned(folder)
    assert system.holder_text(4711) == "process 4711"
    assert system.holder_text(0) == "a process of another machine"


def test_a_folder_that_others_may_write_to_is_never_a_leftover_nor_kept_by_a_look(tmp_path) -> None:
    assert system.is_abandoned(str(tmp_path))
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not system.is_abandoned(str(tmp_path))
    os.close(descriptor)
    for name, mode in (("ours", 0o755), ("group", 0o775), ("others", 0o757)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("ours")
    (tmp_path / "file").write_bytes(b"")
    for look in (system.is_our_folder, system.is_abandoned):
        found = [name for name in sorted(os.listdir(tmp_path)) if look(f"{tmp_path}/{name}")]
        assert found == ["ours"]
        assert not look(f"{tmp_path}/none")


# --- What Linux's page cache is asked, and which releases of Linux can go past it.
RWF_DONTCACHE = 0x80  # <linux/fs.h>


def test_reads_leave_nothing_behind_from_linux_6_16_on(tmp_path: Path) -> None:
    for release, flags in [("6.16.0", RWF_DONTCACHE), ("6.16-rc1", RWF_DONTCACHE),
        ("6.100.1-custom", RWF_DONTCACHE), ("7.0.0", RWF_DONTCACHE), ("6.15.99", 0),
        ("6.14.0", 0),  # had it, and could lose bytes
        ("6.9.16", 0), ("5.15.0-6.16", 0), ("6", 0), ("unknown", 0), ("", 0)]:  # fmt: skip
        assert system.uncached_flags(release) == flags
    reader, writer = os.pipe()
    try:
        assert system.cached_bytes(reader, 0, 4096) in (None, 0)
    finally:
        os.close(reader)
        os.close(writer)
    assert system.cached_bytes(-1, 0, 4096) is None


def test_available_memory_is_part_of_what_there_is() -> None:
    available = system.available_memory()
    if available is None:
        pytest.skip("no /proc/meminfo")
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 1 << 20 < available <= total
    assert available % 1024 == 0
