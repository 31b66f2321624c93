"""Windows that are judged on all cores come in the log's order, and none is written over."""

from __future__ import annotations

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

from reput.store_format.files.local import LocalStorage
from reput.store_format.log.reader import LogReader, NoRecord
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import commit_log_folders, list_segments
from reput.store_format.log.walk import Step
from reput.store_format.query.all_cores import judged_steps
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import settings_from
from tests.logs import Message, build_log
from tests.processes import ROOT
from tests.trees import flip

SEGMENT = 1 << 16


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogReader]:
    """Many windows: of 4 KiB, some records longer than that, and three segments."""
    draw = random.Random(3)
    lengths = [9000 if n % 40 == 7 else n % 300 for n in range(500)]
    messages = [
        Message(topic=f"T{n % 3}", queue_offset=n, body=draw.randbytes(length))
        for n, length in enumerate(lengths)
    ]
    (tmp_path / "commitlog").mkdir()
    for start, raw in build_log(messages, SEGMENT, 0).items():
        (tmp_path / "commitlog" / f"{start:020d}").write_bytes(raw)
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
