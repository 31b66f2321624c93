"""The timer's files replaced in steps, and what is none of a broker's refused."""

import struct

import numpy as np
import pytest

from reput.broker.services.files import check_can_replace, replace_timer_files
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_UNIT
from reput.store_format.state.timers import Timers, Turned, timer_log_files
from tests.faults.memory_files import MemoryFiles

READ = 1_700_000_000_000


def test_the_files_are_replaced_and_the_check_point_keeps_its_end() -> None:
    files = MemoryFiles()
    for folder in ("timerlog", "config", ".reput-timerlog"):
        files.make_folder(folder)
    old_check = struct.pack(">4q", 1, 2, 3, 4) + b"version".ljust(4064, b"\0")
    made = {
        "timerlog/" + "0" * 20: b"old", "timerwheel": b"w", "timerwheel.7": b"w",
        "timerwheels": b"other", "config/timercheck": old_check,
    }  # fmt: skip
    for name, raw in made.items():
        files.create(name).write_at(0, raw)
    units = np.ones(2, TIMER_UNIT)
    replace_timer_files(files, Timers(units, Turned(READ, READ, 42, READ, 1000), 1), 200)
    (content,) = (raw for _, raw in timer_log_files(units, 200, 1000))
    assert files.tree() == {
        "timerlog/" + "0" * 20: content.ljust(200, b"\0"), "timerwheels": b"other",
        "config/timercheck": struct.pack(">4q", READ, 0, 42, 42) + old_check[32:],
    }  # fmt: skip


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
