"""One topic's records by its queues: each entry is checked, and in doubt the log is walked."""

import struct
from typing import Any

import pytest

from reput.udfs.table import log_parts, queue_parts
from reput.udfs.table.queue_parts import QueuedParts, TopicQueue
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, encode
from tests.udfs.table.parts import log_of, part

SEGMENT, FILE = 4096, 100  # a queue file has five entries
QUEUES = (TopicQueue(0, "consumequeue/A/0"), TopicQueue(1, "consumequeue/A/1"))
MESSAGES = [
    Message("B" if n % 5 else "A", queue_id=n // 5 % 2, queue_offset=7 + n // 10, body=b"b" * 40)
    for n in range(60)
]
PLACES = record_places(build_log(MESSAGES, SEGMENT))
OF_A = PLACES[::5]  # two segments have them; queue 0 has every second one
SIZE = len(encode(MESSAGES[0], 0))


def queue(number: int) -> list[tuple[int, int, int]]:
    """Positions 5 to 12: two pre-blanks, then the queue's records."""
    return [(0, 0x7FFFFFFF, 0)] * 2 + [(place, SIZE, 0) for place in OF_A[number::2]]


def log(second: list[tuple[int, int, int]] | None = None, **more: Any) -> Any:
    """Both queues in files; second: other entries of queue 1."""
    made = log_of(MESSAGES, SEGMENT, kind=QueuedParts, topic="A", queues=QUEUES, **more)
    files = made.storage.files
    for each, entries in zip(QUEUES, (queue(0), second or queue(1)), strict=True):
        raw = b"".join(struct.pack(">qiq", *entry) for entry in entries)
        for at in range(0, len(raw), FILE):
            files[f"{each.folder}/{100 + at:020d}"] = raw[at : at + FILE].ljust(FILE, b"\0")
    return made


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", 0)


def read(made: QueuedParts, number: int = 0, start: int | None = None, stop: int | None = None
         ) -> tuple[list[int], list[str]]:  # fmt: skip
    """(places of the records, what was told)"""
    told: list[str] = []
    steps = made.steps(part(made, number, start, stop), told.append)
    return [place for step in steps for place in step.rows["physicalOffset"].tolist()], told


def test_only_the_topic_s_records_are_read_in_the_log_s_order_in_windows_of_their_bytes(
    monkeypatch,
) -> None:
    for number in (0, 1):
        wanted = [place for place in OF_A if place // SEGMENT == number]
        assert read(log(), number) == (wanted, [])
    assert read(log(), 0, OF_A[2], OF_A[4]) == (OF_A[2:4], [])
    assert read(log(), 0, OF_A[2] + 1, OF_A[3]) == ([], [])
    monkeypatch.setattr(log_parts, "WINDOW_BYTES", 2 * SIZE)
    steps = [
        step.rows["physicalOffset"].tolist() for step in log().steps(part(log(), 0, 0, OF_A[5]))
    ]
    assert steps == [OF_A[:2], OF_A[2:4], OF_A[4:5]]


@pytest.mark.parametrize(("entry", "instead"), [
    (2, (OF_A[1], SIZE - 1, 0)), (3, (OF_A[3], 0, 0)), (3, (OF_A[3], -(1 << 31), 0)),
    (3, (OF_A[3] + 1, SIZE, 0)), (3, (OF_A[1], SIZE, 0)),
    (3, (PLACES[16], SIZE, 0)),  # of the other topic
    (3, (OF_A[4], SIZE, 0)),  # of the other queue
    (3, (OF_A[5], SIZE, 0)),  # of another position
    (3, (1 << 62, SIZE, 0)), (3, (-1, SIZE, 0)),
])  # fmt: skip
def test_a_wrong_entry_makes_the_log_be_walked(entry: int, instead: tuple[int, int, int]) -> None:
    entries = queue(1)
    entries[entry] = instead
    found, told = read(log(entries), 0)
    assert found == [place for place in PLACES if place < SEGMENT]
    assert [line[:26] for line in told] == [f"the log is read from 0 to {SEGMENT}"[:26]]


@pytest.mark.parametrize("beside", [3, 5])
def test_the_entries_just_before_and_behind_the_part_are_checked_too(beside: int) -> None:
    start, stop = OF_A[4], OF_A[6]  # queue 1 has OF_A[5] there, its entry 4
    entries = queue(1)
    assert read(log(entries), 0, start, stop) == (OF_A[4:6], [])
    entries[beside] = (entries[beside][0], SIZE + 1, 0)
    found, told = read(log(entries), 0, start, stop)
    assert found == [place for place in PLACES if start <= place < stop]
    assert len(told) == 1


def test_the_log_is_walked_where_the_topic_has_much_of_it_or_a_checked_body_is_wrong(
    monkeypatch,
) -> None:
    whole = [place for place in PLACES if place < SEGMENT]
    few = len([place for place in OF_A if place < SEGMENT])
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", SEGMENT // few)
    assert read(log()) == (OF_A[:few], [])
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", SEGMENT // few + 1)
    found, (told,) = read(log())
    assert (found, f"{few} records of the topic" in told) == (whole, True)
    for check in (False, True):
        made = log(check_body=check, on_damage="skip")
        files = made.storage.files
        raw = bytearray(files["log/0"])
        raw[OF_A[1] + 90] ^= 1
        files["log/0"] = bytes(raw)
        found, told = read(made)
        assert ([place for place in found if place in OF_A], len(told)) == (
            [place for place in OF_A if place < SEGMENT and not (check and place == OF_A[1])],
            2 * check,
        )
