"""The least that a rebuild of this kind has to do with bytes, done by a bare program.

`python -m benchmarks.bare_rebuild STORE --messages N --written BYTES [--processes N]`: two
processes share out the segments. Of each they read all in windows of 1 MiB and take one CRC of it,
write as many staged bytes as a rebuild does for its messages and read them again; then they write
as many bytes as the derived files have (past the page cache, as a rebuild does), hash them by
SHA-256, and sync. No record is looked at, so
all that a rebuild takes beyond this is the work on records, Spark and Python. Prints a JSON line:
seconds without the interpreter's start.
"""

import argparse
import hashlib
import json
import os
import shutil
import time
import zlib
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.stores import cache_folder
from reput.store_format.files.system import uncached_flags

_WINDOW = 1 << 20
STAGED_A_MESSAGE = 44  # as docs/performance.md has it


def _open_new(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def scan(folder: str, share: float, path: str) -> int:
    """Read a segment; write and read back that share of its bytes. Returns its bytes."""
    buffer = bytearray(_WINDOW)
    view, at, staged = memoryview(buffer), 0, 0
    log, out = os.open(path, os.O_RDONLY), _open_new(f"{folder}/{Path(path).name}")
    while count := os.preadv(log, [buffer], at):
        zlib.crc32(view[:count])
        at += count
        staged += os.pwrite(out, view[: min(count, int(share * at) - staged)], staged)
    for place in range(0, staged, _WINDOW):
        os.preadv(out, [buffer], place)
    os.close(log)
    os.close(out)
    return at


def write(folder: str, length: int, number: int) -> None:
    """Write a file of that length, hashed."""
    piece, digest = os.urandom(_WINDOW), hashlib.sha256()
    out, flags = _open_new(f"{folder}/out{number}"), uncached_flags(os.uname().release)
    for place in range(0, length, _WINDOW):
        digest.update(piece)
        os.pwritev(out, [piece], place, flags)
    os.fsync(out)
    os.close(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--written", type=int, required=True, help="bytes of the derived files")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    paths = [str(path) for path in sorted((arguments.store / "commitlog").iterdir())]
    size = sum(os.stat(path).st_size for path in paths)
    folder = str(cache_folder() / "bare-rebuild")
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    processes = arguments.processes
    with get_context("fork").Pool(processes) as pool:
        began = time.monotonic()
        share = arguments.messages * STAGED_A_MESSAGE / size
        pool.map(partial(scan, folder, share), paths, chunksize=1)
        scanned = time.monotonic()
        each = arguments.written // processes
        pool.map(partial(write, folder, each), range(processes), chunksize=1)
        ended = time.monotonic()
    shutil.rmtree(folder)
    print(json.dumps({
        "bytes": size,
        "scan": round(scanned - began, 2),
        "write": round(ended - scanned, 2),
        "seconds": round(ended - began, 2),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
