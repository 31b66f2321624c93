"""The folder index/: what its headers say, the mark, and a change in one step."""

import errno
import shutil

import numpy as np
import pytest

from reput.broker.writer.index_folder import GrowingIndex, Header, IndexFolder
from reput.store_format.derived.index_file import NO_MESSAGE, IndexedMessage
from reput.store_format.faults import StoreError
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from tests.broker.writer.index_files import (
    LENGTH,
    NAMES,
    SLOTS,
    T0,
    holding,
    index_file,
    puts,
    sizes,
)
from tests.broker.writer.stores import open_writer
from tests.faults.failing import same_again
from tests.faults.memory_files import MemoryFiles, crash_states
from tests.trees import contents

STAGED = ".reput-index"
ENTRIES = [(5, 100, 0, 0), (9, 200, 0, 1)]


def full(end: int = 200) -> bytes:
    return index_file((T0, T0 + 5, 100, end, 1, 3), (0, 2, 0, 0), ENTRIES)


def headers(*contents: bytes) -> list[Header]:
    return IndexFolder(holding(*contents), SLOTS).headers()


def test_a_header_is_read_and_the_mark_is_taken_from_it() -> None:
    begin, end = IndexedMessage(T0, 100), IndexedMessage(T0 + 5, 200)
    for raw, marked in ((full(), False), (full(201), True)):
        assert headers(raw) == [Header(NAMES[0], begin, end, 1, 3, marked)]
    ((_, _, other, _, _, marked),) = headers(full(202))
    assert (other.physical_offset, marked) == (202, False)
    assert IndexFolder(MemoryFiles(), SLOTS).headers() == []
    for end, marked in ((200, False), (201, True)):
        _, last = headers(full(), index_file((T0, T0, 200, end, 0, 1)))
        assert (last.end.physical_offset, last.marked) == (200, marked)
    (alone,) = headers(index_file((0, 0, 0, 0, 0, 1)))
    assert not alone.marked
    for raw in [b"", b"x" * 39, full()[:40], full()[: 40 + 16 + 59]]:
        (found,) = headers(raw)
        assert not found.marked
        assert found.next_entry == (3 if len(raw) >= 40 else 0)
    files = holding(full())
    before = IndexFolder(files, SLOTS).headers()
    files.create("index/other")
    assert IndexFolder(files, SLOTS).headers() == before
    assert "other" in files.names("index")


@pytest.mark.parametrize("exchanges", [True, False])
def test_what_is_published_replaces_the_folder_in_one_step(exchanges: bool) -> None:
    files = same_again(holding(b"keep", b"gone"))
    files.error, start = errno.EINVAL, same_again(files)
    files.fail = lambda op: not exchanges and op.kind == "exchange"
    folder = IndexFolder(files, SLOTS)
    file = folder.create_staged(NAMES[2], 7)
    file.write_at(0, b"new")
    file.sync()
    seen = []

    def before() -> None:
        seen.append((files.names("index"), files.names(STAGED)))

    folder.publish([NAMES[0]], [NAMES[2]], before)
    assert seen == [(NAMES[:2], [NAMES[0], NAMES[2]])]
    wanted = {f"index/{NAMES[0]}": b"keep", f"index/{NAMES[2]}": b"new\0\0\0\0"}
    assert files.tree() == wanted
    assert not files.exists(STAGED)
    ends = crash_states(start, files.ops, 1, 9, every=len(files.ops))
    for crash in [each for each in ends if each.after]:
        there = {path: raw for path, raw in crash.files.tree().items() if path[0] == "i"}
        assert there == wanted, crash.how


def test_an_error_that_is_no_inability_to_exchange_is_raised() -> None:
    files = holding(b"keep")
    files.fail = lambda op: op.kind == "exchange"  # EIO
    folder = IndexFolder(files, SLOTS)
    folder.create_staged(NAMES[2], 7)
    with pytest.raises(OSError, match="exchange"):
        folder.publish([NAMES[0]], [NAMES[2]], lambda: None)
    assert files.names("index") == NAMES[:1]


