"""Ranges of a log's files by physical offsets; a file stays open as long as something needs it."""

import weakref

import numpy as np
import pytest

from reput.broker.serving.store import LogFiles
from reput.store_format.faults import StoreChanged
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import InputStorage
from reput.store_format.log.reader import NotInLog
from reput.store_format.log.segments import Segment
from tests.memory_storage import MemoryStorage

START = 100  # of the first segment: earlier ones have expired
CONTENTS = (b"abcdefghij", b"klmnopqrst")


def segments(storage: InputStorage, folder: str = "log") -> list[Segment]:
    found = [(each.name, each.state) for each in storage.list(folder)]
    return [
        Segment(f"{folder}/{name}", int(name), state) for name, state in found if state is not None
    ]


def in_memory() -> tuple[MemoryStorage, LogFiles]:
    names = [f"log/{START + 10 * n:020d}" for n in range(2)]
    storage = MemoryStorage(dict(zip(names, CONTENTS, strict=True)))
    return storage, LogFiles(storage, segments(storage))


@pytest.mark.parametrize(
    ("place", "length", "content"),
    [(100, 10, CONTENTS[0]), (109, 1, b"j"), (110, 1, b"k"), (115, 5, b"pqrst"), (104, 0, b"")],
)
def test_a_range_is_of_one_segment(place: int, length: int, content: bytes) -> None:
    assert in_memory()[1].range(place, length).read() == content


@pytest.mark.parametrize(
    ("place", "length"), [(99, 1), (0, 1), (-1, 1), (109, 2), (119, 2), (120, 1), (1 << 40, 1)]
)
def test_what_no_segment_has_whole_is_not_in_the_log(place: int, length: int) -> None:
    with pytest.raises(NotInLog):
        in_memory()[1].range(place, length)


def test_a_segment_is_read_into_a_buffer_by_its_number() -> None:
    _, files = in_memory()
    buffer = np.zeros(3, np.uint8)
    files.read(1, 112, buffer)
    assert buffer.tobytes() == b"mno"
    assert files.starts.tolist() == [100, 110]
    assert files.ends.tolist() == [110, 120]


def test_after_another_look_new_segments_are_read_and_gone_ones_are_not() -> None:
    storage, files = in_memory()
    kept = files.range(110, 10)
    old = files.range(100, 10)
    storage.files[f"log/{120:020d}"] = b"uvw"
    storage.remove(f"log/{100:020d}")
    files.relist(segments(storage))
    with pytest.raises(NotInLog):
        files.range(100, 1)
    assert files.range(120, 3).read() == b"uvw"
    assert files.range(112, 1).file is kept.file
    assert old.read() == CONTENTS[0]  # an answer that is still being sent


def test_a_file_of_this_machine_can_be_sent_and_is_closed_when_nothing_needs_it(tmp_path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(CONTENTS[0])
    storage = LocalStorage()
    files = LogFiles(storage, segments(storage, str(tmp_path)))
    sent = files.range(2, 3)
    assert sent.file.descriptor is not None
    assert sent.read() == b"cde"
    (tmp_path / f"{0:020d}").write_bytes(b"ab")
    with pytest.raises(StoreChanged):
        sent.read()
    closed = weakref.ref(sent.file)
    files.relist([])
    assert closed() is not None
    del sent
    assert closed() is None
    assert in_memory()[1].range(100, 1).file.descriptor is None
