"""The columns of a message as a table has them: names, types, and comments, which Spark shows."""

from typing import NamedTuple

import pyarrow as pa

TIME = pa.timestamp("us", "UTC")
TEXTS = pa.list_(pa.field("element", pa.string(), nullable=False))
PAIRS = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))


class Column(NamedTuple):
    """One column: its field, and what it is, as Spark shows it."""

    field: pa.Field
    comment: str


def _column(name: str, kind: pa.DataType, comment: str, nullable: bool = False) -> Column:
    return Column(pa.field(name, kind, nullable=nullable), comment)


COLUMNS = (
    _column("topic", pa.string(), "topic of the record, as Java decodes it"),
    _column("queueId", pa.int32(), "queue within the topic"),
    _column("queueOffset", pa.int64(), "position in the ConsumeQueue"),
    _column("physicalOffset", pa.int64(), "byte at which the record starts in the CommitLog"),
    _column("storeTimestamp", TIME, "when the broker stored it; null past year 9999", True),
    _column("storeTimestampMillis", pa.int64(), "the same, as the record says it"),
    _column("bornTimestamp", TIME, "when the client made it; null past year 9999", True),
    _column("bornTimestampMillis", pa.int64(), "the same, as the record says it"),
    _column("storeHost", pa.string(), "address:port of the broker"),
    _column("bornHost", pa.string(), "address:port of the client"),
    _column("tags", pa.string(), "property TAGS", True),
    _column("keys", TEXTS, "words of property KEYS"),
    _column("uniqueKey", pa.string(), "property UNIQ_KEY: the id that the client gave it", True),
    _column("properties", PAIRS, "all properties, as a broker reads them"),
    _column("flag", pa.int32(), "the application's own flag"),
    _column(
        "sysFlag", pa.int32(), "MessageSysFlag: compression, transaction, hosts of IPv6, batch"
    ),
    _column("reconsumeTimes", pa.int32(), "how often it was delivered again"),
    _column("preparedTransactionOffset", pa.int64(), "of a commit: where its half message stands"),
    _column("bodyCRC", pa.int32(), "CRC-32 of the body, without its highest bit"),
    _column("size", pa.int32(), "bytes of the whole record"),
    _column("body", pa.binary(), "as it stands in the log: it may be compressed"),
)
BY_NAME = {column.field.name: column for column in COLUMNS}
SCHEMA = pa.schema([column.field for column in COLUMNS])
