"""Rows on their way through Spark: in large batches, in order, none lost where a batch ends."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from reput.udfs.staging import PLACED, RUN, ids_of, in_batches, rows_of, schema

COLUMNS = schema(number=pa.int64(), name=pa.string())


def rows(count: int) -> Iterator[dict[str, Any]]:
    return iter([{"number": number, "name": f"n{number}"} for number in range(count)])


@pytest.mark.parametrize(
    ("count", "batches"),
    [(0, []), (1, [1]), (1023, [1023]), (1024, [1024]), (1025, [1024, 1]), (2048, [1024, 1024])],
)
def test_rows_go_in_batches_of_1024(count: int, batches: list[int]) -> None:
    made = list(in_batches(rows(count), COLUMNS))
    assert [batch.num_rows for batch in made] == batches
    assert all(batch.schema == COLUMNS for batch in made)
    assert list(rows_of(iter(made))) == list(rows(count))


def test_no_more_rows_are_made_than_a_batch_needs() -> None:
    source = rows(3000)
    next(in_batches(source, COLUMNS))
    assert next(source)["number"] == 1024


def test_ids_are_read_batch_by_batch_and_an_empty_one_has_none() -> None:
    batches = [pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
               for ids in ([5, 3], [], [1 << 40])]  # fmt: skip
    assert list(ids_of(iter(batches))) == [5, 3, 1 << 40]
    assert list(rows_of(iter(batches))) == [{"id": 5}, {"id": 3}, {"id": 1 << 40}]


def test_a_column_has_the_name_and_type_that_it_is_given() -> None:
    assert [(each.name, each.type) for each in COLUMNS] == [
        ("number", pa.int64()), ("name", pa.string()),
    ]  # fmt: skip
    with pytest.raises(pa.ArrowInvalid):
        list(in_batches(iter([{"number": "none", "name": "x"}]), COLUMNS))


def test_a_placed_run_has_all_that_a_run_has() -> None:
    assert PLACED.names[: len(RUN)] == RUN.names
    assert PLACED.types[: len(RUN)] == RUN.types
