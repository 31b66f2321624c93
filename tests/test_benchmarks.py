"""The benchmarks' own arithmetic; what they measure is measured by `make bench`."""

import importlib
import os
import re
import sys
import threading
from pathlib import Path

import pytest

import benchmarks
from benchmarks.one_core import one_core
from benchmarks.process_tree import run
from benchmarks.rebuild import put_beside, slopes


@pytest.mark.parametrize("path", sorted(Path(benchmarks.__path__[0]).glob("*.py")),
                         ids=lambda path: path.stem)  # fmt: skip
def test_no_benchmark_uses_what_is_gone(path: Path) -> None:
    importlib.import_module(f"benchmarks.{path.stem}")
    for name in re.findall(r'"-m", "(tests[.\w]*)"', path.read_text()):
        importlib.import_module(f"{name}.__main__")


def test_the_slope_is_of_the_marginal_cost() -> None:
    usual = {"rocketmq_seconds": 12.0, "reput_seconds": 6.0, "no_check_seconds": 5.0,
             "bare_work": 1.0, "spark_seconds": 8.0}  # fmt: skip
    large = {"rocketmq_seconds": 82.0, "reput_seconds": 16.0, "no_check_seconds": 12.0,
             "bare_work": 4.5, "spark_seconds": 18.0}  # fmt: skip
    assert slopes(usual, large) == {"slope_ratio": 7.0, "no_check_slope_ratio": 10.0,
                                    "bare_slope_ratio": 20.0, "spark_slope_ratio": 7.0}  # fmt: skip


def test_a_row_of_the_same_store_has_rocketmqs_time_beside_it() -> None:
    rows = {"usual": {"rocketmq_seconds": 15.0, "reput_seconds": 5.0},
            "one core": {"reput_seconds": 6.0}, "cluster": {"cluster_stages": 2.0},
            "large by cores": {"reput_seconds": 20.0}}  # fmt: skip
    put_beside(rows)
    assert rows["one core"] == {"rocketmq_seconds": 15.0, "reput_seconds": 6.0, "ratio": 2.5}
    assert rows["cluster"]["rocketmq_seconds"] == 15.0
    assert rows["large by cores"] == {"reput_seconds": 20.0}  # the row of its store was not run


def test_processes_are_watched_with_their_children() -> None:
    burn = "import time\nwhile time.process_time() < 1: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    done = run([sys.executable, "-c", parent])
    assert done.code == 0
    assert done.cpu > 0.3  # a loaded machine looks late, and misses the end
    assert done.python_mib > 0


# --- The benchmark's threads on one core, and the others as before.
def test_threads_on_one_core_and_the_others_as_before() -> None:
    def cores_of_a_thread() -> set[int]:
        found: list[set[int]] = []
        thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
        return found[0]

    before = os.sched_getaffinity(0)
    with one_core():
        assert len(cores_of_a_thread()) == 1
    assert os.sched_getaffinity(0) == cores_of_a_thread() == before
