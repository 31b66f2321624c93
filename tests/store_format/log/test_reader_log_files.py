"""A plan's segments read as a writer reads its own: one file at a time, zeros behind its end."""

import numpy as np
import pytest

from reput.store_format.files.protocol import FileState
from reput.store_format.log.reader import LogBytes, SegmentFiles
from reput.store_format.log.segments import Segment
from tests.memory_storage import WatchedStorage

SIZE = 100
WHOLE, SHORT = bytes(range(100)), b"\7" * 30


def counting() -> WatchedStorage:
    return WatchedStorage({"a/x": WHOLE, "b/y": SHORT})


def files(storage: WatchedStorage) -> SegmentFiles:
    """Segments in two folders, of which the last is not whole."""
    lengths = {"a/x": len(WHOLE), "b/y": len(SHORT)}
    segments = [Segment(path, SIZE * n, FileState(lengths[path], 0, 0))
                for n, path in enumerate(lengths)]  # fmt: skip
    return SegmentFiles(storage, segments, SIZE)


def test_segments_have_a_log_s_names_wherever_they_are() -> None:
    found = files(counting())
    assert found.names("commitlog") == [f"{0:020d}", f"{SIZE:020d}"]
    assert found.names("consumequeue") == []


@pytest.mark.parametrize(
    ("at", "raw"),
    [(0, b"\7\7\7\7"), (26, b"\7\7\7\7"), (28, b"\7\7\0\0"), (30, bytes(4)), (96, bytes(4))],
)
def test_behind_a_file_s_end_there_are_zeros(at: int, raw: bytes) -> None:
    file = files(counting()).open_read(f"commitlog/{SIZE:020d}")
    buffer = np.full(4, 9, np.uint8)
    file.read_at(at, buffer)
    assert (buffer.tobytes(), file.length()) == (raw, SIZE)


def test_bytes_are_read_by_physical_offset_with_one_file_open() -> None:
    storage = counting()
    log = LogBytes(files(storage), SIZE)
    buffer = np.zeros(2, np.uint8)
    read = []
    for at in (0, 98, 100, 128, 2):
        log.read(at, buffer)
        read.append(buffer.tolist())
        assert storage.open_now == 1
    assert read == [[0, 1], [98, 99], [7, 7], [7, 7], [2, 3]]
    assert storage.opened == ["a/x", "b/y", "a/x"]
    log.close()
    log.close()
    assert storage.open_now == 0
