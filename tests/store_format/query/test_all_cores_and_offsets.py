"""Windows that are judged on all cores come in the log's order, and none is written over."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import commit_log_folders, list_segments
from reput.store_format.log.walk import Step
from reput.store_format.query import offsets
from reput.store_format.query.all_cores import judged_steps
from reput.store_format.query.inventory import QueueRow
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import settings_from
from tests.built import write_log
from tests.logs import Message, build_log
from tests.processes import ROOT
from tests.trees import flip

SEGMENT = 1 << 16


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogReader]:
    """Many windows: of 4 KiB, some records longer than that, and three segments."""
    draw = random.Random(3)
    lengths = [9000 if n % 40 == 7 else n % 300 for n in range(500)]
    messages = [Message(topic=f"T{n % 3}", queue_offset=n, body=draw.randbytes(length))
                for n, length in enumerate(lengths)]  # fmt: skip
    write_log(tmp_path, build_log(messages, SEGMENT))
    storage = LocalStorage()
    storage.window_bytes = 4096
    settings = settings_from({"mappedFileSizeCommitLog": str(SEGMENT)})
    folders = commit_log_folders(str(tmp_path), settings)
    segments = list_segments(storage, folders, SEGMENT).segments
    assert len(segments) > 2
    with closing(LogReader(storage, segments, record_rules(profile(RELEASES[-1])))) as reader:
        yield reader


def topics(step: Step) -> Any:
    """The last byte of each row's topic, after a while that is another for each step."""
    time.sleep(random.random() / 1000)
    return step.window[step.rows["topicAt"] + step.rows["topicLength"] - 1].copy()


def test_steps_come_in_order_and_stay_valid(log: LogReader) -> None:
    wanted = [
        (place, topic)
        for step in log.steps(0)
        for place, topic in zip(step.rows["physicalOffset"].tolist(), topics(step), strict=True)
    ]
    found = []
    for step, judged in judged_steps(log, 0, log.end, topics):
        assert np.array_equal(judged, topics(step))  # the window is still the same
        found += list(zip(step.rows["physicalOffset"].tolist(), judged, strict=True))
    assert found == wanted
    assert len(found) == 500


def test_what_is_raised_comes_after_the_steps_before(log: LogReader) -> None:
    places = [place for step in log.steps(0) for place in step.rows["physicalOffset"].tolist()]
    at = next(place for place in places[200:] if place % SEGMENT)
    path = log.segment_at(at).path
    log.close()
    flip(Path(path), at % SEGMENT + 4)
    storage = log.storage
    segments = list_segments(storage, [str(Path(path).parent)], SEGMENT).segments
    damaged = LogReader(storage, segments, log.rules)
    found: list[int] = []

    def read_all() -> None:
        for step, _ in judged_steps(damaged, 0, log.end, topics):
            found.extend(step.rows["physicalOffset"].tolist())

    with pytest.raises(NoRecord, match=f"physical {at}"):
        read_all()
    assert found == [place for place in places if place < at]

    def refuse(step: Step) -> Any:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        list(judged_steps(log, 0, log.end, refuse))


def test_whoever_stops_early_leaves_no_thread(log: LogReader) -> None:
    before = set(threading.enumerate())
    steps = judged_steps(log, 0, log.end, topics)
    next(steps)
    assert set(threading.enumerate()) - before
    steps.close()
    assert not set(threading.enumerate()) - before


