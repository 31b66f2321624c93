"""The least that a rebuild has to do, done by a bare program: read the log, and check CRCs.

`python -m benchmarks.bare STORE [--no-crc [--past-cache]] [--processes N]` reads each segment in
windows and compares each body with its CRC (`zlib.crc32`, from record to record; fit for large
bodies, of small ones Python's loop is most of the time). Prints a JSON line: bytes, records,
seconds without the interpreter's start. `--past-cache`: what is not in the page cache does not come
there, so the disk's own speed is seen, and not what new pages cost.
"""

import argparse
import json
import os
import time
import zlib
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from reput.store_format.files.system import uncached_flags

_WINDOW = 1 << 20
_READ_WINDOW = 2 << 20  # a page that is read past the cache in two parts is read twice
# totalSize, bodyCRC and bodyLength of a record of version 1 with IPv4 hosts
_CRC, _BODY_LENGTH, _BODY = 8, 84, 88
_BLANK = 0xCBD43194


def read_only(path: str, how: int = 0) -> tuple[int, int]:
    """(bytes, 0) of a segment. how: preadv2's flags."""
    buffer, done = bytearray(_READ_WINDOW), 0
    descriptor = os.open(path, os.O_RDONLY)
    while count := os.preadv(descriptor, [buffer], done, how):
        done += count
    os.close(descriptor)
    return done, 0


def check(path: str) -> tuple[int, int]:
    """(bytes, records) of a segment up to its last record. Raises ValueError at a wrong CRC."""
    buffer = bytearray(_WINDOW)
    view, at, records = memoryview(buffer), 0, 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while True:
            length, within = os.preadv(descriptor, [buffer], at), 0
            while within + _BODY <= length:
                size = int.from_bytes(view[within : within + 4], "big")
                magic = int.from_bytes(view[within + 4 : within + 8], "big")
                if size == 0 or magic == _BLANK:
                    return at + within, records
                if within + size > length:
                    break
                body_at = within + _BODY
                body = int.from_bytes(view[within + _BODY_LENGTH : body_at], "big")
                crc = int.from_bytes(view[within + _CRC : within + _CRC + 4], "big")
                if zlib.crc32(view[body_at : body_at + body]) & 0x7FFFFFFF != crc:
                    raise ValueError(f"{path}: offset {at + within}: bodyCRC")
                records += 1
                within += size
            if within == 0:
                return at, records
            at += within
    finally:
        os.close(descriptor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--no-crc", action="store_true")
    parser.add_argument("--past-cache", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    paths = [str(path) for path in sorted((arguments.store / "commitlog").iterdir())]
    how = uncached_flags(os.uname().release) if arguments.past_cache else 0
    each = partial(read_only, how=how) if arguments.no_crc else check
    with get_context("fork").Pool(arguments.processes) as pool:
        began = time.monotonic()
        done = pool.map(each, paths, chunksize=1)
        seconds = time.monotonic() - began
    print(json.dumps({
        "bytes": sum(size for size, _ in done),
        "records": sum(records for _, records in done),
        "seconds": round(seconds, 3),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
