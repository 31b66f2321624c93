"""Keeps threads that append in SYNC_FLUSH on one core: docs/writer.md says what that gains."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_core() -> Iterator[None]:
    """Keep the calling thread, and threads that it starts meanwhile, on one core.

    The started threads stay there as long as they live; the calling thread gets back its own cores
    at the end. Python's interpreter lock lets only one of them run anyway, and is handed over
    faster on one core. Put it around `CommitLogWriter.open` too, for the writer's own threads. It
    does nothing where the system has no sched_setaffinity (only Linux has it).
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
