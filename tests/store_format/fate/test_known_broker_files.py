"""How far a broker has come with its services, by the files in which it notes that."""

import json
import struct
from typing import Any

import pytest

from reput.store_format.fate.known import half_position, read_progress
from reput.store_format.files.folder import Folder
from reput.store_format.notes import Notes
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import HALF

LEVELS = "config/delayOffset.json"


def store(**files: Any) -> MemoryStorage:
    """Files by path, `/` as `__`; bytes, or what is written as JSON."""
    return MemoryStorage(
        {
            f"store/{path.replace('__', '/')}": raw
            if isinstance(raw, bytes)
            else json.dumps(raw).encode()
            for path, raw in files.items()
        }
    )


def test_without_files_nothing_is_known() -> None:
    found = read_progress(Folder(MemoryStorage(), "store"), Notes())
    assert (found.levels, found.timer_position, found.timer_read) == (None, None, 0)
    assert found.stopped


@pytest.mark.parametrize("abort", [b"", b"4711"])
def test_a_file_abort_says_that_the_broker_runs_or_was_killed(abort: bytes) -> None:
    assert not read_progress(Folder(store(abort=abort), "store"), Notes()).stopped


@pytest.mark.parametrize(
    ("raw", "levels", "notes"),
    [
        (b'{"offsetTable":{1:5,"3":0,18:7}}', {1: 5, 3: 0, 18: 7}, 0),
        (b'{"offsetTable":{-1:5,"x":6,"1.5":7,"2":"8","4":null}}', {}, 0),
        (b"{}", None, 1),
        (b"torn", None, 1),
    ],
)
def test_offsets_by_level(raw: bytes, levels: dict[int, int] | None, notes: int) -> None:
    noted = Notes()
    found = read_progress(Folder(MemoryStorage({f"store/{LEVELS}": raw}), "store"), noted)
    assert (found.levels, len(noted.lines)) == (levels, notes)


@pytest.mark.parametrize(
    ("length", "position", "read"), [(4096, 9, 77), (32, 9, 77), (31, None, 0), (0, None, 0)]
)
def test_where_the_timer_wheel_stands(length: int, position: int | None, read: int) -> None:
    raw = struct.pack(">qqqq", 77, 1, 9, 2).ljust(4096, b"\0")[:length]
    found = read_progress(Folder(store(config__timercheck=raw), "store"), Notes())
    assert (found.timer_position, found.timer_read) == (position, read)


def test_a_message_waits_in_the_wheel_if_its_slot_is_still_to_be_read() -> None:
    units = b"".join(
        struct.pack(">iqiqiqiiq", 52, -1, 1, written, 5, place, 100, 7, 0)
        for written, place in ((72, 300), (71, 400), (90, 100))
    )
    files = {f"timerlog__{0:020d}": units, "config__timercheck": struct.pack(">qqqq", 77, 1, 9, 2)}
    found = read_progress(Folder(store(**files), "store"), Notes())
    assert found.in_wheel is not None
    assert [found.in_wheel(place) for place in (100, 101, 300, 400, 1 << 60)] == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_how_far_half_messages_are_checked() -> None:
    """The offset of the broker's own group in queue 0."""
    table = {
        f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 12, "1": 99}, f"{HALF}@other": {"0": 50},
        "T@CID_RMQ_SYS_TRANS": {"0": 60},
    }  # fmt: skip
    files = {"config__consumerOffset.json": {"offsetTable": table}}
    assert half_position(Folder(store(**files), "store"), Notes()) == 12
    table.pop(f"{HALF}@CID_RMQ_SYS_TRANS")
    assert half_position(Folder(store(**files), "store"), Notes()) == 0
