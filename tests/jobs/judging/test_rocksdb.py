"""verify judges an index in RocksDB by its rows, and rebuild makes the very rows of a broker."""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rocksdict

import reput
from reput.jobs.check import check
from reput.jobs.install import install_set, undo_install
from reput.jobs.judging.rocksdb import NO_INDEX, NO_ROCKSDB
from reput.jobs.judging.shown import next_step
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import rebuild
from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import ROCKSDB_ENTRY, ROCKSDB_OFFSET
from reput.store_format.rocksdb.database import RocksDBMissing
from reput.store_format.rocksdb.queues import (
    CHECKPOINT_KEY,
    ENTRIES,
    MAX,
    MIN,
    OFFSETS,
    entry_key,
    offset_key,
    queue_key,
)
from reput.store_format.rocksdb.rows import FAMILY, LAST_OFFSET
from reput.udfs.table import rocksdb_index
from tests.in_process import Session
from tests.jobs.judging.rocksdb_index_rows import Rows, rows
from tests.store_format.rocksdb.stores import INDEX, quick, unpack
from tests.trees import flip


@pytest.mark.parametrize(("name", "ranges"), [(INDEX[0], 1), (INDEX[1], 4)])
def test_the_rows_are_a_brokers_own(name: str, ranges: int, tmp_path, monkeypatch) -> None:
    if ranges > 1:
        monkeypatch.setattr(rocksdb_index, "_ROWS_A_BATCH", 7)
        monkeypatch.setattr(rocksdb_index, "_ROWS_A_RUN", 100)
    store, _ = unpack(name, tmp_path)
    release = name.partition("_")[2]
    summary = rebuild(
        Session(ranges), str(store), str(tmp_path / "out"), rocketmq=release, index="rocksdb",
        cut=Cut(index_ranges=ranges, split_bytes=9000 * ranges),
    )  # fmt: skip
    assert (summary.index_in, summary.index_keys) == ("rocksdb", 600)
    assert rows(tmp_path / "out" / "rocksdbstore") == rows(store / "rocksdbstore")
    assert not (tmp_path / "out" / "index").exists()
    report = verify(Session(), str(store), against=str(tmp_path / "out"), rocketmq=release)
    assert report.same, report.differences
    assert report.in_rocksdb[-1] == "600 rows of the index"


