"""Logs of records of one size, so that a test can count where each begins and ends."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from reput.broker.change.position import DispatchedLog
from reput.store_format.dispatch.scan import NamedQueue
from tests.logs import Log
from tests.logs.encoder import Message, build_log, properties
from tests.reference import derive

T0, SEGMENT = 1_700_000_000_000, 2048
SIZE = 152  # 91, a topic of 2, a body of 50, a property of 9: a segment has room for 13
INDEX = "index/20231114221320000"
SETTINGS = {"mappedFileSizeCommitLog": SEGMENT, "mappedFileSizeConsumeQueue": 100,
            "maxHashSlotNum": 7, "maxIndexNum": 50}  # fmt: skip
A, B = NamedQueue("TA", 0, False), NamedQueue("TB", 0, False)


def log_with(records: Iterable[tuple[str, int]], keyed: int = 99, start: int = 0,
             **settings: Any) -> Log:  # fmt: skip
    """A log of records of (topic, queueOffset), of which the first `keyed` have a key."""
    messages = [Message(topic, queue_offset=offset, body=bytes(50), store_timestamp=T0 + n,
                        properties=properties(("KEYS" if n < keyed else "SEEK", f"k{n:02}"))) for n,
                (topic, offset) in enumerate(records)]  # fmt: skip
    return Log(build_log(messages, SEGMENT, start), {**SETTINGS, **settings}, "5.3.3", {})


def in_turns(count: int, **more: Any) -> Log:
    """Records in TA and TB in turns."""
    return log_with((("TB" if n % 2 else "TA", n // 2) for n in range(count)), **more)


def place_of(log: Log, **more: int) -> DispatchedLog:
    def read(at: int, buffer: np.ndarray) -> None:
        raw = log.segments[at - at % SEGMENT][at % SEGMENT :][: len(buffer)]
        buffer[:] = np.frombuffer(raw, np.uint8)

    return DispatchedLog(read, min(log.segments), max(log.segments) + SEGMENT, SEGMENT, **more)


def derived(log: Log) -> dict[str, bytes]:
    """The files that the reference derives; the one of the index is `INDEX`."""
    files = derive(*log).files.items()
    return {
        path.replace("index/0", INDEX): raw.ljust(length, b"\0") for path,
        (raw, length) in files}  # fmt: skip
