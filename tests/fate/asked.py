"""A store in memory that is asked, and who is told what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from reput.store_format.log.reader import LogReader
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests.fate.logs import SmallLog
from tests.memory_storage import MemoryStorage


class MemoryStore:
    """A log, and the other files of its store."""

    path = "store"

    def __init__(self, log: SmallLog, files: dict[str, bytes] | None = None) -> None:
        self.storage: Any = MemoryStorage(files or {})
        self.profile = profile("5.3.3")
        self.settings = settings_from({"messageDelayLevel": "1s 5s 1m"})
        self.log: LogReader = log.reader()


class Heard:
    """Notes, and how much of the log was to be read, and was."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.scanned = self.to_scan = 0
        self.watched = False

    def note(self, text: str) -> None:
        self.notes.append(text)

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.watched = True
        yield
