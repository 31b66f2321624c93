"""Messages that a query found as an Arrow table; the schema is that of the Spark source."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

MESSAGE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("queueId", pa.int32(), nullable=False),
        pa.field("queueOffset", pa.int64(), nullable=False),
        pa.field("physicalOffset", pa.int64(), nullable=False),
        pa.field("storeTimestamp", pa.int64(), nullable=False),  # milliseconds, as bornTimestamp
        pa.field("bornTimestamp", pa.int64(), nullable=False),
        pa.field("storeHost", pa.string(), nullable=False),
        pa.field("bornHost", pa.string(), nullable=False),
        pa.field("tags", pa.string()),
        pa.field("keys", pa.list_(pa.string()), nullable=False),
        pa.field("uniqueKey", pa.string()),
        pa.field("properties", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("flag", pa.int32(), nullable=False),
        pa.field("sysFlag", pa.int32(), nullable=False),
        pa.field("reconsumeTimes", pa.int32(), nullable=False),
        pa.field("preparedTransactionOffset", pa.int64(), nullable=False),
        pa.field("bodyCRC", pa.int32(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
    ]
)
BODY = pa.field("body", pa.binary(), nullable=False)


def messages_table(rows: Iterable[Mapping[str, Any]], body: bool) -> pa.Table:
    """Rows as `StoredMessage.row` gives them, with `body` where bodies are wanted."""
    schema = MESSAGE_SCHEMA.append(BODY) if body else MESSAGE_SCHEMA
    listed = [{**row, "properties": list(row["properties"].items())} for row in rows]
    return pa.Table.from_pylist(listed, schema)
