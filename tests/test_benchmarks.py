"""The benchmarks' own arithmetic; what they measure is measured by `make bench`."""

import importlib
import os
import re
import sys
import threading
from pathlib import Path

import pytest

import benchmarks
from benchmarks.flame import boxes, read
from benchmarks.one_core import one_core
from benchmarks.process_tree import Run, Sample, run
from benchmarks.rebuild import main, put_beside, slopes, table
from benchmarks.rows import ROWS


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


def test_a_table_has_all_rows_and_says_what_differs() -> None:
    rows = {"good": {"messages": 1000, "log_bytes": 2_000_000_000, "same_bytes": True},
            "bad": {"messages": 1, "same_bytes": False, "speed_up": 1.9}}  # fmt: skip
    _, good, bad = table(rows).splitlines()
    assert good.split()[:3] == ["good", "1,000", "2.00"]
    assert "the same" in good
    assert "DIFFER" in bad
    assert bad.endswith("speed_up: 1.9")


def test_a_row_that_there_is_not_is_named(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks.rebuild", "--rows", "nonsense"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--rows: there is no 'nonsense', but usual, " in capsys.readouterr().err


def test_each_row_can_be_asked_for_among_others() -> None:
    assert not [name for name in ROWS if "," in name]


def test_busy_cores_are_those_of_a_part_of_a_run() -> None:
    samples = [Sample(0.0, 0.0), Sample(1.0, 0.5), Sample(2.0, 2.5), Sample(3.0, 4.5)]
    done = Run(3.0, 0, "", 0, 0, 0, samples)
    assert done.busy(2.0, 0.0) == 2.0
    assert done.busy(3.0, 2.0) == 0.5


def test_processes_are_watched_with_their_children() -> None:
    burn = "import time\nwhile time.process_time() < 1: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    done = run([sys.executable, "-c", parent])
    assert done.code == 0
    assert done.cpu > 0.3  # a loaded machine looks late, and misses the end
    assert done.python_mib > 0


def test_a_flame_graph_starts_where_it_is_asked_to() -> None:
    top = read("main;scan (a.py:1);x 3\nmain;scan (a.py:1) 1\nmain;other 9", "scan")
    assert top.samples == 4
    drawn = boxes(top, 0, 0, 100, top.samples)
    assert len(drawn) == 2
    assert "x: 75.0%" in drawn[1]


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


def test_one_core_does_nothing_where_the_system_has_no_such_call(monkeypatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    before = os.sched_getaffinity(0)
    with one_core():
        assert os.sched_getaffinity(0) == before
