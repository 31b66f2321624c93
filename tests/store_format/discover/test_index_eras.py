"""Which releases put a store's index: where its broker was upgraded, and what it indexed again."""

from collections.abc import Sequence
from typing import Any

import pytest

from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.discover import index_eras
from reput.store_format.discover.index_eras import OfIndex, dispatched_again, of_the_index
from reput.store_format.faults import StoreChanged
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.log.reader import LogReader, Record
from reput.store_format.log.rules import RecordRules
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import NEVER, Period
from reput.store_format.release.settings import Settings
from tests.logs.damage import record_places
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.discover.index_files import IndexFile

COUNT, SLOTS, MOST = 30, 7, 50
SETTINGS = Settings(max_hash_slot_num=SLOTS, max_index_num=MOST)
OLD_COUNT, NEW_COUNT, NO_TAGS, TAGS = ("", "4.7.0"), ("4.7.1", ""), ("", "5.3.4"), ("5.4.0", "")
LOG = build_log([
    Message(properties=properties(("KEYS", f"k{n}"), ("TAGS", "a")), sys_flag=12 * (n == 20))
    for n in range(COUNT)], 1 << 14)  # fmt: skip
PLACES = record_places(LOG)


def keys(number: int, tags: bool = False) -> list[str]:
    return [f"T#k{number}", *(["T#T#a"] if tags else [])]


def file_of(numbers: Sequence[int], tags: Sequence[int] = (), every_key: bool = False) -> IndexFile:
    """An index file of these messages; those in `tags` have a key of their tags."""
    file = IndexFile(SLOTS, MOST, every_key)
    for n in numbers:
        file.put_all(keys(n, n in tags), PLACES[n])
    return file


def shown(*files: bytes, sweeps: bool = False, log: bytes = LOG[0], abort: bool = False) -> OfIndex:
    storage = MemoryStorage({"store/commitlog/0": log})
    if abort:
        storage.files["store/abort"] = b"1"
    storage.files |= {f"store/index/2023010100000000{n}": raw for n, raw in enumerate(files)}
    segment = Segment("store/commitlog/0", 0, FileState(len(log), 0, 0))
    with LogReader(storage, [segment], RecordRules(True, True)) as reader:
        return of_the_index(Folder(storage, "store"), reader, SETTINGS, sweeps)


def told(periods: list[Period]) -> list[tuple[int, tuple[str, str]]]:
    return [(each.start, (each.clues[0].since, each.clues[0].until)) for each in periods]


def test_a_file_may_begin_by_the_old_rule() -> None:
    """Ten keys in seven slots: some slot is in use already."""
    assert told(shown(file_of(range(10), every_key=True).raw()).counts) == [(0, OLD_COUNT)]
    assert told(shown(file_of(range(10)).raw()).counts) == [(0, NEW_COUNT)]
    assert told(shown(file_of([0]).raw()).counts) == []  # no slot was used twice
    assert shown() == OfIndex([], [], -1, [], ())
    for upgraded in [10, 11, 20]:
        file = file_of(range(upgraded), every_key=True)
        by_the_old = file.hash_slot_count
        file.count_slots()
        for n in range(upgraded, COUNT):
            file.put_all(keys(n), PLACES[n])
        assert file.hash_slot_count == by_the_old  # ten keys or more have filled seven slots
        found = told(shown(file.raw()).counts)
        assert found == [(0, OLD_COUNT), (PLACES[upgraded], NEW_COUNT)]
    old, new = file_of(range(15), every_key=True), file_of(range(15, 30))
    wanted = [(0, OLD_COUNT), (PLACES[15], NEW_COUNT)]
    assert told(shown(old.raw(), new.raw()).counts) == wanted
    again = file_of(range(14, 30))  # the old broker had begun that message
    wanted[1] = (PLACES[14] + 1, NEW_COUNT)
    assert told(shown(old.raw(), again.raw()).counts) == wanted


def test_keys_of_tags_are_new_and_may_be_in_two_files() -> None:
    for with_tags, found in [([], [(0, NO_TAGS)]), (range(COUNT), [(0, TAGS)]),
        (range(12, COUNT), [(0, NO_TAGS), (PLACES[12], TAGS)]),
        (range(12), [(0, TAGS), (PLACES[12], NO_TAGS)]),  # a downgrade
        ([20], [(0, NO_TAGS)]),  # a rolled back message tells nothing
        ([23], [(0, NO_TAGS), (PLACES[23], TAGS)]),  # the new release wrote one message
        (range(23), [(0, TAGS), (PLACES[23], NO_TAGS)])]:  # fmt: skip
        assert told(shown(file_of(range(24), with_tags).raw()).tags) == found
    found = shown(file_of(range(24), range(23)).raw(), abort=True)
    assert told(found.tags) == [(0, TAGS)]
    found = shown(file_of(range(24), [23]).raw(), abort=True)
    assert told(found.tags) == [(0, NO_TAGS), (PLACES[23], TAGS)]
    for parted in ["first key", "none"]:
        old, new = file_of(range(15)), IndexFile(SLOTS, MOST)
        first, tag = keys(15, tags=True)
        (old if parted == "first key" else new).put(first, PLACES[15])
        new.put(tag, PLACES[15])
        wanted = [(0, NO_TAGS), (PLACES[15], TAGS)]
        assert told(shown(old.raw(), new.raw()).tags) == wanted
        for n in range(16, 19):
            new.put_all(keys(n, tags=True), PLACES[n])
        assert told(shown(old.raw(), new.raw()).tags) == wanted


