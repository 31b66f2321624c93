"""`StoredMessage`: one message of a log, as the answer to a query."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reput.store_format.log.record import Record
from reput.store_format.message.message import host_text, parse_properties

if TYPE_CHECKING:
    from reput.store_format.filter.filters import Filter

UNIQUE_KEY, KEYS, TAGS = "UNIQ_KEY", "KEYS", "TAGS"
_KEY_SEPARATOR = " "  # MessageConst.KEY_SEPARATOR
TAGS_KEY = "T#"  # IndexService's prefix of tags, from 5.4.0 on


def key_words(properties: Mapping[str, str]) -> list[str]:
    """The words of KEYS, in order (IndexService.buildIndex)."""
    return [key for key in properties.get(KEYS, "").split(_KEY_SEPARATOR) if key]


def keys_of(properties: Mapping[str, str]) -> list[str]:
    """All keys under which any release indexes a message with these properties."""
    unique, tags = properties.get(UNIQUE_KEY), properties.get(TAGS)
    of_client = [] if unique is None else [unique]
    return [*of_client, *key_words(properties), *([f"{TAGS_KEY}{tags}"] if tags else [])]


class StoredMessage:
    """A record with its properties. Times in milliseconds, texts as Java decodes them.

    The body is only read when it is asked for, which must be while the store is open.
    """

    __slots__ = ("_properties", "_read_body", "_record", "_split")

    def __init__(
        self,
        record: Record | Callable[[], Record],
        split: bool,
        read_body: Callable[[Record], bytes],
    ) -> None:
        """record: the record, or a function that returns it; split: Profile.split_properties."""
        self._record = record
        self._split, self._read_body = split, read_body
        self._properties: dict[str, str] | None = None

    def __repr__(self) -> str:
        record = self.record
        return f"StoredMessage({record.topic!r}, {record.queue_id}, {record.queue_offset})"

    @property
    def record(self) -> Record:
        if not isinstance(self._record, Record):
            self._record = self._record()
        return self._record

    @property
    def topic(self) -> str:
        return self.record.topic

    @property
    def physical_offset(self) -> int:
        return self.record.physical_offset

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def store_timestamp(self) -> int:
        return self.record.store_timestamp

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = parse_properties(self.record.properties, self._split)
        return self._properties

    @property
    def tags(self) -> str | None:
        return self.properties.get(TAGS)

    @property
    def keys(self) -> list[str]:
        return key_words(self.properties)

    @property
    def unique_key(self) -> str | None:
        return self.properties.get(UNIQUE_KEY)

    def has_key(self, key: str) -> bool:
        """Whether any release indexes this message under that key."""
        return key in keys_of(self.properties)

    def wanted_by(self, chosen: "Filter") -> bool:
        return chosen.matches(self.record, self.properties, self.body)

    def body(self) -> bytes:
        """The body as it is in the log: it may be compressed."""
        return self._read_body(self.record)

    def row(self) -> dict[str, Any]:
        """All but the body, by the names of the Spark source's columns."""
        record = self.record
        return {
            "topic": record.topic,
            "queueId": record.queue_id,
            "queueOffset": record.queue_offset,
            "physicalOffset": record.physical_offset,
            "storeTimestamp": record.store_timestamp,
            "bornTimestamp": record.born_timestamp,
            "storeHost": host_text(record.store_host),
            "bornHost": host_text(record.born_host),
            "tags": self.tags,
            "keys": self.keys,
            "uniqueKey": self.unique_key,
            "properties": self.properties,
            "flag": record.flag,
            "sysFlag": record.sys_flag,
            "reconsumeTimes": record.reconsume_times,
            "preparedTransactionOffset": record.prepared_offset,
            "bodyCRC": record.body_crc,
            "size": record.size,
        }
