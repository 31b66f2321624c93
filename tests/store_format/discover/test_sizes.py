"""Settings with the sizes that files show: most of them for a reader, all for a writer."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from reput.store_format.discover import sizes as module
from reput.store_format.files.disk import FixedFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from reput.store_format.release.settings import WriterSettings, writer_settings_from
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.index_files import IndexFile

SEGMENT, QUEUE = "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"
BATCH = "mapperFileSizeBatchConsumeQueue"
NAME = "{:020d}".format
INDEX = IndexFile(7, 20).put_all(["T#a", "T#b"], 100).raw()
EMPTY = IndexFile(7, 20).raw()
Sizes = dict[str, int]


def read(given: dict[str, str], **files: int | bytes) -> tuple[Sizes, str | None]:
    """Of a store with these files; a number is a file's length."""
    paths = {"segment": f"commitlog/{NAME(0)}", "index": "index/20230101000000000"}
    content = {f"store/{paths[n]}": bytes(f) if isinstance(f, int) else f for n, f in files.items()}
    settings, why = module.settings_to_read(Folder(MemoryStorage(content), "store"), given, "5.3.3")
    by_name = settings.by_name()
    return {name: by_name[name] for name in (SEGMENT, module.SLOTS, module.ENTRIES)}, why


USUAL = (1 << 30, 5_000_000, 20_000_000)


def test_a_reader_takes_what_the_files_show() -> None:
    for given, files, found, known in [({}, {}, USUAL, True),
        ({}, {"segment": 8192, "index": INDEX}, (8192, 7, 20), True),
        ({SEGMENT: "4096"}, {"segment": 8192}, (4096, *USUAL[1:]), True),  # its word counts
        ({module.SLOTS: "8", module.ENTRIES: "9"}, {"index": INDEX}, (USUAL[0], 8, 9), True),
        ({module.SLOTS: "8"}, {"index": INDEX}, (USUAL[0], 7, 20), True),
        ({}, {"index": EMPTY}, USUAL, False),
        ({module.SLOTS: "7", module.ENTRIES: "20"}, {"index": EMPTY},
         (USUAL[0], 7, 20), True)]:  # fmt: skip
        sizes, why = read(given, **files)
        assert tuple(sizes.values()) == found
        assert (why is None) is known
        assert known or f"{len(EMPTY)} bytes" in str(why)
    shown = module.IndexShown((7, 20), 0, len(INDEX), None, True)
    assert module.agreed_pair("i", shown, (7, 20), {module.ENTRIES: 20}) == {
        module.SLOTS: 7,
        module.ENTRIES: 20,
    }
    with pytest.raises(
        module.SizeDisagrees,
        match=f"{module.SLOTS}=7, and {module.SLOTS} is 8; give --set {module.SLOTS}=7 ",
    ):
        module.agreed_pair("i", shown, (7, 20), {module.SLOTS: 8})


def store(folder: Path, **files: int | bytes) -> FixedFiles:
    """Files by path, `/` as `__`; a number is a length."""
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(content) if isinstance(content, int) else content)
    return FixedFiles(str(folder))


def continued(folder: Path, settings: WriterSettings, **files: int | bytes) -> Sizes:
    return module.settings_to_continue(settings, store(folder, **files))[1]


ONE: dict[str, int | bytes] = {f"commitlog__{NAME(0)}": 8192, f"consumequeue__T__0__{NAME(0)}": 100,
    f"batchconsumequeue__B__0__{NAME(0)}": 92, "index__20230101000000000": INDEX}  # fmt: skip


def test_a_writer_takes_the_sizes_of_all_files(tmp_path: Path) -> None:
    settings, found = module.settings_to_continue(WriterSettings(), store(tmp_path, **ONE))
    assert found == {SEGMENT: 8192, QUEUE: 100, BATCH: 92, module.SLOTS: 7, module.ENTRIES: 20}
    by_name = settings.by_name()
    assert {name: by_name[name] for name in found} == found
    assert settings.given_names == frozenset()
    given = WriterSettings(mapped_file_size_commit_log=8192, mapped_file_size_consume_queue=95)
    assert continued(tmp_path / "1", given, **ONE).keys() == {BATCH, module.SLOTS, module.ENTRIES}
    assert continued(tmp_path / "1" / "new", WriterSettings()) == {}


@pytest.mark.parametrize(("given", "files", "says"), [
    ({SEGMENT: 4096}, {}, f"has 8192 bytes, and {SEGMENT} is 4096; give --set {SEGMENT}=8192"),
    ({QUEUE: 101}, {}, f"has 100 bytes, and {QUEUE} is 101"),
    ({module.SLOTS: 8}, {}, f"give --set {module.SLOTS}=7 --set {module.ENTRIES}=20"),
    ({}, {f"commitlog__{NAME(8192)}": 8193}, "has 8193 bytes, and commitlog/0"),
    ({}, {f"consumequeue__U__3__{NAME(0)}": 120}, "one of them is damaged"),
    ({}, {"index__20230101000000001": INDEX[:-20]}, "two sizes of")])  # fmt: skip