def test_messages_without_tags_are_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a request on S3: all of the index was read, however large, before a job began."""
    count, a_file = 400, 40
    log = build_log([
        Message(properties=properties(("KEYS", f"k{n}"), *[("TAGS", "a")] * (n == 398)))
        for n in range(count)], 1 << 16)  # fmt: skip
    places, files, read = record_places(log), [], []
    for start in range(0, count, a_file):
        files.append(IndexFile(SLOTS, MOST, False))
        for n in range(start, start + a_file):
            files[-1].put_all(keys(n, n == 398), places[n])
    monkeypatch.setattr(index_eras, "_IN_VAIN", 100)
    record = index_eras._record
    monkeypatch.setattr(index_eras, "_record", lambda *of: read.append(of[1]) or record(*of))
    found = shown(*(file.raw() for file in files), log=log[0])
    assert told(found.tags) == [(0, TAGS)]  # the one message that shows it is near a file's end
    assert len(read) < 250  # 840 before


def test_what_cannot_be_read_or_is_there_twice_tells_nothing() -> None:
    file = file_of(range(24), range(24)).raw()
    assert shown(file[:-1], file + b"\0") == OfIndex([], [], -1, [], ())
    damaged = bytearray(LOG[0])
    for place in PLACES:
        damaged[place + 4] = 0
    found = shown(file, log=bytes(damaged))
    assert (found.tags, found.last_records, found.end) == ([], [], PLACES[23] + 1)
    assert told(found.counts) == [(0, NEW_COUNT)]
    log = build_log([Message(properties=properties(("KEYS", "k k")))], 1 << 14)
    file = IndexFile(SLOTS, MOST).put_all(["T#k", "T#k"], 0)
    assert shown(file.raw(), log=log[0]).again == ()
    # On S3 each of 1,200 further requests was refused too, and nothing was said.
    asked: list[int] = []

    class Changed:
        def record_at(self, place: int) -> Record:
            asked.append(place)
            raise StoreChanged("s3://b/commitlog/0: changed since it was listed")

    storage = MemoryStorage({"store/index/20230101000000000": file_of(range(20)).raw()})
    log: Any = Changed()
    with pytest.raises(StoreChanged, match="changed since it was listed"):
        of_the_index(Folder(storage, "store"), log, SETTINGS, True)
    assert len(asked) == 1


def test_a_message_at_two_files_border_was_indexed_again_by_a_recovery() -> None:
    for first, second, again in [(keys(9), keys(9), ((PLACES[9], 1),)),
        (keys(9, True), keys(9, True), ((PLACES[9], 2),)),
        (keys(9, True)[:1], keys(9, True), ((PLACES[9], 1),)),  # the file of the rest was deleted
        (keys(9, True)[1:], keys(9, True), ()),
        (keys(9, True)[:1], keys(9, True)[1:], ()),  # it only goes on in the next file
        (keys(9), ["T#other"], ())]:  # fmt: skip
        one = file_of(range(9)).put_all(first, PLACES[9])
        other = IndexFile(SLOTS, MOST).put_all(second, PLACES[9]).put_all(keys(10), PLACES[10])
        assert shown(one.raw(), other.raw()).again == again
    for noted, start in [(-1, 0), (0, 0), (99, 0), (100, 5), (200, NEVER)]:
        storage = MemoryStorage()
        for name, place, time in (("20230101000000000", 0, 100), ("20230101000000001", 5, 200)):
            file = IndexFile(SLOTS, MOST)
            file.put("T#k", PLACES[place], time)
            storage.files[f"store/index/{name}"] = file.raw()
        checkpoint = None if noted < 0 else Checkpoint(index_msg_timestamp=noted)
        wanted = start if start == NEVER else PLACES[start]
        assert dispatched_again(Folder(storage, "store"), SETTINGS, checkpoint) == wanted


@pytest.mark.parametrize("times", [1, 2, 3])
def test_such_a_message_may_be_in_a_new_file_and_a_sweep_finds_it_anywhere(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(range(9)).put_all(keys(9, True) * times, PLACES[9])
    file.put_all(keys(10), PLACES[10])
    wanted = ((PLACES[9], 2 * times - 2),) if times > 1 else ()
    assert shown(file.raw()).again == wanted
    assert shown(file_of(range(9)).raw(), file.raw()).again == wanted
    monkeypatch.setattr(index_eras, "_ENTRIES", 8)
    assert shown(file.raw()).again == ()
    assert shown(file.raw(), sweeps=True).again == wanted
