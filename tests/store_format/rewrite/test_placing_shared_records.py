"""Which records an earlier log has too: the same bytes at the same place, before its log's end."""

import numpy as np
import pytest

from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment
from reput.store_format.log.walk import NO_CHECKS, Walk
from reput.store_format.release.profiles import profile
from reput.store_format.rewrite.placing import EarlierLog, SharedRecords
from tests.converted import records
from tests.logs.encoder import Message, build_log
from tests.memory_storage import MemoryStorage

SEGMENT = 4096
MESSAGES = [Message("T", 0, n, b"x" * (n * 40)) for n in range(20)]


def log_of(messages: list[Message]) -> tuple[MemoryStorage, tuple[Segment, ...]]:
    files = {f"log/{at:020d}": raw for at, raw in build_log(messages, SEGMENT).items()}
    storage = MemoryStorage(files)
    listed = storage.list("log")
    return storage, tuple(
        Segment(f"log/{name}", int(name), state) for name, state in listed if state
    )


def marks(messages: list[Message], earlier: EarlierLog, window: int = 1 << 16) -> list[bool]:
    storage, segments = log_of(messages)
    shared, found = SharedRecords((earlier,)), []
    for segment in segments:
        reader = storage.open(segment.path)
        walk = Walk(
            segment.read_by(reader), segment.end, record_rules(profile("5.3.3")), NO_CHECKS,
            np.empty(window, np.uint8),
        )  # fmt: skip
        for step in walk.steps(segment.start, segment.end):
            found += shared.of(step.window, step.rows).tolist()
    shared.close()
    return found


@pytest.mark.parametrize("window", [1 << 16, 500])  # of the smaller one longer bodies are left out
def test_each_record_that_is_there_too_is_marked(window: int) -> None:
    other = [*MESSAGES[:12], Message("T", 0, 12, b"y" * 480), *MESSAGES[13:]]
    storage, segments = log_of(other)
    found = marks(MESSAGES, EarlierLog(storage, segments, 1 << 40), window)
    assert found == [n != 12 for n in range(20)]


def test_behind_the_end_of_the_earlier_log_nothing_counts() -> None:
    storage, segments = log_of(MESSAGES)
    place, record = records(build_log(MESSAGES, SEGMENT))[4]
    for end, count in ((place + len(record), 5), (place + len(record) - 1, 4), (0, 0)):
        found = marks(MESSAGES, EarlierLog(storage, segments, end))
        assert found == [n < count for n in range(20)]


def test_a_log_that_begins_later_has_nothing_before() -> None:
    storage, segments = log_of(MESSAGES)
    assert len(segments) > 2
    found = marks(MESSAGES, EarlierLog(storage, segments[1:], 1 << 40))
    assert sum(found) < 20
    assert found == sorted(found)
    assert found[-1]
