"""A store in memory, opened for questions."""

from __future__ import annotations

from reput.store_format.files.folder import Folder
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import SmallLog

LEVELS = {"messageDelayLevel": "1s 5s 1m"}


def opened(log: SmallLog, files: dict[str, bytes] | None = None) -> OpenedStore:
    """A log, and the other files of its store."""
    storage = MemoryStorage(log.files() | (files or {}))
    return OpenedStore(Folder(storage, "store"), NEWEST, LEVELS, Notes())
