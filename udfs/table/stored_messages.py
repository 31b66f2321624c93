"""Messages that a query found as an Arrow table, with the columns of the Spark source.

Times are in milliseconds, once; the source has them twice.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from reput.udfs.table.message_columns import SCHEMA, TIME

BODY = SCHEMA.field("body")
MESSAGE_SCHEMA = pa.schema(
    [
        pa.field(each.name, pa.int64(), nullable=False) if each.type == TIME else each
        for each in SCHEMA
        if each != BODY and not each.name.endswith("Millis")
    ]
)


def messages_table(rows: Iterable[Mapping[str, Any]], body: bool) -> pa.Table:
    """Rows as `StoredMessage.row` gives them, with `body` where bodies are wanted."""
    schema = MESSAGE_SCHEMA.append(BODY) if body else MESSAGE_SCHEMA
    listed = [{**row, "properties": list(row["properties"].items())} for row in rows]
    return pa.Table.from_pylist(listed, schema)
