"""Stores in memory: a log of given messages, and what the reference derives from it."""

from collections.abc import Sequence

from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore, StoredMessage
from tests.logs import Message, build_log
from tests.logs.damage import record_places
from tests.memory_storage import MemoryStorage
from tests.reference import derive

SEGMENT = 2048
SETTINGS: dict[str, int | str] = {
    "mappedFileSizeCommitLog": SEGMENT,
    "mappedFileSizeConsumeQueue": 200,
    "maxHashSlotNum": 3,
    "maxIndexNum": 8,
}


class Derived:
    """A store whose files a test may change before it opens it."""

    def __init__(self, messages: Sequence[Message], version: str = "5.3.3") -> None:
        log = build_log(messages, SEGMENT)
        self.version, self.notes = version, Notes()
        self.places = record_places(log)
        self.storage = MemoryStorage(
            {f"s/commitlog/{start:020d}": raw for start, raw in log.items()}
        )
        for path, (raw, length) in derive(log, SETTINGS, version).files.items():
            folder, _, name = path.rpartition("/")
            if folder == "index":
                path = f"index/{20260101000000000 + int(name)}"
            self.storage.files[f"s/{path}"] = raw.ljust(length, b"\0")

    def open(self) -> OpenedStore:
        given = {name: str(value) for name, value in SETTINGS.items()}
        return OpenedStore(self.storage, "s", self.version, given, self.notes)

    def paths(self, start: str) -> list[str]:
        """The files below a folder of the store, in order."""
        return sorted(path for path in self.storage.files if path.startswith(f"s/{start}"))

    def remove(self, start: str) -> None:
        for path in self.paths(start):
            del self.storage.files[path]

    def put(self, place: int, raw: bytes) -> None:
        """Write over the log."""
        path = f"s/commitlog/{place - place % SEGMENT:020d}"
        content = bytearray(self.storage.files[path])
        content[place % SEGMENT : place % SEGMENT + len(raw)] = raw
        self.storage.files[path] = bytes(content)

    def numbers(self, found: Sequence[StoredMessage]) -> list[int]:
        """Which of the messages these are, by their number from 0."""
        return [self.places.index(each.physical_offset) for each in found]
