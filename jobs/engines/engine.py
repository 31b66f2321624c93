"""What a job asks of an engine. Spark and the processes of one machine both answer it.

A job describes rows: numbers, or a small table; a task that makes other rows of them; the same rows
shared out by key. Nothing runs before `collect`. Rows are few and small, for the bytes go through
staging files; an engine may run a task twice, and gives rows in any order unless it is asked for
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.udfs.schemas import Task

Row = dict[str, Any]


class EngineFailed(Exception):
    """The work failed for good, and not by what a task found in a store."""


class TaskRows(ABC):
    """Rows that are still to be made."""

    @abstractmethod
    def run(self, task: Task, columns: pa.Schema) -> TaskRows:
        """What `task` makes of the rows, partition by partition; its rows have these columns."""

    @abstractmethod
    def by_key(self, parts: int, key: Sequence[str], order: Sequence[str]) -> TaskRows:
        """Rows in up to `parts` partitions, each key's together, sorted by key and order."""

    @abstractmethod
    def also(self, other: TaskRows) -> TaskRows:
        """These rows and others with the same columns, of the same engine."""

    @abstractmethod
    def extremes(
        self, key: Sequence[str], greatest: Sequence[str] = (), least: Sequence[str] = ()
    ) -> TaskRows:
        """A row for each key, with the greatest value of some columns and the least of others."""

    @abstractmethod
    def collect(self) -> list[Row]:
        """Run all tasks. Raises StoreError as a task did, EngineFailed for another failure."""


class Engine(ABC):
    """Where a job's tasks run."""

    cores: int  # tasks that run at once, as far as the engine knows
    most_cores: int  # how many tasks run at once at most
    one_machine: bool  # all tasks run where the job does, and see its files

    @abstractmethod
    def numbers(self, numbers: range, parts: int | None = None) -> TaskRows:
        """The numbers in the column `id`, each in a partition of its own unless asked otherwise."""

    @abstractmethod
    def table(self, rows: pa.Table, parts: int) -> TaskRows:
        """The rows of a table, in `parts` partitions."""

    @abstractmethod
    def share_done(self) -> float | None:
        """How many of the tasks that are known are done, as a share of 1; None: not known."""
