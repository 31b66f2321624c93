"""Spares Python's collector what a Spark worker has loaded.

PySpark collects garbage after each task, and the collector looks at all that numba, pandas and
PyArrow made when they were imported: 0.05 to 0.1 s a task.
"""

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from reput.udfs.staging import Task

_AT_START = gc.get_freeze_count()  # Python 3.12 itself begins with some hundreds


@dataclass(frozen=True)
class Settled:
    """A task after which the collector looks only at what later tasks make."""

    task: Task

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.task(batches)
        settle()


def settle() -> None:
    """Leave all objects that exist now out of later collections, once in a process; in Spark
    workers only, as any other program decides this itself.
    """
    if "pyspark.worker" in sys.modules and gc.get_freeze_count() <= _AT_START:
        gc.collect()
        gc.freeze()
