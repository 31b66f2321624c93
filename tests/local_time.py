"""Local time in tests: the zone is the process's, as a broker has it by TZ."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


def with_sleep(sleep: Callable[[float], Any]) -> SimpleNamespace:
    """`time` as one module has it, with another sleep; other threads, py4j's say, go on."""
    return SimpleNamespace(**{**vars(time), "sleep": sleep})


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
