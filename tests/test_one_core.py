"""The benchmark's threads on one core, and the others as before."""

import os
import threading

from benchmarks.one_core import one_core


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
