"""The state in which each measured run finds the machine, RocketMQ's runs and ours alike.

Nothing waits to be written; so much memory is free that this machine has just had (a new page of a
virtual machine costs a tenth of a second a GB if its host gave it before, and three seconds if
not); and the log is in the page cache as far as there is memory, or none of it is (`cold`).
"""

import mmap
import os
from pathlib import Path

from benchmarks.stores import warm

_PAGES_BYTES = 3 << 30  # more than all that a rebuild of 15 GB writes and holds


def same_state(store: Path) -> None:
    """As the module says, with the log in the page cache."""
    os.sync()
    _have_pages()
    warm(store)


def cold(store: Path) -> None:
    """As the module says, with nothing of the log in the page cache."""
    os.sync()
    _have_pages()
    for path in (store / "commitlog").iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _have_pages() -> None:
    """Fill so many pages and give them back."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, _PAGES_BYTES, flags=flags).close()
