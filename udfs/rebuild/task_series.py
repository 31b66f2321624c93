"""Several tasks as one, so that Spark plans one query of the plainest kind for all of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from reput.udfs.schemas import Task, ids_of


@dataclass(frozen=True)
class InTurn:
    """Gives the numbers that arrive in `id` to several tasks: the first ones to the first task.

    tasks: each with how many numbers it gets, counted from 0 for it. All yield one kind of row.
    """

    tasks: tuple[tuple[int, Task], ...]

    @property
    def total(self) -> int:
        return sum(count for count, _ in self.tasks)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            for count, task in self.tasks:
                if number < count:
                    yield from task(iter([pa.RecordBatch.from_pydict({"id": [number]})]))
                    break
                number -= count
