"""Index files, put entry by entry (IndexFile.putKey), for tests of what they show."""

import struct
from collections.abc import Iterable

HEADER, SLOT, ENTRY = struct.Struct(">qqqqii"), struct.Struct(">i"), struct.Struct(">iqii")


def java_hash(text: str) -> int:
    """The keyHash of `topic#key`: |String.hashCode|, 0 for the least int."""
    value = 0
    for unit in struct.iter_unpack(">H", text.encode("utf-16-be")):
        value = (31 * value + unit[0]) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)


class IndexFile:
    """One file. every_key: hashSlotCount grows with every put, as up to 4.7.0."""

    def __init__(self, slots: int, entries: int, every_key: bool = False) -> None:
        self.slots, self.most, self.every_key = slots, entries, every_key
        self.begin_timestamp = self.end_timestamp = self.begin = self.end = 0
        self.used = 0
        self._slots = [0] * slots
        self._entries = [(0, 0, 0, 0)]

    @property
    def is_full(self) -> bool:
        return len(self._entries) == self.most

    def put(self, key: str, place: int, timestamp: int = 1_700_000_000_000) -> None:
        hashed = java_hash(key)
        number, slot = len(self._entries), hashed % self.slots
        if number == 1:
            self.begin, self.begin_timestamp = place, timestamp
        seconds = (timestamp - self.begin_timestamp) // 1000
        self._entries.append((hashed, place, seconds, self._slots[slot]))
        self.used += self.every_key or not self._slots[slot]
        self._slots[slot] = number
        self.end, self.end_timestamp = place, timestamp

    def put_all(self, keys: Iterable[str], place: int) -> "IndexFile":
        for key in keys:
            self.put(key, place)
        return self

    def raw(self, **header: int) -> bytes:
        """The file; header: fields that are to be wrong."""
        fields = {
            "begin_timestamp": self.begin_timestamp, "end_timestamp": self.end_timestamp,
            "begin": self.begin, "end": self.end, "used": self.used,
            "next_entry": len(self._entries), **header,
        }  # fmt: skip
        content = HEADER.pack(*fields.values()) + b"".join(map(SLOT.pack, self._slots))
        content += b"".join(ENTRY.pack(*each) for each in self._entries)
        return content.ljust(HEADER.size + 4 * self.slots + 20 * self.most, b"\0")
