"""An index of keys that a broker keeps in RocksDB (indexRocksDBEnable, IndexRocksDBStore).

Each message with a UNIQ_KEY has a row for each key, one for its tags and one for its UNIQ_KEY, with
times as in the log (IndexRocksDBRecord):
    long hour | @topic@K@key@uniqKey@ or @topic@T@tags@uniqKey@ or @topic@U@uniqKey@ | long place
    -> long storeTimestamp
"""

from collections.abc import Iterator

from reput.store_format.storage.rocksdb import Database

FAMILY = "default"
HOUR = 3_600_000  # milliseconds
LAST_OFFSET, LAST_TIME = b"lastOffsetPy", b"lastStoreTimeStamp"
BEHIND_HOURS = b"\x01"  # rows' keys begin with 00 for ages; the two others with letters
_HOURS_END = 1 << 56  # the long that begins with BEHIND_HOURS
KEY, TAGS, UNIQUE = "K", "T", "U"  # MessageConst.INDEX_KEY_TYPE and its neighbours
_TAGS_KEY = "T#"  # prefix of tags in a query by key


class RocksDBIndex:
    """The rows of a database. Each method may raise RocksDBError."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.has_rows = next(self._hours(), None) is not None
        # All messages before this one have their rows; a few later ones may have them.
        self.last_offset = self._number_of(LAST_OFFSET)
        self.last_timestamp = self._number_of(LAST_TIME)

    def places(
        self, topic: str, key: str, begin: int | None = None, end: int | None = None
    ) -> Iterator[int]:
        """Offsets of messages with this key, UNIQ_KEY or (T#...) tags, stored in [begin, end]. Some
        come twice; messages whose key goes on after this one with an `@` come too.
        """
        asked = [(KEY, key), (UNIQUE, key)]
        if key.startswith(_TAGS_KEY):
            asked.append((TAGS, key.removeprefix(_TAGS_KEY)))
        prefixes = [_encode(f"@{topic}@{kind}@{word}@") for kind, word in asked]
        for hour in self._hours(0 if begin is None else begin - HOUR + 1):
            if end is not None and hour > end:
                return
            for prefix in prefixes:
                start = _long(hour) + prefix
                for row, value in self.database.rows(FAMILY, start, start[:-1] + b"A"):
                    time = _number(value)
                    if (begin is None or time >= begin) and (end is None or time <= end):
                        yield _number(row[-8:])

    def has(self, topic: str, unique_key: str, time: int, place: int) -> bool:
        """Whether the row of a message's UNIQ_KEY exists."""
        key = _long(time // HOUR * HOUR)
        key += _encode(f"@{topic}@{UNIQUE}@{unique_key}@") + _long(place)
        return self.database.get(FAMILY, key) is not None

    def _hours(self, at: int = 0) -> Iterator[int]:
        """The hours that rows have, from `at` on: a row's hour may be any, ages ahead too."""
        at = max(at, 0)
        while at < _HOURS_END:
            key, _ = next(self.database.rows(FAMILY, _long(at), BEHIND_HOURS), (None, None))
            if key is None:
                return
            hour = _number(key.ljust(8, b"\0"))
            yield hour
            at = hour + 1

    def _number_of(self, name: bytes) -> int:
        value = self.database.get(FAMILY, name)
        return -1 if value is None else _number(value)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _long(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _number(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "big", signed=True)
