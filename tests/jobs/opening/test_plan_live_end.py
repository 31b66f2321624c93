"""A store is rebuilt while another process appends to it: up to an end that stays as it is."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.plan import LiveEnd, log_end_now, make_plan
from reput.jobs.outputs.report import Summary
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import Discovered, StoreAt
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import StoreChanged
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.files.protocol import Writer
from reput.store_format.files.system import lock_holder
from reput.store_format.log.segments import find_segments
from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer
from tests.in_process import run
from tests.jobs.opening.writing import SEGMENT, SETTINGS, Writing
from tests.rocketmq.judge import difference


class Busy(LocalStorage):
    """The log grows whenever the job opens a segment."""

    def __init__(self, writing: Writing) -> None:
        super().__init__()
        self.writing, self.ends = writing, [0]
        self.planned = -1  # where the log ended as the first task began

    def create(self, path: str, digest: bool = False, published: bool = False) -> Writer:
        if self.planned < 0:
            self.planned = self.ends[-2]  # the task has opened the log once
        return super().create(path, digest, published)

    def open(self, path: str, state: Any = None) -> LocalReader:
        reader = super().open(path, state)
        if "/commitlog/" in path:
            self.ends.append(self.writing.append(7))
        return reader


def rebuild(store: Path, output: Path, **more: Any) -> Summary:
    return run(
        str(store), str(output), rocketmq="5.3.3", settings=SETTINGS, cut=Cut(1 << 14, 2, 2), **more
    )


def test_a_store_in_use_is_rebuilt_up_to_one_end(writing: Writing, tmp_path: Path) -> None:
    writing.append(200)
    end = writing.append(200)
    assert end > SEGMENT
    storage = Busy(writing)
    summary = rebuild(writing.store, tmp_path / "output", storage=storage)
    assert f"is in use, process {writing.process} holds its lock" in summary.warnings[0]
    assert end <= summary.log_end <= storage.planned < storage.ends[-1]
    # the same as of a copy whose log ends there
    copy = tmp_path / "copy"
    shutil.copytree(writing.store / "commitlog", copy / "commitlog")
    for path in (copy / "commitlog").iterdir():
        keep = min(max(summary.log_end - int(path.name), 0), SEGMENT)
        os.truncate(path, keep)
        os.truncate(path, SEGMENT)
    expected = rebuild(copy, tmp_path / "expected")
    assert expected.log_end == summary.log_end
    assert difference(tmp_path / "output", tmp_path / "expected") is None
    assert summary.messages == expected.messages > 400


def test_what_is_full_by_the_time_of_the_end_stays_as_it_was_then(writing: Writing) -> None:
    """It was the last segment when the log was listed, and was written to before the end was."""
    writing.append(100)
    storage = Busy(writing)
    listing = storage.list
    grown: list[int] = []

    def grows(folder: str) -> Any:
        found = listing(folder)
        while folder.endswith("/commitlog") and len(grown) < 4:
            grown.append(writing.append(255))
        return found

    storage.list = grows  # type: ignore[method-assign]
    plan = make_plan(StoreAt(storage, str(writing.store)), Discovered("5.3.3", SETTINGS), LOOK, 2)
    assert plan.splits.limit is not None
    assert plan.splits.limit >= SEGMENT
    for segment in plan.segments:
        reader = LocalStorage().open(segment.path, segment.state)
        reader.close()


def test_a_log_that_grows_without_a_lock_fails(writing: Writing, tmp_path: Path) -> None:
    writing.append(100)
    (writing.store / "lock").unlink()  # as with a release that has none
    with pytest.raises(StoreChanged):
        rebuild(writing.store, tmp_path / "output", storage=Busy(writing))


def test_who_holds_a_lock(writing: Writing, tmp_path: Path) -> None:
    writing.append(1)
    lock = str(writing.store / "lock")
    assert lock_holder(lock) == writing.process
    assert lock_holder(str(tmp_path / "none")) is None
    with open_writer(tmp_path / "ours"):
        assert lock_holder(str(tmp_path / "ours" / "lock")) == os.getpid()
        assert lock_holder(str(tmp_path / "ours" / "lock")) == os.getpid()  # asking lets go of none
    assert lock_holder(str(tmp_path / "ours" / "lock")) is None


class Unveiling(LocalStorage):
    """The last record's end is there only from the third look on, as while it is copied in."""

    def __init__(self, segment: Path, at: int) -> None:
        super().__init__()
        self.segment, self.at, self.looks = segment, at, 0
        with segment.open("r+b") as file:
            file.seek(at)
            self.rest = file.read(80)
            file.seek(at)
            file.write(bytes(80))

    def open(self, path: str, state: Any = None) -> LocalReader:
        self.looks += 1
        if self.looks == 5:
            with self.segment.open("r+b") as file:
                file.seek(self.at)
                file.write(self.rest)
        return super().open(path, state)


def test_a_record_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    with open_writer(tmp_path, **SETTINGS) as writer:
        for number in range(5):
            writer.append(Message("T", b"b" * 500, keys=f"k{number}"))
        end = writer.log.end
    plan = make_plan(StoreAt(LocalStorage(), str(tmp_path)), Discovered("5.3.3", SETTINGS), LOOK, 2)
    rules = scan_rules(plan.profile, plan.settings, ())
    storage = Unveiling(tmp_path / "commitlog" / f"{0:020d}", end - 400)
    segments = find_segments(storage, [str(tmp_path / "commitlog")], SEGMENT)
    assert log_end_now(storage, segments, rules) == LiveEnd(end, True)
    assert storage.looks >= 5
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(end)
        file.write(b"\x00\x00\x00\x70 no record")
    segments = find_segments(storage, [str(tmp_path / "commitlog")], SEGMENT)
    assert log_end_now(storage, segments, rules) == LiveEnd(end, False)
