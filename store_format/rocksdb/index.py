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
KEY, TAGS, UNIQUE = "K", "T", "U"  # MessageConst.INDEX_KEY_TYPE and its neighbours
_TAGS_KEY = "T#"  # prefix of tags in a query by key


class RocksDBIndex:
    """The rows of a database. Each method may raise RocksDBError."""

    def __init__(self, database: Database) -> None:
        self.database = database
        first = next(database.rows(FAMILY, b"", BEHIND_HOURS), None)
        last = database.last_row(FAMILY, b"", BEHIND_HOURS)
        self._hours = range(0)
        if first is not None and last is not None:
            self._hours = range(_number(first[0][:8]), _number(last[0][:8]) + 1, HOUR)
        # All messages before this one have their rows; a few later ones may have them.
        self.last_offset = self._number_of(LAST_OFFSET)
        self.last_timestamp = self._number_of(LAST_TIME)

    @property
    def has_rows(self) -> bool:
        return bool(self._hours)

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
        for hour in self._hours:
            if (begin is not None and hour + HOUR <= begin) or (end is not None and hour > end):
                continue
            for prefix in prefixes:
                start = hour.to_bytes(8, "big") + prefix
                for row, value in self.database.rows(FAMILY, start, start[:-1] + b"A"):
                    time = _number(value)
                    if (begin is None or time >= begin) and (end is None or time <= end):
                        yield _number(row[-8:])

    def has(self, topic: str, unique_key: str, time: int, place: int) -> bool:
        """Whether the row of a message's UNIQ_KEY exists."""
        key = (time // HOUR * HOUR).to_bytes(8, "big")
        key += _encode(f"@{topic}@{UNIQUE}@{unique_key}@") + place.to_bytes(8, "big")
        return self.database.get(FAMILY, key) is not None

    def _number_of(self, name: bytes) -> int:
        value = self.database.get(FAMILY, name)
        return -1 if value is None else _number(value)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _number(raw: bytes) -> int:
    return int.from_bytes(raw[:8], "big", signed=True)
