"""What a source says of options that it cannot take: the option, the value, what is possible."""

import traceback
from collections.abc import Iterator
from pathlib import Path

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

from reput.jobs.sources.log_source import CommitLogSource
from reput.jobs.sources.options import OptionError, arrow_schema, said_first, spark_schema
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.release.settings import SettingError
from reput.udfs.table.columns import BY_NAME, COLUMNS
from tests.damaged import damaged, messages
from tests.jobs.sources.reading import places, write

BAD = (
    ({"onDamage": "explode"}, "option onDamage='explode': expected one of fail, skip, salvage"),
    ({"columns": "topic,bodi"}, "option columns='topic,bodi': expected names .* of topic, queueId"),
    ({"columns": "topic,topic"}, "option columns="),
    ({"startingOffsets": "soon"}, "option startingOffsets='soon': expected earliest, latest, a ph"),
    ({"startingOffsets": "latest"}, "startingOffsets=latest: a batch"),
    ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger='0': expected a number of 1 or"),
    ({"maxOffsetsPerTrigger": "5"}, "is for a stream; a batch takes endingOffsets"),
    ({"failOnDataLoss": "maybe"}, "option failOnDataLoss='maybe': expected true or false"),
    ({"subscribePattern": "("}, "option subscribePattern='.': expected a regular expression"),
    ({"subscribe": " , "}, "option subscribe=' , ': expected topics"),
    ({"subscribe": "A", "subscribePattern": "B"}, "give one of them"),
    ({"startingTimestamp": "today"}, "option startingTimestamp='today': expected milliseconds"),
    ({"onDamge": "fail"}, "option ondamge='fail': no such option; did you mean onDamage?"),
    ({"zzz": "1"}, "no such option; known: path, rocketmq, columns"),
    ({"path": ""}, "option path: give the store's root"),
    ({"schema": "pulsar"}, "option schema='pulsar': expected native or kafka"),
    ({"schema": "kafka", "columns": "body"}, "of key, value, topic, partition, offset, timestamp"),
    ({"subscribe": "A", "assign": "{}"}, "options subscribe and assign: give one of them"),
    ({"assign": "A"}, "option assign='A': expected {\"Topic\": "),
    ({"assign": '{"A": [null, [1]]}'}, "option assign="),
    ({"assign": '{"A": [0]}', "endingOffsets": '{"A": {"1": 9}}'}, "'A', queue 1: assign lacks it"),
    ({"subscribe": "A", "startingOffsets": '{"B": {"0": 9}}'}, "'B' has offs.* subscribe lacks"),
    ({"startingOffsets": '{"A": {"0": -1}}'}, "option startingOffsets: -1 of A, queue 0: expected"),
    ({"endingOffsets": '{"A": {"0": -2}}'}, "option endingOffsets: -2 of A"),
    ({"startingOffsetsByTimestamp": '{"A": {"0": -2}}'}, "option startingOffsetsByTimestamp: -2"),
    ({"startingOffsets": '{"A": {"0": 9223372036854775808}}'}, "option startingOffsets="),
    ({"endingOffsetsByTimestamp": '{"A": [5]}'}, "option endingOffsetsByTimestamp="),
)


@pytest.mark.parametrize(("options", "said"), BAD)
def test_an_option_that_is_none_is_named(options: dict[str, str], said: str) -> None:
    source = CommitLogSource({"path": "/nowhere", **{n.lower(): v for n, v in options.items()}})
    with pytest.raises(OptionError, match=said):
        source.reader(source.schema())


def test_settings_go_by_rocketmqs_names_in_any_case(tmp_path: Path) -> None:
    store = write(damaged(messages(60)).log, tmp_path)
    assert len(places(store, mappedfilesizecommitlog=4096)) == 60
    with pytest.raises(SettingError, match="mappedFileSizeCommitLog"):
        places(store, MappedFileSizeCommitLog=1 << 20)


def test_a_users_schema_narrows(tmp_path: Path) -> None:
    store = write(damaged(messages(3)).log, tmp_path)
    whole = CommitLogSource({"path": str(store)})
    wanted = (StructType().add("storeTimestamp", TimestampType())
              .add("keys", whole.schema()["keys"].dataType))  # fmt: skip
    reader = whole.reader(wanted)
    (part,) = reader.partitions()
    (batch,) = reader.read(part)
    assert batch.schema.names == ["storeTimestamp", "keys"]
    assert batch.schema.field("keys").nullable
    assert batch["keys"].to_pylist() == [["k0"], ["k1"], ["k2"]]
    with pytest.raises(OptionError, match="column topic is string, not int"):
        whole.reader(StructType().add("topic", IntegerType()))


@pytest.mark.parametrize(("error", "first"), [
    (BadQueue("q/0", 20, "size", -1, "bad"), "StoreError: q/0: offset 20: size -1: bad"),
    (StoreChanged("q/0: was cut"), "StoreChanged: q/0: was cut; load the DataFrame again"),
    (FileNotFoundError(2, "No such file", "q/0"), "StoreChanged: q/0: is gone"),
    (OptionError("option x"), "SettingError: option x")])  # fmt: skip
def test_an_errors_sentence_comes_before_its_traceback(error: Exception, first: str) -> None:
    """Spark shows what traceback.format_exc() says in a worker."""

    def fails() -> None:
        raise error

    def fails_later() -> Iterator[int]:
        yield 1
        raise error

    for method in (fails, lambda: list(said_first(fails_later)())):
        with pytest.raises((StoreError, SettingError)) as caught:
            said_first(method)()
        caught.value.__cause__ = None  # as pyspark.util.handle_worker_exception does
        line = "".join(traceback.format_exception(caught.value)).splitlines()[0]
        assert line.partition(".faults.")[2].startswith(first) or line.endswith(first)


# --- The schema of a source: its columns or the chosen ones, or a user's that says no more.
def test_all_columns_have_their_types_and_comments_in_order() -> None:
    schema = spark_schema(BY_NAME, None)
    assert schema.names == [each.field.name for each in COLUMNS]
    assert [each.metadata["comment"] for each in schema.fields] == [c.comment for c in COLUMNS]
    assert {each.name: each.nullable for each in schema.fields} == {
        each.field.name: each.field.nullable for each in COLUMNS
    }
    assert [schema[name].dataType for name in ("topic", "queueId", "size", "body")] == [
        StringType(), IntegerType(), IntegerType(), BinaryType()]  # fmt: skip
    assert schema["storeTimestamp"].dataType == TimestampType()
    assert schema["keys"].dataType == ArrayType(StringType(), containsNull=False)
    assert schema["properties"].dataType == MapType(
        StringType(), StringType(), valueContainsNull=False
    )
    assert spark_schema(BY_NAME, ("size", "topic")).names == ["size", "topic"]
    assert spark_schema(BY_NAME, ()).names == []


@pytest.mark.parametrize(("field", "why"), [
    (StructField("Topic", StringType()), "no column 'Topic'; there are topic, queueId"),
    (StructField("size", LongType()), "column size is int, not bigint"),
    (StructField("body", StringType()), "column body is binary, not string"),
    (StructField("keys", StringType()), "column keys is array<string>, not string"),
    (StructField("tags", StringType(), nullable=False), "column tags may be null")])  # fmt: skip
def test_a_users_schema_that_says_more_or_else_is_refused(field: StructField, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        arrow_schema(StructType([field]), BY_NAME)
