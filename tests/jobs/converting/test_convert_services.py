"""What the timer and the delay levels need in a new store: units that name the records' new places,
and files that the old store lost.
"""

import json
from typing import Any

import numpy as np
import pytest

from reput.store_format.layouts import TIMER_CHECK, TIMER_UNIT
from tests.converted import converted, log_of, plain, records
from tests.in_process import OUTPUT, STORE, storage_of
from tests.logs import Log
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

UNIT = 52
DUE = 4_000_000_000_000  # milliseconds
LOGGED = f"timerlog/{0:020d}"


def timer(n: int, topic: str = "A") -> Message:
    text = properties(("REAL_TOPIC", topic), ("TIMER_OUT_MS", str(DUE)), ("REAL_QID", "0"))
    return Message("rmq_sys_wheel_timer", 0, n, b"x" * n, text)


LOG = plain([Message("A"), *(timer(n) for n in range(3))])


def carried(files: dict[str, bytes], log: Log = LOG) -> tuple[Any, MemoryStorage]:
    """The summary, and all files, of a conversion that makes each record longer."""
    storage = storage_of(log)
    storage.files |= {f"{STORE}/{path}": content for path, content in files.items()}
    return converted(log, storage, rename={"A": "Longer"}, splits=7)


def unit(place: int, size: int) -> Any:
    made = np.zeros(1, TIMER_UNIT)
    made["size"], made["physicalOffset"], made["messageSize"] = UNIT, place, size
    made["magic"], made["writeTime"], made["delay"] = 1, DUE - 1000, 1000
    return made


def named(raw: bytes) -> list[tuple[int, int]]:
    """(physical offset, size of the record) of each unit."""
    found = np.frombuffer(raw[: len(raw) // UNIT * UNIT], TIMER_UNIT)
    found = found[found["size"] == UNIT]
    return list(zip(found["physicalOffset"].tolist(), found["messageSize"].tolist(), strict=True))


@pytest.mark.parametrize("lost", [False, True])
def test_a_unit_names_its_record_s_new_place_and_size(lost: bool) -> None:
    old = records(dict(LOG.segments))[1:]
    check = np.zeros(1, TIMER_CHECK)
    check["lastReadTimeMs"], check["lastTimerQueueOffset"] = DUE - 5000, 3
    check["masterTimerQueueOffset"] = 3
    units = b"".join(unit(place, len(record)).tobytes() for place, record in old)
    files = {
        LOGGED: units.ljust(1040, b"\0"), "timerwheel": b"of old places",
        "config/timercheck": check.tobytes().ljust(4096, b"\0"),
    }  # fmt: skip
    summary, made = carried({} if lost else files)
    new = records(log_of(made))[1:]
    assert [len(record) for _, record in new] == [len(record) + 5 for _, record in old]
    assert named(made.files[f"{OUTPUT}/{LOGGED}"]) == [(at, len(record)) for at, record in new]
    assert [path for path in summary.copied if "timer" in path] == [LOGGED, "config/timercheck"]
    assert summary.waits == ["3 timers wait: timerlog and config/timercheck are written"]
    assert f"{OUTPUT}/timerwheel" not in made.files  # a broker makes it from timerlog


def test_how_far_a_lost_file_s_delay_levels_were_delivered_is_told_by_the_log() -> None:
    late = [
        Message("SCHEDULE_TOPIC_XXXX", 2, n, b"late",
                properties(("REAL_TOPIC", "A"), ("REAL_QID", "0"), ("DELAY", "3")))
        for n in range(2)
    ]  # fmt: skip
    _, made = carried({}, plain([Message("A"), *late]))
    whole = made.files[f"{OUTPUT}/config/delayOffset.json"].replace(b"3:0", b'"3":0')
    assert json.loads(whole)["offsetTable"] == {"3": 0}


def test_a_store_without_a_timer_gets_none() -> None:
    summary, made = carried({}, plain([Message("A")]))
    assert not any("timer" in path for path in [*summary.copied, *made.files])
    assert summary.waits == []