def test_an_answer_that_is_left_half_read_does_not_keep_python_from_ending(log: LogReader) -> None:
    store = Path(log.segments[0].path).parents[1]
    program = (
        "import sys, reput\n"
        f"opened = reput.open_store({str(store)!r})\n"
        "opened._opened.storage.window_bytes = 4096\n"
        "sys.answer = iter(opened.messages(scan=True, where=opened.filter(tags='*')))\n"
        "print(next(sys.answer).queue_offset)\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


# --- Which offsets groups are to have: maps, bounds, and lines that somebody has edited.
# of 10 messages the 4th and 5th are not in the other log, which has 5 others before them
MAP = [offsets.MapRow("T", 0, 2, 5), offsets.MapRow("T", 0, 5, 6),
       offsets.MapRow("T", 0, 10, 11), offsets.MapRow("U", 1, 0, 0)]  # fmt: skip
OFFSETS = {("g", "T"): {0: 4, 1: 9}, ("g", "%RETRY%g"): {0: 1}, ("h", "T"): {0: 2},
           ("CID_RMQ_SYS_TRANS", "RMQ_SYS_TRANS_HALF_TOPIC"): {0: 7}}  # fmt: skip
BOUNDS = [QueueRow("T", number, False, 3, 10, 7, 0, 0, 0) for number in (0, 1, 2)]


@pytest.mark.parametrize(
    ("old", "new"), [(0, 5), (2, 5), (3, 6), (4, 6), (5, 6), (9, 10), (10, 11), (12, 11)]
)
def test_a_position_is_where_its_message_or_the_next_one_is(old: int, new: int) -> None:
    rows = [
        offsets.OffsetRow("g", "T", 0, old),
        offsets.OffsetRow("g", "T", 1, old),
    ]  # the map lacks the second
    assert offsets.rows_mapped(rows, MAP) == [offsets.OffsetRow("g", "T", 0, new)]


def test_positions_of_a_map_ascend_a_clone_has_all_but_retries_and_a_dump_has_lines() -> None:
    for row in (offsets.MapRow("T", 0, 9, 12), offsets.MapRow("T", 0, 11, 10)):
        with pytest.raises(StoreError, match="not an offset map"):
            offsets.rows_mapped([], [*MAP, row])
    rows = offsets.rows_to_clone(OFFSETS, offsets.Chosen(["g"]), "copy")
    assert rows == [offsets.OffsetRow("copy", "T", 0, 4), offsets.OffsetRow("copy", "T", 1, 9)]
    raw = (json.dumps({**GOOD, "more": 1}) + "\n").encode()
    assert offsets.rows_in("d", raw, offsets.OffsetRow) == [offsets.OffsetRow("g", "T", 1, 7)]


def test_none_past_an_end_or_before_a_beginning() -> None:
    rows = [offsets.OffsetRow("g", "T", 0, 99), offsets.OffsetRow("g", "T", 1, 0),
            offsets.OffsetRow("n", "T", 2, 10), offsets.OffsetRow("g", "T", 3, 5)]  # fmt: skip
    moves = offsets.confined(rows, OFFSETS, BOUNDS)
    assert [move[3:] for move in moves] == [(4, 10, 99), (9, 3, 0), (-1, 10, 10), (-1, -1, 5)]
    assert [str(move) for move in moves] == [
        "g  T/0  4 -> 10, where the queue ends, not 99",
        "g  T/1  9 -> 3, where the queue begins, not 0", "n  T/2  none -> 10",
        "g  T/3  none -> none: the store has no such queue",
    ]  # fmt: skip
    made = offsets.with_moves(OFFSETS, moves)
    assert made["g", "T"] == {0: 10, 1: 3}
    assert OFFSETS["g", "T"] == {0: 4, 1: 9}
    back = offsets.moves_between(made, OFFSETS)
    assert [(move.group, move.queue, move.offset) for move in back] == [
        ("g", 0, 4), ("g", 1, 9), ("n", 2, -1),
    ]  # fmt: skip


@pytest.mark.parametrize(("chosen", "queues"), [
    (offsets.Chosen(), {"g": {0, 1, 2}, "h": {0, 1, 2}}), (offsets.Chosen(["g"]), {"g": {0, 1, 2}}),
    (offsets.Chosen(["new"], ["T"], [1]), {"new": {1}}), (offsets.Chosen(["new"]), {}),
    (offsets.Chosen((), ["U"]), {}),
])  # fmt: skip
def test_which_queues_are_set(chosen: offsets.Chosen, queues: dict[str, set[int]]) -> None:
    found: dict[str, set[int]] = {}
    for row in offsets.rows_to_set(OFFSETS, BOUNDS, chosen, lambda queue: queue.max_offset):
        found.setdefault(row.group, set()).add(row.queue)
    assert found == queues


GOOD = {"group": "g", "topic": "T", "queue": 1, "offset": 7}


@pytest.mark.parametrize("wrong", [
    {"offset": -1}, {"offset": 1 << 63}, {"offset": True}, {"offset": 1.5}, {"offset": "7"},
    {"queue": -1}, {"queue": 10**10}, {"group": ""}, {"group": "a@b"}, {"group": "a\n"},
    {"topic": "t" * 256}, {"topic": None}, {"group": ["g"]}, None, [],
])  # fmt: skip
def test_a_line_that_is_none_of_a_dump_is_named(wrong: Any) -> None:
    line = {**GOOD, **wrong} if isinstance(wrong, dict) else wrong
    raw = f"{json.dumps(GOOD)}\n{json.dumps(line)}\n".encode()
    with pytest.raises(StoreError, match=r"^d: line 2: expected .* group, topic, queue and offset"):
        offsets.rows_in("d", raw, offsets.OffsetRow)


@pytest.mark.parametrize("raw", [b"", b"\n", b"\xff", b"[" * 100_000, b'{"topic":"T"}'])
def test_what_is_no_file_of_lines(raw: bytes) -> None:
    with pytest.raises(StoreError, match="line 1: expected"):
        offsets.rows_in("m", raw, offsets.MapRow)
