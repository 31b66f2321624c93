"""The interface of an engine, which Spark and the processes of one machine implement; and what can
be said of Spark without importing it.

A job describes rows: numbers or a small table, a task that makes other rows from them, the rows
distributed by key. Nothing runs before `collect`. Rows are few and small, as the bytes go through
staging files. An engine may run a task twice, and may return rows in any order unless an order is
asked for.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.udfs.staging import Task

Row = dict[str, Any]


class EngineFailed(Exception):
    """The work failed for good, for another reason than what a task found in a store."""


class TaskRows(ABC):
    """Rows that are described but not made yet."""

    @abstractmethod
    def run(self, task: Task, columns: pa.Schema) -> TaskRows:
        """The rows that `task` makes from these, partition by partition, with these columns."""

    @abstractmethod
    def by_key(self, parts: int, key: Sequence[str], order: Sequence[str]) -> TaskRows:
        """The rows in up to `parts` partitions, sorted by key and order; no key is divided."""

    @abstractmethod
    def also(self, other: TaskRows) -> TaskRows:
        """These rows and other rows of the same engine with the same columns."""

    @abstractmethod
    def extremes(
        self, key: Sequence[str], greatest: Sequence[str] = (), least: Sequence[str] = ()
    ) -> TaskRows:
        """A row for each key, with the greatest or least value of each named column."""

    @abstractmethod
    def as_table(self) -> pa.Table:
        """As `collect`: columns, where there may be very many rows."""

    def collect(self) -> list[Row]:
        """Run all tasks. Raises a task's StoreError, or EngineFailed for any other failure."""
        return list(self.as_table().to_pylist())


class Engine(ABC):
    """Where a job's tasks run."""

    cores: int  # number of tasks that run at once, as far as the engine knows
    most_cores: int  # upper bound of that number
    one_machine: bool  # whether all tasks run on the job's machine, and see its files

    @abstractmethod
    def numbers(self, numbers: range, parts: int | None = None) -> TaskRows:
        """The numbers in the column `id`; parts: number of partitions, None: one per number."""

    @abstractmethod
    def table(self, rows: pa.Table, parts: int) -> TaskRows:
        """The rows of a table, in `parts` partitions."""

    @abstractmethod
    def share_done(self) -> float | None:
        """The share, 0 to 1, of the known tasks that are done; None: unknown."""


# ---
# What can be wrong with Spark itself; a light module, for whoever says how a command ends.


class SparkFailed(Exception):
    """A query failed for good, or a session did; the message says why in words."""


class NoSparkError(Exception):
    """PySpark is not installed; the message says what brings it."""


# ---
# PyArrow without pandas, whose import at the first array takes a quarter of a second.


class NoPandas:
    """What finds no pandas, in `sys.meta_path` of processes that are reput's from their start."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)

    @classmethod
    def begin(cls) -> None:
        sys.meta_path.insert(0, cls)

    @classmethod
    def end(cls) -> None:
        """Let Spark find it, where it is hidden."""
        if cls in sys.meta_path:
            sys.meta_path.remove(cls)
