"""IndexFile and IndexService: hash slots and chains, one file after the other."""

import struct

from tests.reference.javatext import divide, hash_code, split, wrap64
from tests.reference.log import Message
from tests.reference.rules import Rules

HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE = 40, 4, 20


class IndexFile:
    """class IndexFile with its IndexHeader."""

    def __init__(self, rules: Rules, end_physical_offset: int, end_timestamp: int) -> None:
        self.rules = rules
        self.slot_count = rules.number("maxHashSlotNum")
        self.capacity = rules.number("maxIndexNum")
        # A new file begins where the one before it ended.
        self.begin_physical_offset = self.end_physical_offset = max(end_physical_offset, 0)
        self.begin_timestamp = self.end_timestamp = max(end_timestamp, 0)
        self.hash_slot_count = 0
        self.index_count = 1
        self.slots = bytearray(self.slot_count * SLOT_SIZE)
        self.entries = bytearray(ENTRY_SIZE)  # entry 0 is never used

    def is_full(self) -> bool:
        return self.index_count >= self.capacity

    def put(self, key: str, physical_offset: int, store_timestamp: int) -> None:
        """putKey."""
        key_hash = abs(hash_code(key))
        if key_hash == 1 << 31:  # Math.abs(Integer.MIN_VALUE) stays negative in Java
            key_hash = 0
        slot = key_hash % self.slot_count * SLOT_SIZE
        (previous,) = struct.unpack_from(">i", self.slots, slot)
        if previous <= 0 or previous > self.index_count:
            previous = 0
        seconds = divide(wrap64(store_timestamp - self.begin_timestamp), 1000)
        seconds = 0 if self.begin_timestamp <= 0 else max(0, min(seconds, 0x7FFF_FFFF))
        self.entries += struct.pack(">iqii", key_hash, physical_offset, seconds, previous)
        struct.pack_into(">i", self.slots, slot, self.index_count)
        if self.index_count <= 1:
            self.begin_physical_offset = physical_offset
            self.begin_timestamp = store_timestamp
        if previous == 0 or not self.rules.since(4, 7, 1):
            self.hash_slot_count += 1
        self.index_count += 1
        self.end_physical_offset = physical_offset
        self.end_timestamp = store_timestamp

    def content(self) -> bytes:
        """As a clean stop leaves it, without the zero tail.

        Before 5.0.0 a stop does not flush the index: the count of a file without entries, which
        is 1 in memory, was never written.
        """
        written = self.index_count > 1 or self.rules.since(5, 0, 0)
        header = struct.pack(">qqqqii", self.begin_timestamp, self.end_timestamp,
            self.begin_physical_offset, self.end_physical_offset, self.hash_slot_count,
            self.index_count if written else 0)  # fmt: skip
        return b"".join((header, self.slots, self.entries)).rstrip(b"\0")

    def length(self) -> int:
        return HEADER_SIZE + self.slot_count * SLOT_SIZE + self.capacity * ENTRY_SIZE


class IndexService:
    """class IndexService: which keys a message has, and when the next file is opened."""

    def __init__(self, rules: Rules) -> None:
        if rules.number("maxIndexNum") < 2:
            raise ValueError("maxIndexNum below 2: no file ever takes an entry")
        self.rules = rules
        self.files: list[IndexFile] = []

    def _last(self) -> IndexFile:
        """retryGetAndCreateIndexFile."""
        if not self.files:
            self.files.append(IndexFile(self.rules, 0, 0))
        elif (last := self.files[-1]).is_full():
            self.files.append(IndexFile(self.rules, last.end_physical_offset, last.end_timestamp))
        return self.files[-1]

    def build(self, message: Message) -> None:
        """buildIndex: the file is opened first, even for a message that puts nothing."""
        file = self._last()
        if message.physical_offset < file.end_physical_offset or message.transaction == 0xC:
            return
        for key in self._keys(message):
            self._last().put(key, message.physical_offset, message.store_timestamp)

    def _keys(self, message: Message) -> list[str]:
        keys = []
        if (unique := message.property("UNIQ_KEY")) is not None:
            keys.append(unique)
        keys += [key for key in split(message.property("KEYS") or "", " ") if key]
        if self.rules.since(5, 4, 0) and (tags := message.property("TAGS")):
            keys.append(f"T#{tags}")
        return [f"{message.topic}#{key}" for key in keys]
