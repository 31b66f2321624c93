"""The least that a rebuild of a tiny store in Python has to do: `python -m benchmarks.bare_tiny`.

One process imports numpy, PyArrow and numba, as whatever reads a log by kernels must, and forks
two: they make the files that RocketMQ makes of 64 queues and one index file, sparse, and hash their
zeros by SHA-256, as the manifest has to. No log is read. To be timed as a whole process.
"""

import hashlib
import os
import shutil
import tempfile

import numba  # noqa: F401 - its import is what is timed
import numpy  # noqa: F401 - likewise
import pyarrow  # noqa: F401 - likewise

from benchmarks.stores import cache_folder

_QUEUES, _QUEUE_FILE = 64, 6_000_000
_INDEX_FILE = 40 + 4 * 5_000_000 + 20 * 20_000_000
_ZEROS = bytes(1 << 20)


def make(path: str, length: int) -> None:
    """A sparse file of `length` bytes at `path`, hashed."""
    digest, rest = hashlib.sha256(), length
    while rest:
        digest.update(_ZEROS[: min(rest, len(_ZEROS))])
        rest -= min(rest, len(_ZEROS))
    with open(path, "xb") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def main() -> None:
    root = tempfile.mkdtemp(prefix="bare-tiny-", dir=cache_folder())
    child = os.fork()
    if not child:
        make(f"{root}/index", _INDEX_FILE)
        os._exit(0)
    for number in range(_QUEUES):
        make(f"{root}/queue{number}", _QUEUE_FILE)
    os.waitpid(child, 0)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