@pytest.mark.parametrize("name", ["other", "20231114221320", NAMES[0] + "0", "20231314221320000"])
def test_a_folder_that_is_none_of_a_writers_is_left(name: str) -> None:
    files = MemoryFiles()
    folder = IndexFolder(files, SLOTS)
    folder.remove_staged()
    folder.create_staged(NAMES[1], LENGTH)
    files.create(f"{STAGED}/{name}")
    with pytest.raises(StoreError, match="left as it is"):
        folder.remove_staged()
    assert len(files.names(STAGED)) == 2
    a_file = MemoryFiles()
    a_file.create(STAGED)
    with pytest.raises(StoreError, match="not a folder"):
        IndexFolder(a_file, SLOTS).remove_staged()


def test_a_header_is_written_over_and_files_go_from_the_last() -> None:
    files = holding(full(), b"b", b"c")
    folder = IndexFolder(files, SLOTS)
    folder.write_header(NAMES[0], full(201)[:40])
    assert files.tree()[f"index/{NAMES[0]}"] == full(201)
    assert folder.read(NAMES[0], 40, 16).tobytes() == np.array([0, 2, 0, 0], ">i4").tobytes()
    files.ops.clear()
    folder.remove(NAMES[1:3])
    assert [op.path for op in files.ops] == [f"index/{NAMES[2]}", f"index/{NAMES[1]}", "index"]
    folder.remove([])
    assert len(files.ops) == 3


@pytest.mark.parametrize("made", [lambda index, to: index.symlink_to(to), lambda index,
                                  _: index.touch()], ids=["link", "file"])  # fmt: skip
def test_a_store_whose_index_is_a_link_is_left_as_it_is(made, tmp_path) -> None:
    """What grows beside it takes the place of `index/` itself, not of what a link leads to."""
    for name in ("own", "other"):
        with open_writer(tmp_path / name) as writer:
            writer.append(Message("T", b"x", keys="k"))
    index = tmp_path / "own" / "index"
    shutil.rmtree(index)
    made(index, tmp_path / "other" / "index")
    before = contents(tmp_path)
    with pytest.raises(StoreError, match="index: is"):
        open_writer(tmp_path / "own")
    assert contents(tmp_path) == before


# --- The index file that grows, as IndexFile.putKey makes it; whole ones: test_copies.py.
GROWING_ENTRIES = [(5, 100, 0, 0), (9, 100, 0, 1), (6, 200, 1, 0)]


def taken_up(files: MemoryFiles, ended: IndexedMessage) -> GrowingIndex:
    index = GrowingIndex(IndexFolder(files, SLOTS), profile("5.3.3"), sizes())
    (header,) = IndexFolder(files, SLOTS).headers()
    index.take_up(header, ended)
    return index


def test_a_file_that_is_taken_up_is_copied_and_goes_on_unless_it_is_full() -> None:
    """A slot's value that is no entry's number counts as 0."""
    for bad in [0, 5, -5, (1 << 31) - 1]:
        files = holding(index_file((T0, T0, 100, 100, 2, 3), (bad, 2, 0, 0), GROWING_ENTRIES[:2]))
        index = taken_up(files, NO_MESSAGE)
        assert not index.is_staged
        index.append(puts((200, T0 + 1999, 6), (300, T0 + 3000, 8)))
        index.finish(False)
        assert files.tree()[f"{STAGED}/{index.name}"] == index_file(
            (T0, T0 + 3000, 100, 300, 4, 5), (4, 2, 3, 0), [
                *GROWING_ENTRIES[:2], (6, 200, 1, 0), (8, 300, 3, 0)])  # fmt: skip
        assert index.room == 0
    raw = index_file((T0, T0, 100, 100, 1, 5), (0, 4, 0, 0), [(1, 100, 0, n) for n in range(4)])
    files = holding(raw)
    index = taken_up(files, IndexedMessage(5, 6))
    assert (index.room, index.ended, index.wanted) == (0, (T0, 100), True)
    index.close()
    assert files.tree() == {f"index/{NAMES[0]}": raw}
