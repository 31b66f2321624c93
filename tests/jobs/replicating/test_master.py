"""`reput append --ha-listen`: slaves get what is appended, and a SYNC_MASTER waits for them."""

import json
import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reput.broker.wire.peers import MasterLog
from reput.broker.wire.replication import TransferReader, encode_report
from reput.jobs.replicating.master import HaMaster, StoreLog, WriterLog
from reput.store_format.discover.store import StoreAt
from reput.store_format.files.local import LocalStorage
from reput.store_format.message.message import Message
from tests.broker.writer.appending import SIZES, bodies, run_append
from tests.broker.writer.stores import open_writer
from tests.jobs.replicating.stores import SEGMENT_BYTES, SETTINGS, log_of, make_store, record_starts
from tests.memory_storage import MemoryStorage

SYNC = ["--set", "brokerRole=SYNC_MASTER", "--set", "inSyncReplicas=2", "--set", "slaveTimeout=50"]


class Slave(threading.Thread):
    """Keeps what it gets, and tells so up to an offset; comes `after` so many seconds."""

    def __init__(self, port: int, tells: int, after: float = 0) -> None:
        super().__init__(daemon=True)
        self.port, self.tells, self.after = port, tells, after
        self.data = b""

    def run(self) -> None:
        time.sleep(self.after)
        with suppress(OSError):
            while True:
                try:
                    peer = socket.create_connection(("127.0.0.1", self.port))
                    break
                except ConnectionRefusedError:
                    time.sleep(0.01)
            with peer:
                reader = TransferReader()
                peer.sendall(encode_report(0))
                while received := peer.recv(1 << 16):
                    self.data += b"".join(part.data for part in reader.feed(received))
                    if len(self.data) <= self.tells:
                        peer.sendall(encode_report(len(self.data)))


def append(tmp_path: Path, slave: Slave, *words: str, count: int = 20) -> int:
    source = tmp_path / "messages.jsonl"
    lines = (json.dumps({"topic": "T", "body": str(number)}) for number in range(count))
    source.write_text("\n".join(lines) + "\n")
    slave.start()
    return run_append([str(tmp_path / "store"), "--from", str(source), *SIZES,
                       "--ha-listen", f"127.0.0.1:{slave.port}", *words])  # fmt: skip


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that is there may take its time: a loaded machine's is no slow slave."""
    wait = HaMaster.wait_for
    monkeypatch.setattr(
        HaMaster, "wait_for",
        lambda self, end, timeout, **more: wait(self, end, 60 if self.acked() else timeout, **more),
    )  # fmt: skip


@pytest.mark.usefixtures("patient")
def test_what_is_appended_is_on_a_slave_when_it_counts(tmp_path: Path, port: int) -> None:
    slave = Slave(port, 1 << 30, after=0.5)  # it is waited for, beyond slaveTimeout
    assert append(tmp_path, slave, *SYNC) == 0
    (log,) = log_of(tmp_path / "store").values()
    assert bodies(tmp_path / "store") == list(range(20))
    assert len(slave.data) > 20 * 80
    assert log.startswith(slave.data)
    assert not log[len(slave.data) :].strip(b"\0")


def test_a_message_that_no_slave_has_in_time_ends_it_and_stays(
    tmp_path: Path, port: int, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    slave = Slave(port, 500)  # of the fifth or so it tells nothing
    assert append(tmp_path, slave, *SYNC) == 3
    there = len(bodies(tmp_path / "store"))
    assert 2 < there <= 20  # a block of lines is put, and waited for, as one
    assert f"appended: --skip {there} goes on" in capsys.readouterr().err
    request.getfixturevalue("patient")
    more = append(tmp_path, Slave(port, 1 << 30), *SYNC, "--skip", str(there))
    assert (more, bodies(tmp_path / "store")) == (0, list(range(20)))


@pytest.mark.parametrize("words", [[], ["--set", "brokerRole=SYNC_MASTER"]])
def test_nobody_is_waited_for_where_rocketmq_would_not(tmp_path, port, words) -> None:
    """ASYNC_MASTER; and from 5.0.0 on with inSyncReplicas=1, which is the master itself."""
    slave = Slave(port, 1 << 30, after=60)
    assert append(tmp_path, slave, *words) == 0
    assert bodies(tmp_path / "store") == list(range(20))


def test_without_slaves_the_writer_warns(tmp_path, capsys) -> None:
    source = tmp_path / "m.jsonl"
    source.write_text('{"topic": "T", "body": "1"}\n')
    said: list[Any] = []
    for words in ([], ["--ha-listen", "127.0.0.1:0"]):
        store = tmp_path / f"store{len(said)}"
        role = ["--set", "brokerRole=SYNC_MASTER"]
        assert run_append([str(store), "--from", str(source), *SIZES, *role, *words]) == 0
        said.append("SYNC_MASTER: not done" in capsys.readouterr().out)
    assert said == [True, False]


# --- The log that slaves get: of a store up to its last whole record, of a writer what is in files.
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


def test_a_slave_is_told_of_when_it_comes_and_when_it_goes(root: Path) -> None:
    said: list[str] = []
    master = HaMaster(of(in_memory(root)), ("127.0.0.1", 0), said=said.append)
    master.start()
    _, end = record_starts(log_of(root))
    with socket.create_connection(master.address, 60) as peer:
        peer.sendall(struct.pack(">q", 0))  # which is reported, and where it begins
        stream = peer.makefile("rb")
        assert struct.unpack(">qi", stream.read(12)) == (0, end)
        assert stream.read(end) == log_of(root)[0][:end]
        peer.sendall(struct.pack(">q", end))
        assert master.wait_for(end, 60, replicas=2) == "PUT_OK"
        master.stop()
        assert peer.recv(1 << 10) == b""
        name = "{}:{}".format(*peer.getsockname())
    assert said == [f"slave {name}: connected", f"slave {name}: this master ends"]
    with pytest.raises(OSError, match=r"refused|reset"):
        socket.create_connection(master.address, 60)
