"""The timer's files replaced in steps, and what is none of a broker's refused."""

import struct

import numpy as np
import pytest

from reput.broker.services.files import check_can_replace, replace_timer_files
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_UNIT
from reput.store_format.state.timers import Timers, Turned, timer_log_files
from tests.faults.failing import same_again
from tests.faults.memory_files import MemoryFiles, crash_states

READ = 1_700_000_000_000


LOG = "timerlog/" + "0" * 20
CHECK = "config/timercheck"
OLD_CHECK = struct.pack(">4q", 1, 2, 3, 4) + b"version".ljust(4064, b"\0")
TIMERS = Timers(np.ones(2, TIMER_UNIT), Turned(READ, READ, 42, READ, 1000), 1)


def before() -> MemoryFiles:
    files = MemoryFiles()
    for folder in ("timerlog", "config", ".reput-timerlog"):
        files.make_folder(folder)
    made = {
        LOG: b"old", "timerwheel": b"w", "timerwheel.7": b"w", "timerwheels": b"other",
        CHECK: OLD_CHECK,
    }  # fmt: skip
    for name, raw in made.items():
        files.create(name).write_at(0, raw)
    files.ops.clear()
    return files


def after() -> dict[str, bytes]:
    ((_, content),) = timer_log_files(TIMERS.units, 200, 1000)
    return {
        LOG: content.ljust(200, b"\0"), "timerwheels": b"other",
        CHECK: struct.pack(">4q", READ, 0, 42, 42) + OLD_CHECK[32:],
    }  # fmt: skip


def test_the_files_are_replaced_and_the_check_point_keeps_its_end() -> None:
    files = before()
    replace_timer_files(files, TIMERS, 200)
    assert files.tree() == after()


def test_whatever_a_power_cut_leaves_a_broker_makes_the_wheel_of_the_log_that_is_there() -> None:
    """It makes it of what is behind timercheck's lastTimerLogFlushPos, and of a wheel there is."""
    files = before()
    start = same_again(files)
    replace_timer_files(files, TIMERS, 200)
    new = after()
    for crash in crash_states(start, files.ops, 1, 20):
        tree = crash.files.tree()
        wheels, check = {"timerwheel", "timerwheel.7"} & tree.keys(), tree[CHECK]
        where = (crash.after, crash.how)
        assert tree[LOG] in (b"old", new[LOG]), where
        assert tree[LOG] == b"old" or not wheels, where
        assert len(wheels) == 2 or check == new[CHECK] or check[8:16] == bytes(8), where
        assert check != new[CHECK] or (tree[LOG] == new[LOG] and not wheels), where
        if crash.after == len(files.ops):
            assert {p: raw for p, raw in tree.items() if not p.startswith(".")} == new, where


@pytest.mark.parametrize(
    "made", ["timerlog/x", "timerlog/1", "config/timercheck/", "timerwheel/", "timerwheel.1/"]
)
def test_what_is_no_brokers_file_is_refused(made: str) -> None:
    files = MemoryFiles()
    check_can_replace(files)
    files.make_folder(made.rpartition("/")[0])
    if not made.endswith("/"):
        files.create(made)
    with pytest.raises(StoreError, match="is left as it is"):
        check_can_replace(files)
    file = MemoryFiles()
    file.create("timerlog")
    with pytest.raises(StoreError, match="timerlog: is not a folder"):
        check_can_replace(file)
