"""The local engine: processes of this machine that exchange Arrow tables."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.jobs.engines.engine import Engine, EngineFailed, Row, TaskRows
from reput.jobs.engines.pool import Batches, Raised, Tasks, WorkerPool, packed, pickled, unpacked
from reput.store_format import faults
from reput.udfs.staging import Task

_KILLED = "a worker process was killed: where nobody did that, the machine ran out of memory"

_Work = Future[bytes | Raised]


@contextmanager
def local_engine(cores: int | None = None) -> Iterator["LocalEngine"]:
    """Yield this machine's engine; its processes end with it. cores: None for all usable cores."""
    engine = LocalEngine(cores or len(os.sched_getaffinity(0)))
    try:
        yield engine
    finally:
        engine.close()


class LocalEngine(Engine):
    """Runs tasks in one process per core; the processes start with the first task.

    If a task fails, or the wait for it is interrupted, all processes have ended before the error
    is raised, so no task still writes.
    """

    one_machine = True

    def __init__(self, cores: int) -> None:
        self.cores = self.most_cores = cores
        self._pool: WorkerPool | None = None
        self._work: list[_Work] = []  # running or waiting tasks

    def numbers(self, numbers: range, parts: int | None = None) -> "LocalRows":
        ids = pa.table({"id": np.arange(numbers.start, numbers.stop)})
        return self.table(ids, min(len(numbers), parts or len(numbers)))

    def table(self, rows: pa.Table, parts: int) -> "LocalRows":
        source = _Source(rows.schema, lambda: _parts(rows, _evenly(len(rows), parts)))
        return LocalRows(self, (source,))

    def share_done(self) -> float | None:
        work = self._work
        return sum(each.done() for each in work) / len(work) if work else None

    def close(self) -> None:
        """End all processes, even busy ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def batches(self, sources: Sequence["_Source"]) -> list[pa.RecordBatch]:
        """The batches that the sources' tasks yield. Raises StoreError, EngineFailed."""
        try:
            there: list[pa.RecordBatch] = []
            work: list[_Work] = []
            for source in sources:
                parts = source.parts()
                if not source.tasks:
                    there += [batch for part in parts for batch in part]
                    continue
                self._pool = self._pool or WorkerPool(self.cores)
                tasks = pickled(source.tasks)
                work += [self._pool.submit(tasks, packed(part)) for part in parts]
            return there + self._done(work)
        except BrokenProcessPool:
            self.close()
            raise EngineFailed(_KILLED) from None
        except BaseException:
            self.close()
            raise

    def _done(self, work: list[_Work]) -> list[pa.RecordBatch]:
        self._work = work
        try:
            there: list[pa.RecordBatch] = []
            for each in as_completed(work):
                rows = each.result()
                if isinstance(rows, Raised):
                    raise _error(rows)
                there += unpacked(rows)
            return there
        finally:
            self._work = []


@dataclass(frozen=True)
class _Source:
    """Partitions, made on demand, and their tasks; the last task yields these columns."""

    columns: pa.Schema
    parts: Callable[[], list[Batches]]
    tasks: Tasks = ()


@dataclass(frozen=True)
class LocalRows(TaskRows):
    """Rows of the local engine."""

    engine: LocalEngine
    sources: tuple[_Source, ...]

    def run(self, task: Task, columns: pa.Schema) -> "LocalRows":
        then = (replace(s, columns=columns, tasks=(*s.tasks, task)) for s in self.sources)
        return replace(self, sources=tuple(then))

    def by_key(self, parts: int, key: Sequence[str], order: Sequence[str]) -> "LocalRows":

        def shared() -> list[Batches]:
            rows = self._table()
            if not len(rows):
                return []
            rows = rows.take(_sorted(rows.select([*key, *order])))
            starts = np.flatnonzero(_begins(rows.select(key)))
            at_or_after = np.searchsorted(starts, _evenly(len(rows), parts)[:-1])
            cuts = starts[np.unique(at_or_after[at_or_after < len(starts)])]
            return _parts(rows, [*cuts, len(rows)])

        return replace(self, sources=(_Source(self.columns, shared),))

    def also(self, other: TaskRows) -> "LocalRows":
        assert isinstance(other, LocalRows)
        return replace(self, sources=self.sources + other.sources)

    def extremes(
        self, key: Sequence[str], greatest: Sequence[str] = (), least: Sequence[str] = ()
    ) -> "LocalRows":
        names = [*key, *greatest, *least]

        def found() -> list[Batches]:
            asked = [(name, "max") for name in greatest] + [(name, "min") for name in least]
            table = self._table().group_by(key, use_threads=False).aggregate(asked)
            by_name = [*key, *(f"{name}_{how}" for name, how in asked)]
            return _parts(table.select(by_name).rename_columns(names), [0, len(table)])

        columns = pa.schema([self.columns.field(name) for name in names])
        return replace(self, sources=(_Source(columns, found),))

    def collect(self) -> list[Row]:
        return [row for batch in self.engine.batches(self.sources) for row in batch.to_pylist()]

    @property
    def columns(self) -> pa.Schema:
        """The columns of all sources."""
        return self.sources[0].columns

    def _table(self) -> pa.Table:
        return pa.Table.from_batches(self.engine.batches(self.sources), self.columns)


def _error(raised: Raised) -> Exception:
    kind = getattr(faults, raised.kind) if raised.kind else EngineFailed
    error: Exception = kind(raised.text)
    error.add_note(raised.trace)
    return error


def _evenly(count: int, parts: int) -> list[int]:
    """The starts of `parts` parts of about the same size, and the end of the last part."""
    parts = max(1, min(count, parts))
    return [count * number // parts for number in range(parts + 1)]


def _parts(rows: pa.Table, cuts: Sequence[int]) -> list[Batches]:
    """The rows between each cut and the next."""
    return [rows.slice(start, end - start).to_batches() for start, end in pairwise(cuts)]


def _sorted(rows: pa.Table) -> pa.Array:
    """Row numbers in the order of all columns, null first, as in Spark."""
    by = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if column.null_count:  # pyarrow 25 and older versions have different options for nulls
            by[f"{name} is there"] = pc.is_valid(column)
        by[name] = column
    return pc.sort_indices(pa.table(by), [(name, "ascending") for name in by])


def _begins(key: pa.Table) -> np.ndarray:
    """One bool for each of sorted rows: whether it is the first row with its key."""
    first = np.ones(len(key), np.bool_)
    first[1:] = False
    for column in key.columns:
        values = column.combine_chunks()
        unlike = pc.fill_null(pc.not_equal(values[1:], values[:-1]), False)
        none = pc.is_null(values).to_numpy(zero_copy_only=False)
        first[1:] |= unlike.to_numpy(zero_copy_only=False) | (none[1:] != none[:-1])
    return first