def test_it_is_installed_and_taken_back_but_not_where_timers_would_be_lost(tmp_path: Path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    wanted = rows(store / "rocksdbstore")
    rebuild(Session(), str(store), str(tmp_path / "out"), rocketmq="5.5.1", index="rocksdb")
    changed(store, lambda family: family.delete(min(wanted)))
    install_set(str(store), str(tmp_path / "out"))
    assert rows(store / "rocksdbstore") == wanted
    undo_install(str(store))
    assert rows(store / "rocksdbstore") == {k: v for k, v in wanted.items() if k != min(wanted)}
    changed(store, lambda family: family.put(b"\0" * 8 + b"of a timer", b"\0" * 12), "timer")
    with pytest.raises(StoreError, match="has rows in 'timer'"):
        install_set(str(store), str(tmp_path / "out"))


@contextmanager
def opened(folder: Path) -> Iterator[dict[str, Any]]:
    """The families of a database, to be written to."""
    options = rocksdict.Options(raw_mode=True)
    every = dict.fromkeys(rocksdict.Rdict.list_cf(str(folder), options), options)
    with rocksdict.Rdict(str(folder), options, every) as database:
        families = {name: database.get_column_family(name) for name in every}
        yield families
        for family in families.values():
            family.flush()
    (folder / "rocksdict-config.json").unlink(missing_ok=True)


def changed(store: Path, change: Callable[[Any], Any], family: str = FAMILY) -> None:
    with opened(store / "rocksdbstore") as families:
        change(families[family])


def queues_changed(store: Path) -> Any:
    """The families of a store's queues, to be written to."""
    return opened(store / "consumequeue")


def _middle(found: Rows, number: int) -> bytes:
    return sorted(found)[number]


@pytest.mark.parametrize(("change", "said"), [
    (lambda found, family: family.delete(_middle(found, 3)), "1 rows are missing in RocksDB"),
    (
        lambda found, family: family.put(_middle(found, 3)[:-9] + b"x@" + bytes(8), bytes(8)),
        "1 rows are in RocksDB that the log does not give, first of the message at 0",
    ),
    (
        lambda found, family: family.put(_middle(found, 3), bytes(8)),
        "1 rows have another storeTimestamp in RocksDB",
    ),
])  # fmt: skip
def test_a_row_that_is_not_as_the_log_gives_it_is_a_difference(change, said: str, tmp_path) -> None:
    store, _ = unpack("index_5.5.1", tmp_path)
    found = rows(store / "rocksdbstore")
    changed(store, lambda family: change(found, family))
    report = verify(Session(), str(store), rocketmq="5.5.1")
    (difference,) = report.differences
    assert difference.path == f"{store}/rocksdbstore"
    assert f"index: {said}" in difference.text()


def test_what_is_dispatched_again_is_behind_and_a_late_index_is_sound(tmp_path: Path) -> None:
    store, _ = unpack("index_5.4.0", tmp_path)
    found = rows(store / "rocksdbstore")
    places = sorted({key[-8:] for key in found if key[:1] == b"\0"})
    early = [key for key in found if key[:1] == b"\0" and key[-8:] < places[50]]
    changed(store, lambda family: [family.delete(key) for key in early])
    report = verify(Session(), str(store), rocketmq="5.4.0")
    assert (report.differences, report.behind) == ([], [])
    begin = int.from_bytes(places[50], "big")
    assert f"{store}/rocksdbstore: its index begins with the message at {begin}" in report.notes
    newest = max((k for k in found if k[:1] == b"\0"), key=lambda key: key[-8:])
    changed(store, lambda family: family.delete(newest))
    assert found[LAST_OFFSET] == newest[-8:]
    report = verify(Session(), str(store), rocketmq="5.4.0")
    assert report.differences == []
    assert len(report.behind) == 1


def test_no_index_in_its_only_place_is_a_difference(tmp_path: Path, monkeypatch) -> None:
    """Unless a broker runs, which has the first keys in memory."""
    store, _ = unpack("index_5.5.1", tmp_path)
    shutil.rmtree(store / "rocksdbstore")
    given = {"indexRocksDBEnable": "true", "indexFileWriteEnable": "false"}
    report = verify(Session(), str(store), rocketmq="5.5.1", settings=given)
    assert [each.field for each in report.differences] == [NO_INDEX]
    monkeypatch.setattr(LocalStorage, "lock_holder", lambda *_: 1)
    report = verify(Session(), str(store), rocketmq="5.5.1", settings=given)
    assert (report.differences, [each.field for each in report.behind]) == ([], [NO_INDEX])


# --- check and verify judge queues in RocksDB by their rows: what is wrong, and what only looks so.
QUEUE = queue_key("Live0", 1)
FOLDER = "consumequeue/Live0/1"


SIZES = {"maxHashSlotNum": "50", "maxIndexNum": "600"}


def judged(store: Path, release: str = "5.3.3") -> Any:
    return verify(Session(), str(store), rocketmq=release, settings=SIZES)


def found(store: Path) -> list[str]:
    """The differences that check tells of a store."""
    report = check(Session(), str(store), rocketmq="5.3.3", settings=SIZES)
    assert report.sound == (not report.differences)
    return [each.text().removeprefix(f"{store}/") for each in report.differences]


@pytest.mark.parametrize("name", ["alone_5.3.3", "double_5.4.0"])
def test_no_rocksdb_where_a_broker_reads_it_is_one_difference(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    for path in (store / "consumequeue").iterdir():
        if path.is_file():
            path.unlink()  # the files of a double write stay
    given = {**SIZES, "storeType": "defaultRocksDB"}
    report = check(Session(), str(store), rocketmq=name.partition("_")[2], settings=given)
    assert [each.field for each in report.differences] == [NO_ROCKSDB]
    assert next_step(report).startswith("reput rebuild")


@pytest.mark.parametrize("name", quick("alone_5.3.3", "index_5.5.1", "double_5.4.0", "v2_5.4.0"))
def test_what_a_broker_left_is_as_the_log_gives_it(name: str, tmp_path: Path) -> None:
    store, sent = unpack(name, tmp_path)
    release = name.partition("_")[2]
    report = judged(store, release)
    assert report.differences == []
    assert report.behind == []
    assert report.in_rocksdb[0] == f"{len(sent)} entries of 12 queues"


def entry(position: int, **fields: int) -> Callable[[dict[str, Any]], None]:
    """What changes fields of an entry."""

    def change(families: dict[str, Any]) -> None:
        rows = np.frombuffer(families[ENTRIES][entry_key(QUEUE, position)], ROCKSDB_ENTRY).copy()
        for name, value in fields.items():
            rows[name] = value
        families[ENTRIES][entry_key(QUEUE, position)] = rows.tobytes()

    return change


def removed(position: int) -> Callable[[dict[str, Any]], None]:
    def change(families: dict[str, Any]) -> None:
        del families[ENTRIES][entry_key(QUEUE, position)]

    return change


def offset(kind: bytes, place: int, position: int) -> Callable[[dict[str, Any]], None]:
    def change(families: dict[str, Any]) -> None:
        value = np.array((place, position), ROCKSDB_OFFSET).tobytes()
        families[OFFSETS][offset_key("Live0", 1, kind)] = value

    return change


def foreign_queue(families: dict[str, Any]) -> None:
    families[ENTRIES][entry_key(queue_key("Other", 0), 0)] = families[ENTRIES][entry_key(QUEUE, 0)]
    value = np.array((0, 0), ROCKSDB_OFFSET).tobytes()
    families[OFFSETS][offset_key("Other", 0, MAX)] = value


def behind_max(families: dict[str, Any]) -> None:
    families[ENTRIES][entry_key(QUEUE, 13)] = families[ENTRIES][entry_key(QUEUE, 4)]


@pytest.mark.parametrize(("change", "said"), [
    (entry(4, tagsCode=7), f"{FOLDER}: offset 4: tagsCode: is 7, should be 6"),
    (entry(4, size=7), f"{FOLDER}: offset 4: size: is 7, should be "),
    (entry(4, physicalOffset=1), f"{FOLDER}: offset 4: physicalOffset: is 1, should be "),
    (entry(4, storeTimestamp=9), f"{FOLDER}: offset 4: storeTimestamp: is 9, should be "),
    (removed(0), f"{FOLDER}: the row is missing in RocksDB"),
    (removed(12), f"{FOLDER}: the row is missing in RocksDB"),
    (offset(MAX, 1, 3), f"{FOLDER}: the row is missing in RocksDB"),
    (offset(MIN, 1 << 20, 5), f"{FOLDER}: offset 0: min in RocksDB"),
    (lambda families: families[OFFSETS].delete(offset_key("Live0", 1, MAX)),
     f"{FOLDER}: the queue is missing in RocksDB"),
    (foreign_queue, "consumequeue/Other/0: the log gives no such row in RocksDB"),
    # what a broker does not read; a min row of before the log's start counts for nothing
    (behind_max, ""), (offset(MIN, -1, 5), ""),
])  # fmt: skip
def test_a_queue_s_row_that_is_not_as_the_log_gives_it_is_a_difference(change, said, tmp_path):
    store, _ = unpack("alone_5.3.3", tmp_path)
    with queues_changed(store) as families:
        change(families)
    told = found(store)
    assert [each.startswith(said) for each in told] == [True] * bool(said)
    if not said:
        with reput.open_store(str(store)) as asked:
            numbers = [each.queue_offset for each in asked.messages("Live0", 1, 0)]
        assert numbers == list(range(13))


def test_a_queue_that_is_dispatched_again_is_only_behind(tmp_path: Path) -> None:
    reports = []
    for more in (0, 1):
        store, _ = unpack("alone_5.3.3", tmp_path / str(more))
        with queues_changed(store) as families:
            last = np.frombuffer(families[ENTRIES][entry_key(QUEUE, 12)], ROCKSDB_ENTRY)[0]
            removed(12)(families)
            checkpoint = int(last["physicalOffset"]) + more
            families[OFFSETS][CHECKPOINT_KEY] = checkpoint.to_bytes(8, "big")
        reports.append(judged(store))
    assert [(len(each.differences), len(each.behind)) for each in reports] == [(0, 1), (1, 0)]
    assert reports[0].behind[0].path.endswith(FOLDER)


def test_rows_that_a_double_write_lacks_after_a_clean_stop_stay_missing(tmp_path: Path) -> None:
    """RocketMQ 5.3.3 adds none of them, 5.5.1 all but one (off for a life, on again)."""
    store, _ = unpack("double_5.3.3", tmp_path)
    with queues_changed(store) as families:
        last = np.frombuffer(families[ENTRIES][entry_key(QUEUE, 12)], ROCKSDB_ENTRY)[0]
        removed(12)(families)
        families[OFFSETS][CHECKPOINT_KEY] = int(last["physicalOffset"]).to_bytes(8, "big")
    assert found(store) == []
    given = {**SIZES, "rocksdbCQDoubleWriteEnable": "true"}
    report = check(Session(), str(store), rocketmq="5.3.3", settings=given)
    assert [each.path for each in report.differences] == [f"{store}/{FOLDER}"]
    assert "--queues files" in next_step(report)
    (store / "abort").touch()  # its recovery adds them
    assert not check(Session(), str(store), rocketmq="5.3.3", settings=given).differences


def test_a_database_that_cannot_be_read_or_a_damaged_block_is_a_difference(tmp_path: Path) -> None:
    for name in ("alone_5.3.3", "double_5.3.3"):
        store, _ = unpack(name, tmp_path / name)
        sorted((store / "consumequeue").glob("*.sst"))[0].unlink()
        (difference,) = found(store)
        assert difference.startswith("consumequeue: the RocksDB cannot be read: ")
        assert difference.count("consumequeue: ") == 1
    for number in (0, 1):
        store, _ = unpack("alone_5.3.3", tmp_path / str(number))
        flip(sorted((store / "consumequeue").glob("*.sst"))[number], 100)
        said = found(store)
        assert any("Corruption: " in each for each in said)
        assert all(str(store) not in each for each in said)  # the folder is named once


def test_queues_in_rocksdb_of_an_earlier_life_are_not_compared(tmp_path: Path) -> None:
    """As an upgrade that was taken back leaves them (#8600): the files reach further."""
    store, _ = unpack("double_5.3.3", tmp_path)
    with queues_changed(store) as families:
        for key, _ in list(families[OFFSETS].items()):
            del families[OFFSETS][key]
    assert found(store) == []
    report = check(Session(), str(store), rocketmq="5.3.3", settings=SIZES)
    assert any("consumequeue: not compared" in note for note in report.notes)


def test_files_of_an_earlier_life_are_not_compared(tmp_path: Path) -> None:
    """As a migration by a double write leaves them (#8589)."""
    store, _ = unpack("double_5.3.3", tmp_path)
    for file in (store / "consumequeue" / "Live1").glob("*/*"):
        file.write_bytes(file.read_bytes()[:40] + bytes(file.stat().st_size - 40))
    assert found(store)
    given = {**SIZES, "storeType": "defaultRocksDB"}
    report = check(Session(), str(store), rocketmq="5.3.3", settings=given)
    assert report.sound
    assert any("queue files not compared" in note for note in report.notes)


def test_without_the_library_it_is_said_what_to_install(tmp_path, monkeypatch) -> None:
    store, _ = unpack("alone_5.3.3", tmp_path)
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(RocksDBMissing, match=r'pip install "reput\[rocksdb\]"'):
        judged(store)