def test_a_file_of_another_size_is_refused(given: Sizes, files, says: str, tmp_path: Path) -> None:
    settings = writer_settings_from({name: str(value) for name, value in given.items()})
    with pytest.raises(module.SizeDisagrees) as refused:
        continued(tmp_path, settings, **ONE, **files)
    assert says in str(refused.value)


def test_a_crash_or_an_empty_index_shows_no_size(tmp_path: Path) -> None:
    pair = WriterSettings(max_hash_slot_num=7, max_index_num=20)
    files: dict[str, int | bytes] = {"index__20230101000000000": EMPTY}
    assert continued(tmp_path, pair, **files) == {}
    with pytest.raises(module.SizeDisagrees, match="their content does not show them"):
        continued(tmp_path, WriterSettings(), **files)
    # not even with these
    wrong = IndexFile(7, 20).put_all(["T#a", "T#b"], 100).raw(end_physical_offset=9)
    with pytest.raises(module.SizeDisagrees, match="their content does not show them"):
        continued(tmp_path, pair, index__20230101000000000=wrong)
    for length in [0, 5000]:
        files: dict[str, int | bytes] = {f"commitlog__{NAME(0)}": 8192,
            f"commitlog__{NAME(8192)}": length}  # fmt: skip
        assert continued(tmp_path / "1", WriterSettings(), **files) == {SEGMENT: 8192}


# --- The sizes that a store's files show by their lengths and names: those that most of them have.
FILE_USUAL = {module.SLOTS: 5_000_000, module.ENTRIES: 20_000_000}
Files = Iterable[tuple[int, int]]  # (start, length)


def named(files: Files) -> list[module.NamedFile]:
    return [module.NamedFile(*each) for each in files]


def sizes(files: Mapping[str, bytes]) -> module.FileSizes:
    storage = MemoryStorage({f"store/{path}": raw for path, raw in files.items()})
    return module.FileSizes(storage, ["store/commitlog", "store/more"], Folder(storage, "store"))


def test_queues_are_of_whole_entries_and_segments_of_one_size() -> None:
    for queues, batch, size in [([[(0, 100)], [(300, 100), (400, 100)]], False, 100),
        ([[(0, 100)], [(0, 60)]], False, 100),  # of two with as many votes the larger
        ([[(0, 60), (60, 60)], [(0, 100)]], False, 60),
        ([[(50, 100)]], False, None),  # no file of that size has this name
        ([[(0, 92)]], True, 92),
        ([[(0, 92)]], False, None),  # no whole number of entries
        ([[(0, 100)]], True, None), ([[(0, 0)], []], False, None)]:  # fmt: skip
        found = module.queue_size(map(named, queues), batch)
        assert (None if found is None else found.value) == size
    for name, size, made in [(module.QUEUE, 100, 100), (module.QUEUE, 95, 100),
        (module.QUEUE, 1, 20), (module.BATCH_QUEUE, 95, 95), (module.SEGMENT, 95, 95)]:  # fmt: skip
        assert module.rounded(name, size) == made
    for files, size in [([(0, 4096), (4096, 4096), (8192, 100)], 4096),
        ([(8192, 50), (0, 4096)], 8192),  # of as many votes the largest: the names'
        ([(0, 0)], None),
        ([(0, 127), (127, 127)], None),  # less than a broker makes
        ([(0, 128), (128, 128)], 128), ([(0, 0x7FFFFC00)], 0x7FFFFC00),
        ([(0, 0x80000000)], None),  # no Java int
        ([(0, 1024)], 1024), ([(0, 1023)], None), ([(512, 1024)], None),
        ([(0, 1024), (1025, 1024), (2048, 1024)], 1024),  # what nearly all are long
        ([(0, 1024), (1025, 1024)], 1024),
        ([(1, 1024), (1025, 1024), (2048, 1024)], None)]:  # fmt: skip
        found = module.segment_size(named(files))
        assert (None if found is None else found.value) == size
    for files, able in [([(0, 5000)], [1 << power for power in range(13, 31)]),
        ([(1 << 20, 5000)], [1 << power for power in range(13, 21)]),
        ([(0, 5000), (1 << 14, 4000)], [1 << 13, 1 << 14]), ([(1025, 5000)], [])]:  # fmt: skip
        state = FileState(0, 0, 0)
        segments = [Segment("x", start, state._replace(size=size)) for start, size in files]
        assert module.fitting_sizes(segments) == able
    name, raw = "{:020d}".format, bytes(100)
    found = sizes({f"commitlog/{name(100)}": raw, f"more/{name(0)}": raw,
        f"commitlog/{name(200)}": b"", "commitlog/notes": raw, f"consumequeue/T/0/{name(0)}": raw,
        "consumequeue/T/x/0": raw, "consumequeue/notes": raw, f"consumequeue/T/1/{name(100)}": raw,
        f"consumequeue/T/1/{name(0)}": raw, "consumequeue/T/1/notes": raw,
        f"consumequeue/T/-1/{name(0)}": raw, f"consumequeue/T/\u0663/{name(0)}": raw})  # fmt: skip
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


