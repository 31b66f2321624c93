"""Worker processes of one machine, which run tasks until the job ends or a worker is killed.

This process holds one end of a pipe, and the workers watch the other end. So they end at once when
this process ends, however it ends, or closes the pipe.
"""

import os
import pickle
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from reput.jobs.engines.worker_processes import Workers, failures_said, hold, of_workers, prepare
from reput.store_format import faults
from reput.udfs.staging import Task

Batches = Sequence[pa.RecordBatch]
Tasks = Sequence[Task]

_ATTEMPTS = 4  # as by default in Spark (spark.task.maxFailures)


class Raised(NamedTuple):
    """What a task raised, as texts: exceptions with own arguments do not survive pickling."""

    kind: str
    text: str
    trace: str


class WorkerPool:
    """A fixed number of worker processes."""

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


def pickled(tasks: Tasks) -> bytes:
    """The tasks pickled for `submit`."""
    return pickle.dumps(tasks)


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
    threading.Thread(target=_end_with, args=(held,), daemon=True).start()


def _end_with(held: Connection) -> None:
    """End this process when the other end of the pipe is closed, or its process is gone."""
    held.poll(None)
    os._exit(1)


def _umask() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022
