"""The log that slaves get: of a store up to its last whole record, of a writer what is in files."""

import os
from pathlib import Path

import pytest

from reput.broker.wire.peers import MasterLog
from reput.jobs.replicating.master import StoreLog, WriterLog
from reput.store_format.discover.store import StoreAt
from reput.store_format.files.local import LocalStorage
from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer
from tests.jobs.replicating.stores import SEGMENT_BYTES, SETTINGS, log_of, make_store, record_starts
from tests.memory_storage import MemoryStorage


def in_memory(root: Path) -> MemoryStorage:
    return MemoryStorage({f"s/commitlog/{s:020d}": raw for s, raw in log_of(root).items()})


def of(storage: MemoryStorage) -> StoreLog:
    return StoreLog(StoreAt(storage, "s", "5.3.3", SETTINGS))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six records, all in the first segment."""
    return make_store(tmp_path_factory.mktemp("made") / "store", 6)


def test_a_store_ends_with_its_last_whole_record(root: Path) -> None:
    starts, end = record_starts(log_of(root))
    storage = in_memory(root)
    assert of(storage).now() == MasterLog(0, end, SEGMENT_BYTES)
    raw = bytearray(log_of(root)[0])
    raw[starts[-1] + 88] ^= 1  # in the last one's body
    storage.files["s/commitlog/" + "0" * 20] = bytes(raw)
    assert of(storage).now().end == starts[-1]


def test_its_bytes_are_read_where_there_is_no_local_file(root: Path) -> None:
    log = of(in_memory(root))
    assert log.descriptor(0) is None
    assert log.read(7, 300) == log_of(root)[0][7:307]


def test_a_local_segment_is_opened_and_no_link(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", 3)
    log = StoreLog(StoreAt(LocalStorage(), str(store), "5.3.3", SETTINGS))
    file = log.descriptor(0)
    assert file is not None
    assert os.pread(file, 91, 0) == log_of(store)[0][:91]
    os.close(file)
    path = store / f"commitlog/{0:020d}"
    path.rename(tmp_path / "real")
    path.symlink_to(tmp_path / "real")
    with pytest.raises(OSError, match="symbolic links"):
        log.descriptor(0)


def test_a_refresh_finds_what_has_come_and_never_goes_back(tmp_path: Path) -> None:
    store, more = make_store(tmp_path / "store", 40), make_store(tmp_path / "more", 60)
    storage, whole = in_memory(store), in_memory(more)
    log = of(storage)
    before = log.now().end
    assert before == of(in_memory(store)).now().end
    storage.files.update(whole.files)
    assert log.now().end == before
    log.refresh()
    assert log.now() == of(whole).now()
    assert log.now().end > before


def test_a_writers_slaves_get_what_it_has_written(tmp_path: Path) -> None:
    with open_writer(tmp_path / "store") as writer:
        log = WriterLog(writer, str(tmp_path / "store"))
        assert log.now() == MasterLog(0, 0, 4096)
        writer.append(Message("T", b"123456789", properties=b""))
        size = 91 + 1 + 9
        assert log.now() == MasterLog(0, size, 4096)
        raw = log.read(0, size)
        assert raw[:4] == size.to_bytes(4, "big")
        file = log.descriptor(0)
        assert os.pread(file or 0, size, 0) == raw
        os.close(file or 0)
