"""ConsumeQueues as they grow, and as an open finds them: positions, files, what is cut off."""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from reput.broker.writer import queue_writer
from reput.broker.writer.queue_writer import QueueState, QueueWriter
from reput.store_format.dispatch.runs import QueueRuns, group_by_queue
from reput.store_format.dispatch.scan import NamedQueue, place_rules
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import Files
from reput.store_format.layouts import QUEUE_PUT
from reput.store_format.release.profiles import profile
from tests.broker.writer.stores import settings
from tests.faults.failing import same_again
from tests.faults.killing import lengths_at_each_kill
from tests.faults.memory_files import MemoryFiles, crash_states

ENTRY = struct.Struct(">qiq")
BLANK = ENTRY.pack(0, 0x7FFFFFFF, 0)
FILE = 80  # bytes: four entries
Q = NamedQueue("T", 0, False)
FOLDER = "consumequeue/T/0"


class Put(NamedTuple):
    """A message by its physical offset and its queueOffset; its record has 10 bytes."""

    place: int
    offset: int


def runs(*puts: Put) -> QueueRuns:
    rows = [(put.place, put.offset, put.place, 0, 10, 0, 1, 0) for put in puts]
    return group_by_queue(np.array(rows, QUEUE_PUT), np.zeros(1, np.int64), np.zeros(1, np.bool_))


def in_order(first: int, count: int, offset: int = 0) -> list[Put]:
    return [Put(100 + 10 * n, offset + n - first) for n in range(first, first + count)]


def entry(put: Put) -> bytes:
    return ENTRY.pack(put.place, 10, put.place)


def writer(files: Files, release: str = "5.3.3", writes: bool = True,
           file: int = FILE) -> QueueWriter:  # fmt: skip
    given = settings(mappedFileSizeConsumeQueue=file)
    return QueueWriter(files, given, place_rules(profile(release)), writes)


def opened(files: MemoryFiles, cut: int, writes: bool = True, file: int = FILE) -> QueueWriter:
    found = writer(files, writes=writes, file=file)
    found.load(cut, cut)
    found.cut_off()
    return found


def content(files: MemoryFiles) -> dict[int, bytes]:
    """The queue's files by their names, without the zeros at the end."""
    tree = files.tree()
    assert all(len(raw) == FILE for raw in tree.values())
    return {int(path.rpartition("/")[2]): raw.rstrip(b"\0") for path, raw in tree.items()}


def packed(*puts: Put) -> bytes:
    return b"".join(map(entry, puts)).rstrip(b"\0")


def test_a_file_has_its_length_at_each_kill_and_is_durable_after_a_sync(
    tmp_path: Path, monkeypatch
) -> None:
    """MappedFileQueue.load refuses an empty one before 5.1.3."""
    more = runs(*in_order(0, 6))
    work = lambda root: writer(DiskFiles(root)).append([Q], more)  # noqa: E731
    assert lengths_at_each_kill(tmp_path, work) == {FILE}
    monkeypatch.setattr(queue_writer, "_OPEN_FILES", 1)
    files = MemoryFiles()
    queues = writer(files)
    queues.append([Q], runs(*in_order(0, 9)))
    queues.sync()
    *_, lost = crash_states(MemoryFiles(), files.ops, 1, 0)
    assert (lost.how, lost.files.tree()) == ("names only", files.tree())


def test_what_a_queue_holds_already_is_not_appended_again() -> None:
    files, puts = MemoryFiles(), in_order(0, 6)
    writer(files).append([Q], runs(*puts[:3]))
    queues = opened(files, 1000)
    queues.append([Q], runs(*puts[:2]))
    assert queues.states == {Q: QueueState(3, 130)}
    queues.append([Q], runs(*puts[1:5]))
    assert content(files) == {0: packed(*puts[:4]), FILE: packed(puts[4])}
    queues.ignored = frozenset({Q})
    queues.append([Q], runs(puts[5]))
    assert queues.states[Q].position == 5


def test_entries_of_records_from_the_cut_on_are_removed() -> None:
    for cut, left in [(1000, 6), (151, 6), (150, 5), (141, 5), (140, 4), (111, 2), (110, 1)]:
        files, puts = MemoryFiles(), in_order(0, 6)
        writer(files).append([Q], runs(*puts))
        queues = opened(files, cut)
        assert queues.states == {Q: QueueState(left, 100 + 10 * left)}
        expected = {0: packed(*puts[:left][:4])}
        assert content(files) == expected | ({FILE: packed(*puts[4:left])} if left > 4 else {})
    files = MemoryFiles()
    writer(files).append([Q], runs(Put(100, 2), Put(110, 3)))
    assert opened(files, 100, writes=False).states == {}
    assert content(files) == {0: (BLANK * 2 + packed(Put(100, 2), Put(110, 3))).rstrip(b"\0")}
    assert opened(files, 100).states == {}  # what fills it up to its first entry is none
    assert files.names(FOLDER) == []
    files, puts = MemoryFiles(), in_order(0, 3)
    writer(files).append([Q], runs(*puts))
    file = files.open(f"{FOLDER}/{0:020d}")
    file.write_at(60, ENTRY.pack(50, 0, 7))  # an offset in the log, but no size
    file.set_length(75)
    queues = opened(files, 1000)
    assert queues.states == {Q: QueueState(3, 130)}
    assert content(files) == {0: packed(*puts)}
    queues.append([Q], runs(Put(130, 3)))
    assert content(files) == {0: packed(*puts, Put(130, 3))}


@pytest.mark.parametrize(("left", "length"), [
    (0, 2100), (102, 2100), (102, 2090), (105, 2100), (110, 2100)])  # fmt: skip
def test_a_power_cut_while_entries_are_cut_off_leaves_what_the_next_open_cuts(left, length) -> None:
    """Entry 102 has its offset in one sector, its size in another. In the end all is durable."""
    files = MemoryFiles()
    writer(files, file=2100).append([Q], runs(*in_order(0, 207)))
    for start in (0, 2100):
        files.open(f"{FOLDER}/{start:020d}").set_length(length)
    before = same_again(files)
    files.ops.clear()
    cut, wanted = 100 + 10 * left, {Q: QueueState(left, 100 + 10 * left)} if left else {}
    opened(files, cut, file=2100)
    for crash in crash_states(before, files.ops, 1, 30):
        where = (crash.after, crash.how)
        assert crash.after < len(files.ops) or crash.files.tree() == files.tree(), where
        assert opened(crash.files, cut, file=2100).states == wanted, where
        assert crash.files.tree() == files.tree(), where


def test_a_name_or_folder_of_no_queue_file_is_passed_over_and_a_link_refused(tmp_path) -> None:
    files = MemoryFiles()
    for folder in ("consumequeue/T/x", "consumequeue/T/01"):
        files.make_folder(folder)
        files.create(f"{folder}/name")
    assert opened(files, 1000).states == {}
    files.make_folder(FOLDER)
    files.create(f"{FOLDER}/name")
    assert opened(files, 1000).states == {}
    assert files.names(FOLDER) == ["name"]
    files = DiskFiles(str(tmp_path))
    (tmp_path / FOLDER / f"{FILE:020d}").mkdir(parents=True)
    (tmp_path / FOLDER / f"{0:020d}").write_bytes(packed(*in_order(0, 2)).ljust(FILE, b"\0"))
    found = writer(files)
    found.load(200, 200)
    assert found.states[Q].position == 2
    (tmp_path / FOLDER / f"{2 * FILE:020d}").symlink_to("nowhere")
    with pytest.raises(StoreError, match="is a link"):
        writer(files).load(200, 200)
