"""A kill after `abort` has gone leaves a clean store with the mark: no command minds it."""

import shutil
from pathlib import Path
from unittest import mock

import pytest

from reput.broker.writer.index_writer import IndexWriter
from reput.jobs.recover import recover
from reput.jobs.verify import verify
from reput.store_format.message.message import Message
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.in_process import Session
from tests.trees import contents

SETTINGS = {name: str(size) for name, size in TINY.items()}


def fill(store: Path, messages: int, **named: object) -> None:
    clock = Clock()
    with open_writer(store, clock, **named) as writer:
        for number in range(messages):
            clock.now += 1000
            writer.append(Message("T", b"x" * number, 1, keys=f"k{number}", unique_key=f"{number}"))


@pytest.mark.parametrize("keyed", [3, 10, 11])  # a part of a file; some full ones and a part
@pytest.mark.parametrize("entries", [20, 21])  # maxIndexNum: a file becomes full at a message's end
def test_a_kill_before_the_mark_is_taken_off(tmp_path: Path, keyed: int, entries: int) -> None:
    store = tmp_path / "store"
    with mock.patch.object(IndexWriter, "settle"):
        fill(store, keyed, maxIndexNum=entries)
    assert not (store / "abort").exists()
    settings = SETTINGS | {"maxIndexNum": str(entries)}
    report = verify(Session(), str(store), rocketmq="5.3.3", settings=settings)
    assert not report.differences
    assert not report.behind
    found = recover(
        Session(), str(store), rocketmq="5.3.3", settings=settings, dry_run=True,
    )  # fmt: skip
    assert not found.written
    assert not found.removed
    # the next open and close leave what a clean stop does
    open_writer(store, maxIndexNum=entries).close()
    fill(tmp_path / "clean", keyed, maxIndexNum=entries)
    there, wanted = (list(contents(s).values()) for s in (store, tmp_path / "clean"))
    assert len(there) == len(wanted)
    index = [n for n, name in enumerate(sorted(contents(store))) if name.startswith("index/")]
    assert [there[n] for n in index] == [wanted[n] for n in index]


@pytest.mark.parametrize("entries", [20, 21])
@pytest.mark.parametrize("keyed", [3, 10, 11])
def test_a_killed_writers_store_is_behind_and_not_wrong(tmp_path, keyed: int, entries: int) -> None:
    store = tmp_path / "store"
    fill(store, keyed, maxIndexNum=entries)
    writer = open_writer(store, Clock(1_800_000_000_000), maxIndexNum=entries)
    writer.append(Message("T", b"later", 1, keys="later"))
    writer.abandon()
    settings = SETTINGS | {"maxIndexNum": str(entries)}
    report = verify(Session(), str(store), rocketmq="5.3.3", settings=settings)
    assert not report.differences
    recover(Session(), str(store), rocketmq="5.3.3", settings=settings)
    report = verify(Session(), str(store), rocketmq="5.3.3", settings=settings)
    assert not report.differences
    assert not report.behind
    shutil.rmtree(store)
