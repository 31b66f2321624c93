"""Stores in memory: a log of given messages, and what the reference derives from it."""

from collections.abc import Sequence

from reput.store_format.files.folder import Folder
from reput.store_format.notes import Notes
from reput.store_format.query.reader import OpenedStore, StoredMessage
from tests.built import Built
from tests.logs import Message

SEGMENT = 2048
SETTINGS: dict[str, int | str] = {
    "mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": 200, "maxHashSlotNum": 3,
    "maxIndexNum": 8,
}  # fmt: skip


class Derived:
    """A store whose files a test may change before it opens it."""

    def __init__(self, messages: Sequence[Message], version: str = "5.3.3") -> None:
        built = Built(dict(SETTINGS), version).add(messages).derive()
        self.version, self.notes, self._given = version, Notes(), built.given()
        self.places, self.storage = built.places(), built.storage("s")

    def open(self) -> OpenedStore:
        return OpenedStore(Folder(self.storage, "s"), self.version, self._given, self.notes)

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
