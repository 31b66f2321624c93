"""All index files of a store: which can be trusted, when they are published, what is put twice."""

import struct
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from reput.broker.writer.index_writer import IndexWriter
from reput.jobs.recover import recover
from reput.jobs.verify import verify
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from tests.broker.writer.index_files import ENTRIES, NAMES, T0, holding, index_file, puts, sizes
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.faults.memory_files import MemoryFiles
from tests.in_process import Session
from tests.trees import contents

STAGED = ".reput-index"
A = [(1, 100, 0, 0), (2, 100, 0, 0), (3, 200, 0, 0), (4, 200, 0, 0)]
FULL = index_file((T0, T0 + 5, 100, 200, 4, ENTRIES), (4, 1, 2, 3), A)


def part(end: int = 300, mark: bool = False) -> bytes:
    """A file with one entry, of the message at 300, which was stored at T0 + 9."""
    return index_file((T0 + 9, T0 + 9, 300, end + mark, 1, 2), (0, 1, 0, 0), [(5, 300, 0, 0)])


class Written:
    """A writer of index files, and the times up to which it vouched for messages."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files, self.vouched = files, list[int]()
        self.index = IndexWriter(files, profile("5.3.3"), sizes(), lambda: T0, self.vouched.append)

    def load(self, safe: int | None = None, log_end: int = 1000) -> IndexWriter:
        self.index.load(safe, log_end)
        return self.index

    def published(self) -> list[tuple[str, int, int]]:
        """(name, indexCount, endPhyOffset) of the files in index/."""
        return [(path.rpartition("/")[2], *struct.unpack_from(">i", raw, 36),
                 *struct.unpack_from(">q", raw, 24)) for path,
                raw in sorted(self.files.tree().items()) if path.startswith("index/")]  # fmt: skip


def test_which_files_can_be_trusted() -> None:
    """After a crash: `safe` is the checkpoint's indexMsgTimestamp."""
    for safe, files, to, whole in [
        (None, (FULL, part()), 300, False),  # a clean stop: all are trusted
        (T0 + 9, (FULL, part()), 200, False),  # the last is neither full nor marked
        (T0 + 9, (FULL, part(mark=True)), 300, True),
        (T0 + 8, (FULL, part(mark=True)), 200, False),  # a broker deletes it when it loads
        (T0 + 4, (FULL, part(mark=True)), -1, False),
        (T0 + 9, (part(1000),), -1, False),
    ]:
        written = Written(holding(*files))
        index = written.load(safe)
        assert (index.indexed_to, index.whole) == (to, whole)
        assert len(written.files.names("index")) == len(files)  # nothing is changed yet
    for end, to in ((301, 300), (300, 200), (200, -1)):
        assert Written(holding(FULL, part())).load(None, end).indexed_to == to
    gone = Written(holding(FULL))
    gone.load(None, 150).publish_changes()
    assert gone.published() == []


def test_a_replay_adds_no_key_twice_and_need_not_index_what_is_published() -> None:
    """Of message 300 there is one key of three."""
    files = holding(FULL, part())
    index = Written(files).load()
    every = [*((place, T0, n) for n, place in enumerate((100, 100, 200, 200))), (300, T0 + 9, 5),
             (300, T0 + 9, 6), (300, T0 + 9, 7), (400, T0 + 9, 8)]  # fmt: skip
    index.append_new(puts(*every))
    index.append_new(puts(*every))
    keys = [struct.unpack_from(">i", files.tree()[f"index/{NAMES[1]}"],
                               76 + 20 * n)[0] for n in range(4)]  # fmt: skip
    assert keys == [5, 6, 7, 8]
    assert index.indexed_to == 400
    assert np.frombuffer(files.tree()[f"index/{NAMES[0]}"], np.uint8).tobytes() == FULL
    written = Written(holding(FULL))
    index = written.load()
    assert index.covered((T0 + 99, 999)) == (T0 + 99, 999)  # type: ignore[arg-type]
    index.append(puts((300, T0 + 7, 1)))
    assert index.covered((T0 + 99, 999)) == (T0 + 5, 200)  # type: ignore[arg-type]
    assert index.covered((T0 + 1, 100)) == (T0 + 1, 100)  # type: ignore[arg-type]
    index.publish()
    assert index.covered((T0 + 99, 999)) == (T0 + 99, 999)  # type: ignore[arg-type]


