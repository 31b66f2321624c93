"""What PySpark's collector is spared after a task, in a process of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
import pyarrow as pa
from reput.udfs.worker_garbage import Settled
if {worker}:
    import pyspark.worker
rows = pa.RecordBatch.from_pydict({{"id": [1, 2]}})
task = Settled(lambda batches: batches)
assert list(task(iter([rows]))) == [rows]
first = gc.get_freeze_count()
kept = [[] for _ in range(100_000)]
assert list(task(iter([rows, rows]))) == [rows, rows]
assert gc.get_freeze_count() == first  # what later tasks make is collected
print(first > 10_000)
"""


@pytest.mark.parametrize("worker", [True, False])
def test_what_is_loaded_is_left_out_of_collections_in_a_worker_alone(worker: bool) -> None:
    words = [sys.executable, "-c", PROGRAM.format(worker=worker)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == f"{worker}\n", done.stderr
