"""Local time in tests: the zone is the process's, as a broker has it by TZ."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

ZONES = ("UTC", "Asia/Shanghai", "America/New_York")


@contextmanager
def time_zone(name: str) -> Iterator[None]:
    """Let this process, and those it starts, have a zone."""
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = name
        time.tzset()
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
