"""Index files as the slow reference puts them, for tests of what they show."""

from collections.abc import Iterable
from copy import copy

from tests.reference import index
from tests.reference.rules import Rules

T0 = 1_700_000_000_000


def rules(slots: int, entries: int, every_key: bool) -> Rules:
    version = (4, 7, 0) if every_key else (5, 5, 0)
    return Rules(version, {"maxHashSlotNum": slots, "maxIndexNum": entries}, {})


class IndexFile(index.IndexFile):
    """One file. every_key: hashSlotCount grows with every put, as up to 4.7.0."""

    def __init__(self, slots: int, entries: int, every_key: bool = False) -> None:
        super().__init__(rules(slots, entries, every_key), 0, 0)

    def count_slots(self) -> None:
        """From here on hashSlotCount grows with each slot, as from 4.7.1 on."""
        self.rules = rules(self.slot_count, self.capacity, False)

    def put(self, key: str, physical_offset: int, store_timestamp: int = T0) -> None:
        super().put(key, physical_offset, store_timestamp)

    def put_all(self, keys: Iterable[str], place: int) -> "IndexFile":
        for key in keys:
            self.put(key, place)
        return self

    def raw(self, **header: int) -> bytes:
        """The whole file; header: fields that are to be wrong."""
        made = copy(self)
        assert header.keys() <= vars(made).keys()
        vars(made).update(header)
        return made.content().ljust(self.length(), b"\0")
