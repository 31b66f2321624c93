"""Messages that a query found as an Arrow table, with the columns of the Spark source.

Times are in one column each, in milliseconds; the source has two.
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
    """A table of `StoredMessage.row` rows. body: whether they have bodies."""
    schema = MESSAGE_SCHEMA.append(BODY) if body else MESSAGE_SCHEMA
    listed = [{**row, "properties": list(row["properties"].items())} for row in rows]
    return pa.Table.from_pylist(listed, schema)
