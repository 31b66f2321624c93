"""What stands behind a log's end is cut, and kept where that is wanted; nothing before it goes."""

from pathlib import Path

import numpy as np
import pytest

from reput.broker.writer.recovery import LogCutter, segment_path
from reput.store_format.faults import StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.names import COMMIT_LOG
from tests.faults.failing import same_again
from tests.faults.memory_files import MemoryFiles, crash_states

SIZE = 64


def log_of(*segments: bytes) -> tuple[MemoryFiles, list[int]]:
    files = MemoryFiles()
    files.make_folder(COMMIT_LOG)
    starts = [number * SIZE for number in range(len(segments))]
    for start, content in zip(starts, segments, strict=True):
        file = files.create(segment_path(start))
        file.set_length(SIZE)
        file.write_at(0, content)
        file.close()
    return files, starts


def content(files: MemoryFiles, path: str) -> bytes:
    file = files.open_read(path)
    raw = np.empty(file.length(), np.uint8)
    file.read_at(0, raw)
    file.close()
    return raw.tobytes()


def cutter(files: MemoryFiles, starts: list[int], keep: str = "") -> LogCutter:
    return LogCutter(files, starts, SIZE, np.empty(16, np.uint8), keep)  # several windows a segment


@pytest.mark.parametrize("keep", ["", "cut"])
def test_the_rest_is_zero_and_later_segments_go(keep: str) -> None:
    files, starts = log_of(b"a" * SIZE, b"b" * 30, b"\0c\0cc")
    at = cutter(files, starts, keep)
    assert at.to_cut(SIZE + 10) == 25
    assert at.cut(SIZE + 10, False) == 25
    assert starts == [0, SIZE]
    assert content(files, segment_path(0)) == b"a" * SIZE
    assert content(files, segment_path(SIZE)) == b"b" * 10 + bytes(SIZE - 10)
    assert not files.exists(segment_path(2 * SIZE))
    if keep:
        assert content(files, f"{keep}/{SIZE + 10:020d}") == b"b" * 20
        assert content(files, f"{keep}/{2 * SIZE:020d}")[:5] == b"\0c\0cc"
    assert at.to_cut(SIZE + 10) == 0


def test_the_power_may_go_at_any_step_and_no_cut_byte_is_lost() -> None:
    files, starts = log_of(b"a" * SIZE, b"b" * 30, b"c" * 8)
    start = same_again(files)
    files.ops.clear()
    cutter(files, starts, "cut").cut(SIZE + 10, False)
    for crash in crash_states(start, files.ops, 1, 4):
        for byte, count in ((b"a", SIZE), (b"b", 30), (b"c", 8)):
            there = sum(raw.count(byte) for raw in crash.files.tree().values())
            assert there >= count, (crash.after, crash.how, byte)
    moved = next(n for n, op in enumerate(files.ops) if op.kind == "rename")
    synced = [op.path for op in files.ops[moved + 1 :] if op.kind == "sync folder"]
    assert synced[:2] == ["cut", COMMIT_LOG]  # here first, or it could be nowhere


def test_what_is_cut_twice_is_kept_twice() -> None:
    files, starts = log_of(b"a" * 30)
    cutter(files, starts, "cut").cut(20, False)
    file = files.open(segment_path(0))
    file.write_at(20, b"b")
    file.close()
    cutter(files, starts, "cut").cut(20, False)
    assert content(files, f"cut/{20:020d}") == b"a" * 10
    assert content(files, f"cut/{20:020d}.1") == b"b"


def test_behind_a_blank_the_next_segment_stays_if_it_is_the_end() -> None:
    """A prepared segment of zeros behind the end is no harm; the end is in the one before."""
    files, starts = log_of(b"a" * SIZE, b"")
    assert cutter(files, starts).cut(SIZE, True) == 0
    assert starts == [0, SIZE]
    assert content(files, segment_path(0)) == b"a" * SIZE


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "store" / COMMIT_LOG).mkdir(parents=True)
    (tmp_path / "store" / segment_path(0)).write_bytes(b"a" * SIZE)
    (tmp_path / "store" / "cut").symlink_to(tmp_path)
    files = DiskFiles(str(tmp_path / "store"))
    with pytest.raises(StoreError, match="is a link"):
        LogCutter(files, [0], SIZE, np.empty(16, np.uint8), "cut").cut(20, False)
    assert (tmp_path / "store" / segment_path(0)).read_bytes() == b"a" * SIZE
