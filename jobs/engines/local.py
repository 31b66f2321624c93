"""The local engine: tasks run in processes of this machine, which exchange Arrow tables."""

import os
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.jobs.engines.engine import Engine, EngineFailed, TaskRows
from reput.jobs.engines.workers import Workers, failures_said, hold, of_workers, prepare
from reput.store_format import faults
from reput.udfs.staging import Task

# ---
# Worker processes of one machine, which run tasks until the job ends or a worker is killed.
#
# This process holds one end of a pipe, and the workers watch the other end. So they end at once
# when this process ends, however it ends, or closes the pipe.

Batches = Sequence[pa.RecordBatch]
Tasks = Sequence[Task]

_ATTEMPTS = 4  # as by default in Spark (spark.task.maxFailures)


class Raised(NamedTuple):
    """What a task raised, as texts: exceptions with own arguments do not survive pickling."""

    kind: str
    text: str
    trace: str


class WorkerPool:
    def __init__(self, workers: int) -> None:
        """Raises EngineFailed."""
        prepare()
        with failures_said():
            reader, self._held = hold()
            self._workers = ProcessPoolExecutor(
                workers, Workers(), initializer=_begin,
                initargs=(reader, {**os.environ, **of_workers()}, _umask()),
            )  # fmt: skip

    def submit(self, tasks: bytes, rows: bytes) -> "Future[bytes | Raised]":
        """Run the pickled tasks in a worker, one after the other. Raises EngineFailed if no worker
        can be started. The future raises BrokenProcessPool if a worker was killed.
        """
        with failures_said():  # a worker may be started here
            return self._workers.submit(_run, tasks, rows)

    def close(self) -> None:
        """End all workers, even busy ones; returns when they are gone."""
        self._held.close()
        self._workers.shutdown(cancel_futures=True)


def packed(batches: Batches) -> bytes:
    """Batches as an Arrow stream; pickling a slice would also pickle the rest of its table."""
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(rows: bytes) -> Batches:
    """The batches of a stream that `packed` made."""
    return list(pa.ipc.open_stream(rows)) if rows else []


def _run(tasks: bytes, rows: bytes) -> bytes | Raised:
    """Run tasks in a worker: each task takes the batches of the task before it."""
    for attempt in range(_ATTEMPTS):
        try:
            batches: Iterator[pa.RecordBatch] = iter(unpacked(rows))
            for task in pickle.loads(tasks):
                batches = task(batches)
            return packed(list(batches))
        except OSError as error:  # perhaps a network error: a later attempt may succeed
            if attempt == _ATTEMPTS - 1:
                return _raised(error)
        except BaseException as error:  # noqa: BLE001 (the job raises it; SystemExit too)
            return _raised(error)
    raise AssertionError("not reached")


def _raised(error: BaseException) -> Raised:
    kind, trace = type(error).__name__, traceback.format_exc()
    if isinstance(error, faults.StoreError):
        return Raised(kind if hasattr(faults, kind) else "", str(error), trace)
    if isinstance(error, FileNotFoundError) and error.filename:
        return Raised(faults.StoreChanged.__name__, f"{error.filename}{faults.IS_GONE}", trace)
    return Raised("", str(error) if isinstance(error, OSError) else f"{kind}: {error}", trace)


def _begin(held: Connection, environment: Mapping[str, str], umask: int) -> None:
    """Initialise a worker with the environment and umask that the job's process has now."""
    os.environ.clear()
    os.environ.update(environment)
    os.umask(umask)

    def end() -> None:  # when the other end of the pipe is closed, or its process is gone
        held.poll(None)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _umask() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022


# ---
# The local engine: processes of this machine that exchange Arrow tables.

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
                tasks = pickle.dumps(source.tasks)
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
    engine: LocalEngine
    sources: tuple[_Source, ...]

    def run(self, task: Task, columns: pa.Schema) -> "LocalRows":
        then = (replace(s, columns=columns, tasks=(*s.tasks, task)) for s in self.sources)
        return replace(self, sources=tuple(then))

    def by_key(self, parts: int, key: Sequence[str], order: Sequence[str]) -> "LocalRows":

        def shared() -> list[Batches]:
            rows = self.as_table()
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
            table = self.as_table().group_by(key, use_threads=False).aggregate(asked)
            by_name = [*key, *(f"{name}_{how}" for name, how in asked)]
            return _parts(table.select(by_name).rename_columns(names), [0, len(table)])

        columns = pa.schema([self.columns.field(name) for name in names])
        return replace(self, sources=(_Source(columns, found),))

    def as_table(self) -> pa.Table:
        return pa.Table.from_batches(self.engine.batches(self.sources), self.columns)

    @property
    def columns(self) -> pa.Schema:
        return self.sources[0].columns


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
