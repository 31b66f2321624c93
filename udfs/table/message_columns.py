"""The columns of a message in a table: names, types, and the comments that Spark shows."""

from typing import NamedTuple

import pyarrow as pa

TIME = pa.timestamp("us", "UTC")
TEXTS = pa.list_(pa.field("element", pa.string(), nullable=False))
PAIRS = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))


class MessageColumn(NamedTuple):
    """One column: its field, and the comment that Spark shows."""

    field: pa.Field
    comment: str


def column(name: str, kind: pa.DataType, comment: str, nullable: bool = False) -> MessageColumn:
    return MessageColumn(pa.field(name, kind, nullable=nullable), comment)


COLUMNS = (
    column("topic", pa.string(), "topic of the record, as Java decodes it"),
    column("queueId", pa.int32(), "queue within the topic"),
    column("queueOffset", pa.int64(), "position in the ConsumeQueue"),
    column("physicalOffset", pa.int64(), "byte at which the record starts in the CommitLog"),
    column("storeTimestamp", TIME, "when the broker stored it; null past year 9999", True),
    column("storeTimestampMillis", pa.int64(), "the same, as the record says it"),
    column("bornTimestamp", TIME, "when the client made it; null past year 9999", True),
    column("bornTimestampMillis", pa.int64(), "the same, as the record says it"),
    column("storeHost", pa.string(), "address:port of the broker"),
    column("bornHost", pa.string(), "address:port of the client"),
    column("tags", pa.string(), "property TAGS", True),
    column("keys", TEXTS, "words of property KEYS"),
    column("uniqueKey", pa.string(), "property UNIQ_KEY: the id that the client gave it", True),
    column("properties", PAIRS, "all properties, as a broker reads them"),
    column("flag", pa.int32(), "the application's own flag"),
    column("sysFlag", pa.int32(), "MessageSysFlag: compression, transaction, hosts of IPv6, batch"),
    column("reconsumeTimes", pa.int32(), "how often it was delivered again"),
    column("preparedTransactionOffset", pa.int64(), "of a commit: where its half message stands"),
    column("bodyCRC", pa.int32(), "CRC-32 of the body, without its highest bit"),
    column("size", pa.int32(), "bytes of the whole record"),
    column("body", pa.binary(), "as it stands in the log: it may be compressed"),
)
BY_NAME = {each.field.name: each for each in COLUMNS}
SCHEMA = pa.schema([each.field for each in COLUMNS])