def test_index_files() -> None:
    for files, pair, end, odd, has_entries in [({"n0": 3}, (7, 20), 2, False, True),
        ({"n0": 3, "n1": 5}, (7, 20), 1004, False, True),  # the newest
        ({"n0": 3, "n1": 0}, (7, 20), 2, False, True), ({"n0": 0}, None, 0, False, False),
        ({"n0": 3, "n1": 3, "n2": -1}, (7, 20), 1002, True, True)]:  # fmt: skip
        found = sizes(index(**files) | {"index/notes": bytes(LENGTH)}).index(FILE_USUAL, {})
        other = ("20230101000000002", LENGTH - 20) if odd else None
        assert found == module.IndexShown(pair, end, LENGTH, other, has_entries)
    header = {"index/20230101000000000": bytes(40)}
    assert sizes({}).index(FILE_USUAL, {}) is None
    assert sizes(header).index(FILE_USUAL, {}) is None
    found = sizes(header).index(FILE_USUAL, {}, every=True)
    assert found is not None
    assert (found.pair, found.length) == (None, 40)
    # The others' headers lead nowhere.
    for bad, pair in [(3, (7, 20)), (4, None)]:
        files = index(n0=3)
        wrong = IndexFile(7, 20).put_all(["T#a", "T#b"], 500).raw(end_physical_offset=9)
        files |= {f"index/2023010100000000{n}": wrong for n in range(1, bad + 1)}
        for every in (False, True):
            found = sizes(files).index(FILE_USUAL, {}, every)
            assert found is not None
            assert found.pair == ((7, 20) if every else pair)


# --- Slots and entries of index files, of which a file's length alone tells only the sum.
def put(slots: int, most: int, count: int) -> IndexFile:
    file = IndexFile(slots, most)
    for n in range(count):
        file.put(f"T#key{n}", 500 + 100 * n)
    return file


def pair(*raws: bytes, **given: int) -> tuple[int, int] | None:
    files = {f"index/2023010100000000{n}": raw for n, raw in enumerate(raws)}
    found = sizes(files).index(FILE_USUAL, given)
    return found.pair if found else None


def test_a_files_entries_show_its_slots_unless_its_header_is_wrong() -> None:
    # Of these files the first three are as long as each other.
    for count in [1, 3, 28]:
        for slots, most in [(7, 50), (12, 49), (2, 51), (107, 30)]:
            assert pair(put(slots, most, count).raw()) == (slots, most)
    full = put(7, 20, 19)
    assert full.is_full()
    assert pair(full.raw()) == (7, 20)
    empty = put(7, 50, 0).raw()
    assert pair(empty) is None
    assert pair() is None
    assert pair(empty, put(7, 50, 2).raw()) == (7, 50)
    for given, found in [({module.SLOTS: 7}, (7, 50)), ({module.ENTRIES: 50}, (7, 50)),
        ({module.SLOTS: 12, module.ENTRIES: 49}, (7, 50)),  # it does not fit the content
        ({module.SLOTS: 1 << 31, module.ENTRIES: 1 << 31}, (7, 50)), ({module.ENTRIES: 0}, (7, 50)),
        ({module.ENTRIES: -1}, (7, 50))]:  # fmt: skip
        assert pair(put(7, 50, 3).raw(), **given) == found
    for header in [{"index_count": 0}, {"index_count": -5}, {"index_count": (1 << 31) - 1},
        {"index_count": 5}, {"begin_physical_offset": 501}, {"end_physical_offset": 699},
        {"end_physical_offset": 702},
        {"begin_physical_offset": -1, "end_physical_offset": -1}]:  # fmt: skip
        assert pair(put(7, 50, 3).raw(**header)) is None
    assert pair(put(7, 50, 3).raw(end_physical_offset=701)) == (7, 50)
    raw = bytearray(put(7, 50, 1).raw())
    raw[40 : 40 + 7 * 4] = bytes(7 * 4)
    assert pair(bytes(raw)) is None
