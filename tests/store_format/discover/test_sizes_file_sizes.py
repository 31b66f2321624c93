"""The sizes that a store's files show by their lengths and names: those that most of them have."""

from collections.abc import Iterable, Mapping

import pytest

from reput.store_format.discover.sizes import (
    BATCH_QUEUE,
    ENTRIES,
    QUEUE,
    SEGMENT,
    SLOTS,
    FileSizes,
    IndexShown,
    NamedFile,
    fitting_sizes,
    queue_size,
    rounded,
    segment_size,
)
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.index_files import IndexFile

USUAL = {SLOTS: 5_000_000, ENTRIES: 20_000_000}
Files = Iterable[tuple[int, int]]  # (start, length)


def named(files: Files) -> list[NamedFile]:
    return [NamedFile(*each) for each in files]


def sizes(files: Mapping[str, bytes]) -> FileSizes:
    storage = MemoryStorage({f"store/{path}": raw for path, raw in files.items()})
    return FileSizes(storage, ["store/commitlog", "store/more"], Folder(storage, "store"))


@pytest.mark.parametrize(
    ("name", "size", "made"),
    [(QUEUE, 100, 100), (QUEUE, 95, 100), (QUEUE, 1, 20), (BATCH_QUEUE, 95, 95), (SEGMENT, 95, 95)],
)
def test_a_broker_makes_queue_files_of_whole_entries(name: str, size: int, made: int) -> None:
    assert rounded(name, size) == made


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ([(0, 4096), (4096, 4096), (8192, 100)], 4096),
        ([(8192, 50), (0, 4096)], 8192),  # of as many votes the largest: the names'
        ([(0, 0)], None),
        ([(0, 127), (127, 127)], None),  # less than a broker makes
        ([(0, 128), (128, 128)], 128),
        ([(0, 0x7FFFFC00)], 0x7FFFFC00),
        ([(0, 0x80000000)], None),  # no Java int
        ([(0, 1024)], 1024),
        ([(0, 1023)], None),
        ([(512, 1024)], None),
        ([(0, 1024), (1025, 1024), (2048, 1024)], 1024),  # what nearly all are long
        ([(0, 1024), (1025, 1024)], 1024),
        ([(1, 1024), (1025, 1024), (2048, 1024)], None),
    ],
)
def test_segments(files: Files, size: int | None) -> None:
    found = segment_size(named(files))
    assert (None if found is None else found.value) == size


@pytest.mark.parametrize(
    ("files", "able"),
    [
        ([(0, 5000)], [1 << power for power in range(13, 31)]),
        ([(1 << 20, 5000)], [1 << power for power in range(13, 21)]),
        ([(0, 5000), (1 << 14, 4000)], [1 << 13, 1 << 14]),
        ([(1025, 5000)], []),
    ],
)
def test_sizes_that_would_fit(files: Files, able: list[int]) -> None:
    state = FileState(0, 0, 0)
    segments = [Segment("x", start, state._replace(size=size)) for start, size in files]
    assert fitting_sizes(segments) == able


@pytest.mark.parametrize(
    ("queues", "batch", "size"),
    [
        ([[(0, 100)], [(300, 100), (400, 100)]], False, 100),
        ([[(0, 100)], [(0, 60)]], False, 100),  # of two with as many votes the larger
        ([[(0, 60), (60, 60)], [(0, 100)]], False, 60),
        ([[(50, 100)]], False, None),  # no file of that size has this name
        ([[(0, 92)]], True, 92),
        ([[(0, 92)]], False, None),  # no whole number of entries
        ([[(0, 100)]], True, None),
        ([[(0, 0)], []], False, None),
    ],
)
def test_queues(queues: list[Files], batch: bool, size: int | None) -> None:
    found = queue_size(map(named, queues), batch)
    assert (None if found is None else found.value) == size


def test_files_of_a_store_are_found_by_their_names() -> None:
    name, raw = "{:020d}".format, bytes(100)
    found = sizes({
        f"commitlog/{name(100)}": raw, f"more/{name(0)}": raw, f"commitlog/{name(200)}": b"",
        "commitlog/notes": raw, f"consumequeue/T/0/{name(0)}": raw, "consumequeue/T/x/0": raw,
        "consumequeue/notes": raw, f"consumequeue/T/1/{name(100)}": raw,
        f"consumequeue/T/1/{name(0)}": raw, "consumequeue/T/1/notes": raw,
        f"consumequeue/T/-1/{name(0)}": raw, f"consumequeue/T/\u0663/{name(0)}": raw,
    })  # fmt: skip
    assert [each.start for each in found.segments] == [0, 100]
    assert found.segment() is None  # a hundred bytes are no segment
    assert [[each.start for each in queue] for queue in found.queues(False)] == [[0], [0], [0, 100]]
    queue = found.queue(False)
    assert queue is not None
    assert (queue.value, queue.files) == (100, 4)
    assert found.queue(True) is None


def index(**count: int) -> dict[str, bytes]:
    """Index files of 7 slots and 20 entries, by the last digit of their name; -1: one too short."""
    found = {}
    for digit, many in count.items():
        file = IndexFile(7, 20)
        for n in range(many):
            file.put(f"T#k{n}", 1000 * int(digit[1:]) + n)
        found[f"index/2023010100000000{digit[1:]}"] = file.raw()[: None if many >= 0 else -20]
    return found


LENGTH = 40 + 4 * 7 + 20 * 20


@pytest.mark.parametrize(
    ("files", "pair", "end", "odd", "has_entries"),
    [
        ({"n0": 3}, (7, 20), 2, False, True),
        ({"n0": 3, "n1": 5}, (7, 20), 1004, False, True),  # the newest
        ({"n0": 3, "n1": 0}, (7, 20), 2, False, True),
        ({"n0": 0}, None, 0, False, False),
        ({"n0": 3, "n1": 3, "n2": -1}, (7, 20), 1002, True, True),
    ],
)
def test_index_files(
    files: dict[str, int], pair: tuple[int, int] | None, end: int, odd: bool, has_entries: bool
) -> None:
    found = sizes(index(**files) | {"index/notes": bytes(LENGTH)}).index(USUAL, {})
    other = ("20230101000000002", LENGTH - 20) if odd else None
    assert found == IndexShown(pair, end, LENGTH, other, has_entries)


def test_without_index_files_nothing_is_shown() -> None:
    header = {"index/20230101000000000": bytes(40)}
    assert sizes({}).index(USUAL, {}) is None
    assert sizes(header).index(USUAL, {}) is None
    found = sizes(header).index(USUAL, {}, every=True)
    assert found is not None
    assert (found.pair, found.length) == (None, 40)


@pytest.mark.parametrize(("bad", "pair"), [(3, (7, 20)), (4, None)])
def test_a_reader_searches_the_newest_four(bad: int, pair: tuple[int, int] | None) -> None:
    """The others' headers lead nowhere."""
    files = index(n0=3)
    wrong = IndexFile(7, 20).put_all(["T#a", "T#b"], 500).raw(end_physical_offset=9)
    files |= {f"index/2023010100000000{n}": wrong for n in range(1, bad + 1)}
    for every in (False, True):
        found = sizes(files).index(USUAL, {}, every)
        assert found is not None
        assert found.pair == ((7, 20) if every else pair)
