"""Several tasks as one: each number goes to one of them, and is counted from 0 for it."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from reput.udfs.staging import InTurn, Task, ids_of

KIND = pa.schema([("task", pa.string()), ("id", pa.int64())])


def task(name: str, rows: int = 1) -> Task:
    """Yields a batch with its name and number, `rows` times for each number."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            for _ in range(rows):
                yield pa.RecordBatch.from_pylist([{"task": name, "id": number}], KIND)

    return run


def run(tasks: InTurn, *ids: int) -> list[tuple[str, int]]:
    given = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})
    return [tuple(row.values()) for batch in tasks(iter([given])) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("number", "goes_to"),
    [(0, ("a", 0)), (1, ("a", 1)), (2, ("b", 0)), (3, ("d", 0)), (5, ("d", 2))],
)
def test_the_first_numbers_go_to_the_first_task(number: int, goes_to: tuple[str, int]) -> None:
    tasks = InTurn(((2, task("a")), (1, task("b")), (0, task("c")), (3, task("d"))))
    assert tasks.total == 6
    assert run(tasks, number) == [goes_to]


def test_a_number_behind_the_last_is_nobody_s() -> None:
    assert run(InTurn(((1, task("a")), (1, task("b")))), 2, 1, 3) == [("b", 0)]


def test_a_task_may_yield_no_row_or_several_for_a_number() -> None:
    tasks = InTurn(((2, task("none", 0)), (2, task("two", 2))))
    assert run(tasks, 0, 3, 1) == [("two", 1), ("two", 1)]


def test_a_series_may_be_part_of_another() -> None:
    inner = InTurn(((1, task("a")), (1, task("b"))))
    assert run(InTurn(((inner.total, inner), (1, task("c")))), 0, 1, 2) == [
        ("a", 0), ("b", 0), ("c", 0),
    ]  # fmt: skip


def test_no_task_and_no_number() -> None:
    assert (InTurn(()).total, run(InTurn(()), 0)) == (0, [])
    assert run(InTurn(((1, task("a")),))) == []
