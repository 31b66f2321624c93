"""Counts and times as a person reads them; and what of a store a copy leaves behind."""

from reput.jobs.console.voice import time_text
from reput.jobs.outputs.report import counted, left_behind
from reput.store_format.files.folder import Folder
from tests.memory_storage import MemoryStorage


def test_plurals() -> None:
    texts = [counted(n, what) for n, what in ((1, "file"), (0, "file"), (7525, "index key"),
                                              (2, "entry"), (1, "queue entry"))]  # fmt: skip
    assert texts == ["1 file", "0 files", "7,525 index keys", "2 entries", "1 queue entry"]


def test_times_that_no_calendar_has_are_numbers() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999Z"
    assert time_text(1 << 62) == str(1 << 62)


def test_the_state_that_a_copy_leaves_behind_is_named() -> None:
    names = (
        "commitlog/x", "checkpoint", "timerwheel", "lock", "notes.txt", "epochFileCheckpoint",
        "epochFileCheckpoint.bak", "compaction/position-checkpoint", "config/topics.json",
        "config/consumerOffset.json", "config/consumerOrderInfo.json", "config/users/CURRENT",
        "config/timercheck", "kvStore/CURRENT",
    )  # fmt: skip
    storage = MemoryStorage({f"store/{name}": b"" for name in names})
    (line,) = left_behind(Folder(storage, "store"), ("topics.json", "consumerOffset.json"))
    assert line == (
        "not taken over: compaction/, config/consumerOrderInfo.json, config/users/, "
        "epochFileCheckpoint"
    )
    assert left_behind(Folder(MemoryStorage({"store/commitlog/x": b""}), "store"), ()) == []
