"""An opened store: its readers, each made once, and what is told of odd files."""

import pytest

from reput.store_format.derived.index_reader import BadIndex
from reput.store_format.derived.queue_files import BadQueue
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.notes import Notes
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.release.profiles import RELEASES, UnknownRelease
from tests.logs import Message, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.query.derived_stores import SEGMENT, Derived

MESSAGES = [Message("T", n % 2, n // 2, b"b", properties(("KEYS", f"k{n:02}"))) for n in range(40)]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def test_sizes_are_those_of_the_files(store: Derived) -> None:
    with OpenedStore(
        Folder(store.storage, "s"), NEWEST, {"maxIndexNum": "8"}, store.notes
    ) as opened:
        assert opened.settings.mapped_file_size_commit_log == SEGMENT
        assert opened.settings.max_hash_slot_num == 3
        assert opened.log.end == 2 * SEGMENT
        assert len(opened.index().files) == 6
    assert store.notes.lines == []


def test_the_release_decides_how_properties_are_split() -> None:
    store = Derived([Message("T", properties=b"a\x01x\x01\x02")])
    for release, value in (("4.9.0", "x"), ("4.9.1", "x\x01")):
        with OpenedStore(Folder(store.storage, "s"), release, {}, Notes()) as opened:
            assert opened.message(opened.log.record_at(0)).properties == {"a": value}
    assert RELEASES[-1] == NEWEST
    with pytest.raises(UnknownRelease):
        OpenedStore(Folder(store.storage, "s"), "9.9.9", {}, Notes())


def test_readers_are_made_once(store: Derived) -> None:
    with store.open() as opened:
        assert opened.index() is opened.index()
        assert opened.queues is opened.queues
        assert opened.queue("T", 0, False) is opened.queue("T", 0, False)
        assert opened.rocksdb_index() is None


def test_an_earlier_end_is_the_logs(store: Derived) -> None:
    with OpenedStore(
        Folder(store.storage, "s"), NEWEST, {}, store.notes, end=store.places[3]
    ) as opened:
        assert (opened.log.end, len(list(opened.log.records(0)))) == (store.places[3], 3)


def test_queues_and_index_may_be_in_another_place(store: Derived) -> None:
    moved = {
        path.replace("s/", "set/", 1): raw
        for path, raw in store.storage.files.items()
        if "commitlog" not in path
    }
    store.remove("consumequeue")
    store.remove("index")
    given = {"maxHashSlotNum": "3", "maxIndexNum": "8"}
    derived = Folder(MemoryStorage(moved), "set")
    with OpenedStore(Folder(store.storage, "s"), NEWEST, given, Notes(), derived=derived) as opened:
        assert (opened.queues.topics(), len(opened.index().files)) == (["T"], 6)
        assert opened.folders("consumequeue/T") == ["0", "1"]
        assert opened.queue("T", 0, False).maximum() == 20


def test_a_store_without_a_log_is_none(store: Derived) -> None:
    store.remove("commitlog")
    for storage in (store.storage, MemoryStorage()):
        with pytest.raises(StoreError, match="s/commitlog: no such folder"):
            OpenedStore(Folder(storage, "s"), NEWEST, {}, Notes())


def test_odd_segments_are_told_and_the_rest_is_read(store: Derived) -> None:
    store.storage.files["s/commitlog/readme"] = b""
    store.storage.files[f"s/commitlog/{3 * SEGMENT:020d}"] = bytes(SEGMENT)
    with store.open() as opened:
        assert len(opened.log.segments) == 3
    assert [line.rpartition(": ")[2].split(";")[0] for line in store.notes.lines] == [
        "1 segment is missing"
    ]


def test_an_index_of_unknown_sizes_is_refused_when_it_is_asked_for(store: Derived) -> None:
    for path in store.paths("index"):
        store.storage.files[path] = bytes(213)
    with OpenedStore(Folder(store.storage, "s"), NEWEST, {}, store.notes) as opened:
        with pytest.raises(BadIndex, match="213 bytes, which do not show"):
            opened.index()
        assert opened.log.record_at(0).topic == "T"


def test_a_queue_that_is_none_is_refused_when_it_is_opened(store: Derived) -> None:
    store.storage.files[f"s/consumequeue/T/0/{99:020d}"] = bytes(7)
    with store.open() as opened:
        assert opened.queues.of("T") == [(0, False), (1, False)]
        with pytest.raises(BadQueue):
            opened.queue("T", 0, False)
        assert opened.queue("T", 1, False).maximum() == 20
