"""A small repository of three runs, for tests of what reads it."""

import json
from pathlib import Path

import pytest

from tests.built import SIZES, T0, Built
from tests.reference.repository import Repository, records

SEGMENT = SIZES["mappedFileSizeCommitLog"]
COUNTS = (9, 20, 70)  # messages of each run, a second apart
TIMES = (T0 + 9_500, T0 + 20_500, T0 + 70_500)  # of the runs
TOPICS = {"T": {"topicName": "T", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}}


def log_of(built: Built) -> bytes:
    """The log's bytes, from its first segment on."""
    return b"".join(raw.ljust(SEGMENT, b"\0") for raw in built.log().segments.values())


def messages(count: int) -> Built:
    return Built().put(count=count, keys="k")


def state(offset: int) -> dict[str, bytes]:
    """What the log does not decide: a group of that offset."""
    return {"config/topics.json": json.dumps({"topicConfigTable": TOPICS}).encode(),
            "config/consumerOffset.json": b'{"offsetTable":{"T@g":{0:%d}}}' % offset}  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Repository:
    """A group's offset is two messages before the end of each run."""
    repository = Repository(tmp_path / "repo", settings=SIZES)
    for count, time in zip(COUNTS, TIMES, strict=True):
        repository.run(log_of(messages(count)), time, state=state(count - 2))
    return repository


def ends() -> list[int]:
    """Where each message ends."""
    there = records(log_of(messages(COUNTS[-1])), 0, SEGMENT)
    return [place + size for place, size, time in there if time >= 0]
