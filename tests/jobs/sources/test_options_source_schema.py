"""The schema of a source: its columns or the chosen ones, or a user's that says no more."""

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from reput.jobs.sources.options import OptionError, arrow_schema, spark_schema
from reput.udfs.table.columns import BY_NAME, COLUMNS, PAIRS, TEXTS


def test_all_columns_have_their_types_and_comments_in_order() -> None:
    schema = spark_schema(BY_NAME, None)
    assert schema.names == [each.field.name for each in COLUMNS]
    assert [each.metadata["comment"] for each in schema.fields] == [c.comment for c in COLUMNS]
    assert {each.name: each.nullable for each in schema.fields} == {
        each.field.name: each.field.nullable for each in COLUMNS
    }
    assert [schema[name].dataType for name in ("topic", "queueId", "size", "body")] == [
        StringType(), IntegerType(), IntegerType(), BinaryType(),
    ]  # fmt: skip
    assert schema["storeTimestamp"].dataType == TimestampType()
    assert schema["keys"].dataType == ArrayType(StringType(), containsNull=False)
    assert schema["properties"].dataType == MapType(
        StringType(), StringType(), valueContainsNull=False
    )


def test_chosen_columns_come_in_the_order_in_which_they_are_chosen() -> None:
    schema = spark_schema(BY_NAME, ("size", "topic"))
    assert schema.names == ["size", "topic"]
    assert spark_schema(BY_NAME, ()).names == []


def test_batches_have_the_arrow_types_of_their_columns() -> None:
    made = arrow_schema(spark_schema(BY_NAME, None), BY_NAME)
    assert made.names == [each.field.name for each in COLUMNS]
    for each in COLUMNS:
        assert made.field(each.field.name).nullable == each.field.nullable
        if each.field.type not in (TEXTS, PAIRS):
            assert made.field(each.field.name).type == each.field.type
    assert made.field("keys").type.value_type == pa.string()
    assert made.field("storeTimestamp").type == pa.timestamp("us", "UTC")


def test_a_users_schema_may_leave_columns_out_and_allow_nulls() -> None:
    schema = StructType([StructField("size", IntegerType()), StructField("topic", StringType())])
    made = arrow_schema(schema, BY_NAME)
    assert made.names == ["size", "topic"]
    assert made.field("size").nullable


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (StructField("Topic", StringType()), "no column 'Topic'; there are topic, queueId"),
        (StructField("size", LongType()), "column size is int, not bigint"),
        (StructField("body", StringType()), "column body is binary, not string"),
        (StructField("keys", StringType()), "column keys is array<string>, not string"),
        (StructField("tags", StringType(), nullable=False), "column tags may be null"),
    ],
)
def test_a_users_schema_that_says_more_or_else_is_refused(field: StructField, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        arrow_schema(StructType([field]), BY_NAME)
