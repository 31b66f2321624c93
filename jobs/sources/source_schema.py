"""The schema of a Spark source: all its columns, the chosen columns, or the user's schema."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from reput.jobs.sources.source_options import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from reput.udfs.table.columns import MessageColumn


def spark_schema(
    columns: Mapping[str, "MessageColumn"], chosen: Sequence[str] | None
) -> "StructType":
    """The Spark schema of the columns, with comments; chosen: only these columns, in order."""
    from pyspark.sql.types import StructField, StructType

    fields = []
    for name in columns if chosen is None else chosen:
        field, comment = columns[name]
        about = {"comment": comment}
        fields.append(StructField(name, _type(field.type), field.nullable, about))
    return StructType(fields)


def _type(kind: pa.DataType) -> "DataType":
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import ArrayType, MapType

    if pa.types.is_map(kind):
        return MapType(_type(kind.key_type), _type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_list(kind):
        return ArrayType(_type(kind.value_type), kind.value_field.nullable)
    return from_arrow_type(kind)


def arrow_schema(schema: "StructType", columns: Mapping[str, "MessageColumn"]) -> pa.Schema:
    """The Arrow schema of batches for a Spark schema, perhaps the user's. Raises OptionError."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        if field.name not in columns:
            raise OptionError(f"schema: no column {field.name!r}; there are {', '.join(columns)}")
        known = columns[field.name].field
        wanted = _type(known.type).simpleString()
        if field.dataType.simpleString() != wanted:
            raise OptionError(
                f"schema: column {field.name} is {wanted}, not {field.dataType.simpleString()}"
            )
        if known.nullable and not field.nullable:
            raise OptionError(f"schema: column {field.name} may be null")
    return to_arrow_schema(schema, timezone="UTC")
