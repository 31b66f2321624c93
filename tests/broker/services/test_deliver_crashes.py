"""Killed, or without power, after any operation: the next run delivers the rest, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from reput.store_format.fate import delays
from reput.store_format.fate.rows import gathered_delays
from reput.store_format.notes import Notes
from tests.broker.services.stores import (
    T0,
    Clock,
    bodies,
    delayed,
    duplicate,
    opened,
    run,
    timer,
    writing,
)
from tests.faults.memory_files import Crash, MemoryFiles, crash_states
from tests.seeds import seed

WANTED = ["a", "b", "c", "t", "u"]


def before(**named: Any) -> MemoryFiles:
    """A store in which five messages are due at T0 + 9000, and three are not."""
    files, clock = MemoryFiles(), Clock(T0)
    messages = [
        delayed("a", 1), timer("t", 2000), delayed("later", 3), delayed("b", 2),
        timer("u", 1500), timer("then", 50_000), delayed("c", 1), timer("far", 200_000_000),
    ]  # fmt: skip
    with writing(files, clock, **named) as writer:
        for message in messages:
            writer.append(message)
            clock.now += 10
    return files


def check(crash: Crash, **named: Any) -> None:
    files = crash.files
    run(files, T0 + 9000, **named)
    assert sorted(bodies(files)) == WANTED
    assert sum(run(files, T0 + 9000, **named)[:3]) == 0
    with opened(files) as store:
        gathered, levels, read = gathered_delays(store, Notes())
        states = Counter(str(each.state) for each in delays.resolve(gathered, levels, read))
    assert states == {"delivered": 5, "waiting": 3}, states
    assert sum(run(files, T0 + 300_000_000, **named)[:3]) == 3
    assert sorted(bodies(files)) == sorted([*WANTED, "later", "then", "far"])


def check_all(seed: int, mixtures: int, every: int, **named: Any) -> int:
    start = before(**named)
    files = duplicate(start)
    run(files, T0 + 9000, **named)
    count, seen = 0, set()
    for crash in crash_states(start, files.ops, seed, mixtures, every):
        count += 1
        state = hash(tuple(sorted(crash.files.tree().items())))
        if state in seen:
            continue
        seen.add(state)
        try:
            check(crash, **named)
        except Exception as error:
            last = files.ops[crash.after - 1] if crash.after else None
            shown = None if last is None else (last.kind, last.path, last.at, len(last.data))
            raise AssertionError(f"after {crash.after} {shown}, {crash.how}: {error!r}") from error
    return count


def test_crash_states_of_a_delivery() -> None:
    assert check_all(1, 1, 45) > 5


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_all_crash_states_of_a_delivery(flush: str) -> None:
    assert check_all(seed(2), 3, 1, flushDiskType=flush) > 300
