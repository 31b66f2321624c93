"""The timer's files in a new store: units in their places, which name the records' new places."""

import numpy as np

from reput.store_format.layouts import TIMER_UNIT
from tests.converted import converted, log_of, plain, records
from tests.in_process import OUTPUT, STORE, storage_of
from tests.logs import Log
from tests.logs.encoder import Message
from tests.memory_storage import MemoryStorage

UNIT = 52
LOG = plain([Message("A"), Message("A", 0, 1, b"xx"), Message("A", 0, 2)])
LONGER = {"A": "Longer"}


def carried(files: dict[str, bytes], log: Log = LOG) -> tuple[list[str], MemoryStorage]:
    """The timer's files that a summary names as copied, and all files."""
    storage = storage_of(log)
    storage.files |= {f"{STORE}/{path}": content for path, content in files.items()}
    summary, made = converted(log, storage, rename=LONGER)
    return [path for path in summary.copied if "timer" in path], made


def units(*fields: tuple[int, int, int]) -> bytes:
    """Units of (size, physicalOffset, messageSize)."""
    made = np.zeros(len(fields), TIMER_UNIT)
    for unit, (made_size, place, length) in zip(made, fields, strict=True):
        unit["size"], unit["physicalOffset"], unit["messageSize"] = made_size, place, length
    return made.tobytes()


def named(raw: bytes) -> list[tuple[int, int]]:
    found = np.frombuffer(raw[: len(raw) // UNIT * UNIT], TIMER_UNIT)
    return list(zip(found["physicalOffset"].tolist(), found["messageSize"].tolist(), strict=True))


def test_a_unit_names_its_record_s_new_place_and_size() -> None:
    old = records(dict(LOG.segments))[1:]
    raw = units(*((UNIT, place, len(record)) for place, record in old))
    _, made = carried({f"timerlog/{0:020d}": raw})
    new = records(log_of(made))[1:]
    assert [len(record) for _, record in new] == [len(record) + 5 for _, record in old]
    copied = made.files[f"{OUTPUT}/timerlog/{0:020d}"]
    assert named(copied) == [(place, len(record)) for place, record in new]


def test_units_of_no_record_of_other_size_and_a_tail_keep_their_places() -> None:
    place, record = records(dict(LOG.segments))[1]
    fields = ((UNIT, place + 1, 7), (UNIT, 1 << 40, 7), (0, place, 7), (UNIT - 1, place, 7))
    raw = units(*fields, (UNIT, place, len(record))) + b"tail"
    _, made = carried({f"timerlog/{0:020d}": raw})
    copied = made.files[f"{OUTPUT}/timerlog/{0:020d}"]
    new_place, new = records(log_of(made))[1]
    assert named(copied) == [
        (0, 7), (1 << 40, 7), (place, 7), (place, 7), (new_place, len(new))
    ]  # fmt: skip
    assert (len(copied), copied[-4:]) == (len(raw), b"tail")


def test_each_file_of_the_timer_is_copied_and_no_other_of_a_similar_name() -> None:
    files = {
        "timerlog/00000000000000000000": b"", "timerlog/00000000000000000520": b"7 bytes",
        "timerlog/notes": b"?", "timerwheel": b"wheel", "timerwheel.17": b"snapshot",
        "timerwheel.": b"?", "timerwheel.bak": b"?", "config/timercheck": b"check",
        "config/timermetrics.other": b"?",
    }  # fmt: skip
    copied, made = carried(files)
    wanted = [
        "timerlog/00000000000000000000", "timerlog/00000000000000000520", "timerwheel",
        "timerwheel.17", "config/timercheck",
    ]  # fmt: skip
    assert [path for path in copied if path in wanted] == wanted
    assert all(made.files[f"{OUTPUT}/{path}"] == files[path] for path in wanted)
    assert not {f"{OUTPUT}/timerwheel.bak", f"{OUTPUT}/timerwheel.", f"{OUTPUT}/timerlog/notes"} & {
        *made.files
    }  # fmt: skip


def test_a_store_without_a_timer_gets_none() -> None:
    copied, made = carried({})
    assert copied == []
    assert not any("timer" in path for path in made.files)