def test_a_store_that_was_closed_cleanly_is_marked_before_abort_is_there() -> None:
    written = Written(holding(FULL, part()))
    written.files.make_folder(STAGED)
    index = written.load()
    index.protect()
    assert not written.files.exists(STAGED)
    assert written.published()[-1] == (NAMES[1], 2, 301)
    assert written.vouched == [T0 + 9]
    index.settle()
    assert written.published() == [(NAMES[0], 5, 200), (NAMES[1], 2, 300)]
    full = Written(holding(FULL))
    full.load().protect()  # a further file holds the mark
    assert full.published() == [(NAMES[0], 5, 200), (NAMES[1], 0, 201)]


def test_files_that_a_broker_deletes_are_gone_for_good_before_their_time_is_vouched_for() -> None:
    """Behind indexMsgTimestamp it would keep them, beside what has their keys again."""
    written = Written(holding(FULL, part(mark=True)))
    index, seen = written.load(T0 + 8), list[tuple[list[str], str]]()
    index._vouch = lambda _: seen.append((written.files.names("index"), written.files.ops[-1].path))
    index.append_new(puts((300, T0 + 9, 5)))
    index.publish()
    assert seen == [(NAMES[:1], "index")]  # the last step was to sync it
    assert [op.kind for op in written.files.ops if op.path == "index"][-1] == "sync folder"


# --- A kill after `abort` has gone leaves a clean store with the mark: no command minds it.
SETTINGS = {name: str(size) for name, size in TINY.items()}


def fill(store: Path, messages: int, **named: object) -> None:
    clock = Clock()
    with open_writer(store, clock, **named) as writer:
        for number in range(messages):
            clock.now += 1000
            writer.append(Message("T", b"x" * number, 1, keys=f"k{number}", unique_key=f"{number}"))


@pytest.mark.parametrize("keyed", [3, 10, 11])  # a part of a file; some full ones and a part
@pytest.mark.parametrize("entries", [20, 21])  # maxIndexNum: a file becomes full at a message's end
def test_a_kill_leaves_an_index_that_is_behind_at_most(tmp_path, keyed, entries) -> None:
    store = tmp_path / "store"
    with mock.patch.object(IndexWriter, "settle"):
        fill(store, keyed, maxIndexNum=entries)
    assert not (store / "abort").exists()
    settings = SETTINGS | {"maxIndexNum": str(entries)}
    report = verify(Session(), str(store), rocketmq="5.3.3", settings=settings)
    assert not report.differences
    assert not report.behind
    found = recover(
        Session(), str(store), rocketmq="5.3.3", settings=settings, dry_run=True)  # fmt: skip
    assert not found.written
    assert not found.removed
    # the next open and close leave what a clean stop does
    open_writer(store, maxIndexNum=entries).close()
    fill(tmp_path / "clean", keyed, maxIndexNum=entries)
    there, wanted = (list(contents(s).values()) for s in (store, tmp_path / "clean"))
    assert len(there) == len(wanted)
    index = [n for n, name in enumerate(sorted(contents(store))) if name.startswith("index/")]
    assert [there[n] for n in index] == [wanted[n] for n in index]
    writer = open_writer(store, Clock(1_800_000_000_000), maxIndexNum=entries)
    writer.append(Message("T", b"later", 1, keys="later"))
    writer.abandon()
    assert not verify(Session(), str(store), rocketmq="5.3.3", settings=settings).differences
    recover(Session(), str(store), rocketmq="5.3.3", settings=settings)
    report = verify(Session(), str(store), rocketmq="5.3.3", settings=settings)
    assert not report.differences
    assert not report.behind
