"""Over loopback: our master and our slave, kills of either side, and peers that are neither."""

import json
import os
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reput.broker.wire import peers
from reput.broker.wire.remoting import Command
from reput.broker.wire.remoting import frame as remoting_frame
from reput.broker.wire.replication import encode_header, encode_report
from reput.jobs import cli
from reput.jobs.replicate import replicate_from
from reput.jobs.replicating import from_master as replica_wire
from reput.jobs.replicating.master import HaMaster, StoreLog, WriterLog
from reput.jobs.replicating.target import ReplicaDiffers, Replicated
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.message.message import Message
from tests.broker.writer.stores import TINY, Clock, open_writer
from tests.jobs.replicating import stores
from tests.jobs.replicating.switch_master import SwitchConnection
from tests.processes import until
from tests.trees import flip

SIZES = {name: str(value) for name, value in TINY.items()}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_wire, "_BACKOFF", (0.01, 0.02))
    monkeypatch.setattr(replica_wire, "_LOOK_SECONDS", 0.02)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return stores.make_store(tmp_path / "source")


def store_log(source: Path) -> StoreLog:
    return StoreLog(StoreAt(LocalStorage(), str(source), "5.3.3", stores.SETTINGS))


@contextmanager
def master(
    source: Path, batch: int = 700, controller: bool = False, **more: Any
) -> Iterator[HaMaster]:
    begin = partial(SwitchConnection if controller else peers.SlaveConnection, batch=batch)
    with HaMaster(store_log(source), ("127.0.0.1", 0), begin=begin, **more) as running:
        yield running


def copy(port: int, target: Path, end: int | None = None, **options: object) -> Replicated:
    options.setdefault("from_offset", 0)
    return replicate_from(
        f"127.0.0.1:{port}", str(target), broker="", rocketmq="5.3.3", settings=stores.SETTINGS,
        to_offset=end, **options,  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("controller", [False, True])
def test_the_same_bytes_and_derived_files(tmp_path: Path, controller: bool) -> None:
    """It goes on, and reports what it has."""
    source, target, other = (tmp_path / name for name in ("source", "replica", "other"))
    records = 0
    for count in (1, 14, 40):
        stores.make_store(source, count)
        end = stores.record_starts(stores.log_of(source))[1]
        with master(source, controller=controller) as running:
            about = copy(running.address[1], target, end, controller=controller)
        records += about.records
        assert stores.check_prefix(source, target) == about.end == end
    assert records == 40
    assert stores.log_of(target) == stores.log_of(source)
    stores.run(source, other)
    found, wanted = stores.derived(target), stores.derived(other)
    assert found | {"index": 0} == wanted | {"index": 0}


@contextmanager
def many_files(count: int) -> Iterator[None]:
    """As a process whose next file has a descriptor beyond `count`."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2 * count:
        pytest.skip(f"at most {limits[1]} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count, limits[1]))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        for _ in range(count):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield


def test_descriptors_beyond_those_of_select(source: Path, tmp_path: Path) -> None:
    end = stores.record_starts(stores.log_of(source))[1]
    with many_files(1100), master(source) as running:
        copy(running.address[1], tmp_path / "replica", end)
    assert stores.log_of(tmp_path / "replica") == stores.log_of(source)


def test_a_log_that_does_not_begin_at_0(source: Path, tmp_path: Path) -> None:
    (source / f"commitlog/{0:020d}").unlink()
    end = stores.record_starts(stores.log_of(source))[1]
    with master(source) as running:
        copy(running.address[1], tmp_path / "replica", end, from_offset=2048)
        with pytest.raises(StoreError, match="nobody tells"):
            copy(running.address[1], tmp_path / "other", end, from_offset=None)
    assert stores.log_of(tmp_path / "replica") == stores.log_of(source)


def test_nothing_is_reported_before_what_was_asked_for_came(source: Path, tmp_path: Path) -> None:
    """A master begins at the last of the reports that it finds."""
    target, heard = tmp_path / "replica", []
    stores.run(source, target, to_offset=3000)

    def talk(connected: socket.socket) -> None:
        connected.settimeout(0.3)
        try:
            heard.append(connected.recv(8))
        except TimeoutError:
            heard.append(b"nothing")

    with peer(talk) as port, pytest.raises(StoreError, match="given up"):
        copy(port, target, 4000)
    assert set(heard) == {b"nothing"}


def test_another_log_is_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "replica"
    stores.run(source, target, to_offset=3000)
    path = target / f"commitlog/{2048:020d}"
    raw = bytearray(path.read_bytes())
    starts, _ = stores.record_starts(stores.log_of(target))
    raw[starts[-1] - 2048 + 60] ^= 1
    path.write_bytes(raw)
    with master(source) as running, pytest.raises(ReplicaDiffers, match="not the master's"):
        copy(running.address[1], target, 4000)


@pytest.mark.parametrize("same_end", [False, True])
def test_a_replica_with_what_its_new_master_has_not_is_refused(same_end, source, tmp_path) -> None:
    """As after a failover: records that were never on the other broker; others took their place,
    or none yet. The broker says where its log ends, and nothing new is to come.
    """
    target = tmp_path / "replica"
    starts, end = stores.record_starts(stores.log_of(source))
    stores.run(source, target, derive=False)
    if same_end:
        path = source / f"commitlog/{starts[-1] - starts[-1] % 2048:020d}"
        flip(path, starts[-1] % 2048 + 40)  # of bornTimestamp: no CRC covers it
    else:
        stores.put_end(source, starts[-1])
    info = {"commitLogMinOffset": "0", "brokerVersionDesc": "V5_3_3"}
    info["commitLogMaxOffset"] = str(end if same_end else starts[-1])
    with master(source) as running, broker(info, stores.SETTINGS) as port:
        words = f"127.0.0.1:{running.address[1]}", str(target)
        says = "not the master's" if same_end else f"the master's log ends at {starts[-1]}"
        with pytest.raises(ReplicaDiffers, match=says):
            replicate_from(*words, broker=f"127.0.0.1:{port}")


def test_the_master_is_killed_again_and_again(tmp_path: Path) -> None:
    """Thirty times in the middle of whatever it sends: the slave connects again and goes on."""
    source = stores.make_store(tmp_path / "source", 150)
    target, log = tmp_path / "replica", store_log(source)
    end = log.now().end
    port, ready = 0, threading.Event()
    ends: list[int] = []

    def flicker() -> None:
        nonlocal port
        rest = b"".join(data for _, data in sorted(stores.log_of(source).items()))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            ready.set()
            for number in range(31):
                peer, _ = listener.accept()
                asked = struct.unpack(">q", peer.recv(8, socket.MSG_WAITALL))[0]
                frame, to = b"", min(asked + 1300, end)
                while asked < to:
                    piece = rest[asked : min(to, asked - asked % 2048 + 2048)]
                    frame += encode_header(asked, len(piece)) + piece
                    asked += len(piece)
                whole = number % 3 == 2
                peer.sendall(frame if whole else frame[: len(frame) * (number % 7) // 7])
                if whole:
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(100):  # else what was sent may be lost with a reset
                        pass
                peer.close()
                ends.append(stores.check_prefix(source, target))

    thread = threading.Thread(target=flicker, daemon=True)
    thread.start()
    assert ready.wait(60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica_wire, "_TRIES", 5)
        with pytest.raises(StoreError, match="given up"):
            copy(port, target, end)
    thread.join(60)
    assert len(ends) == 31
    assert ends == sorted(ends)
    assert len(set(ends)) > 6
    with master(source) as running:
        about = copy(running.address[1], target, end)
    assert about.end == end
    assert stores.log_of(target) == stores.log_of(source)


@pytest.mark.parametrize("step", [31, pytest.param(5, marks=pytest.mark.long)])
def test_the_slave_is_killed_at_many_operations(step: int, source: Path, tmp_path: Path) -> None:
    target, end = tmp_path / "replica", stores.record_starts(stores.log_of(source))[1]
    with master(source) as running:
        for at in range(2, 1000, step):
            stores.clear(target)
            killed = False
            with stores.killing(stores.Kills(at)):
                try:
                    copy(running.address[1], target, end)
                except stores.Killed:
                    killed = True
            if target.exists():
                stores.check_prefix(source, target)
            copy(running.address[1], target, end)
            assert stores.log_of(target) == stores.log_of(source), at
            if not killed:
                assert at > 60
                return
    raise AssertionError("it never came to its end")


# --- hostile masters -----------------------------------------------------------------------------
@contextmanager
def peer(talk: Callable[[socket.socket], None], first: int = 8) -> Iterator[int]:
    """A master that does this with each connection, when so many bytes have come."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connected, _ = listener.accept()
                except OSError:
                    return
                with connected:
                    try:
                        connected.recv(first, socket.MSG_WAITALL)
                        talk(connected)
                    except OSError:
                        continue

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("frame", "said"),
                         [(encode_header(1, (1 << 31) - 1), "size 2147483647"),
                          (encode_header(1, -7), "size -7"), (b"\xff" * 12, "negative"),
                          (encode_header(1, 60) + b"\0" * 60, "zeros"),
                          (encode_header(1, 60) + b"\x7f" * 60, "totalSize"),
                          (encode_header(1, 60)[:5], "closed the connection")])  # fmt: skip
def test_a_master_that_is_none(tmp_path: Path, frame: bytes, said: str) -> None:
    target = tmp_path / "replica"
    with pytest.MonkeyPatch.context() as patch, peer(lambda other: other.sendall(frame)) as port:
        patch.setattr(replica_wire, "_TRIES", 2)
        with pytest.raises(StoreError, match=said):
            copy(port, target, 4000)
    starts, end = stores.record_starts(stores.log_of(target))
    assert (starts, end) == ([], 0)


def test_a_frame_over_the_ends_of_segments(source: Path, tmp_path: Path) -> None:
    """No RocketMQ sends one; it is the same log."""
    raw = b"".join(data for _, data in sorted(stores.log_of(source).items()))
    end = stores.record_starts(stores.log_of(source))[1]
    frame = encode_header(1, end - 1) + raw[1:end]
    with peer(lambda other: (other.sendall(frame), other.recv(100))) as port:  # type: ignore[arg-type, return-value]
        copy(port, tmp_path / "replica", end, derive=False)
    assert stores.log_of(tmp_path / "replica") == stores.log_of(source)


def command(port: int, target: Path, capsys, *more: str) -> tuple[int, str]:
    """Exit code and errors of a replication from a peer, as a command."""
    words = ["replicate", "--master", f"127.0.0.1:{port}", str(target), "--broker", ""]
    words += ["--from-offset", "0", "--rocketmq", "5.3.3", *more]
    words += [
        word for name, size in stores.SETTINGS.items() for word in ("--set", f"{name}={size}")
    ]
    return cli.main(words), capsys.readouterr().err


def test_a_master_that_sends_another_place(tmp_path: Path, capsys) -> None:
    """It is the peer's fault, and the next connection would bring the same."""
    frame, heard = encode_header(4096, 5) + b"abcde", []

    def talk(other: socket.socket) -> None:
        heard.append(other)
        other.sendall(frame)

    with peer(talk) as port:
        code, errors = command(port, tmp_path / "replica", capsys)
    assert code == 3
    assert errors.startswith(f"reput: error: 127.0.0.1:{port}: the master sends its log from 4096")
    assert "should not happen" not in errors
    assert len(heard) == 1


@contextmanager
def broker(info: dict[str, str], settings: dict[str, str]) -> Iterator[int]:
    """A broker's own port, which says this of itself."""
    table = json.dumps({"table": info}).encode()
    config = "\n".join(f"{name}={value}" for name, value in settings.items()).encode()

    def answer(other: socket.socket) -> None:
        asked = json.loads(other.recv(4096)[8:])
        body = {28: table, 26: config}.get(asked["code"], b"")
        other.sendall(remoting_frame(Command(0, asked["opaque"], 1, body=body)))

    with peer(answer, 0) as port:
        yield port


@pytest.mark.parametrize("follow", [[], ["--follow"]])
def test_garbage_is_given_up_soon(follow: list[str], tmp_path: Path, capsys) -> None:
    """Also between connections that break: those of a master that is down are tried longer."""
    heard: list[int] = []

    def talk(other: socket.socket) -> None:
        heard.append(1)
        if len(heard) % 2:
            other.sendall(b"\xff" * 12)

    with peer(talk) as port:
        code, errors = command(port, tmp_path / "replica", capsys, *follow)
    assert code == 3
    assert f"127.0.0.1:{port}: transfer header: offset -1 is negative" in errors
    assert len(heard) == 5


@pytest.mark.parametrize("says",
                         [{"mappedFileSizeCommitLog": "-1"}, {"mappedFileSizeCommitLog": "1"},
                          {"mappedFileSizeCommitLog": "9" * 30}, {"messageDelayLevel": "1x"},
                          {"commitLogMinOffset": "9223372036854775000"},
                          {"commitLogMaxOffset": "9" * 30}, {"brokerVersionDesc": ""}])  # fmt: skip
def test_a_broker_that_says_what_cannot_be(says, source, tmp_path, capsys) -> None:
    """Whatever it says of itself: one line with its address, or a replica of what it sends."""
    got = {"commitLogMinOffset": "0", "commitLogMaxOffset": "4000", "brokerVersionDesc": "V5_3_3",
            **stores.SETTINGS, **says}  # fmt: skip
    with master(source) as running, broker(got, got) as port:
        words = ["replicate", "--master", f"127.0.0.1:{running.address[1]}", str(tmp_path / "r")]
        words += ["--broker", f"127.0.0.1:{port}", "--follow", "--idle", "0.1"]
        code = cli.main(words)
    errors = capsys.readouterr().err
    if code:
        assert code == 3
        assert f"127.0.0.1:{port}" in errors or f"127.0.0.1:{running.address[1]}" in errors
        assert "should not happen" not in errors


def test_a_master_that_is_silent(tmp_path: Path) -> None:
    def listen(other: socket.socket) -> None:
        while other.recv(100):
            pass

    with pytest.MonkeyPatch.context() as patch, peer(listen) as port:
        patch.setattr(replica_wire, "_TRIES", 2)
        patch.setattr("reput.broker.wire.peers.HOUSEKEEPING_SECONDS", 0.05)
        with pytest.raises(StoreError, match="silent for too long"):
            copy(port, tmp_path / "replica", 4000)


# --- slaves of our master ------------------------------------------------------------------------
def test_waiting_for_a_replica(source: Path) -> None:
    end = stores.record_starts(stores.log_of(source))[1]
    with master(source) as running:
        assert running.wait_for(end, 0.01) == peers.FLUSH_SLAVE_TIMEOUT
        assert running.wait_for(end, 0.01, gap=1 << 28) == peers.SLAVE_NOT_AVAILABLE
        with socket.create_connection(running.address) as slave:
            slave.sendall(encode_report(0))
            assert until(lambda: running.acked() == [0])
            assert running.wait_for(end, 0.01, gap=1 << 28) == peers.FLUSH_SLAVE_TIMEOUT
            assert running.wait_for(end, 0.01, gap=end) == peers.SLAVE_NOT_AVAILABLE
            threading.Timer(0.05, slave.sendall, (encode_report(end),)).start()
            assert running.wait_for(end, 60, gap=1 << 28) == peers.PUT_OK
            assert running.wait_for(end, 0.01, replicas=3) == peers.FLUSH_SLAVE_TIMEOUT
        assert until(lambda: not running.acked())
        assert running.wait_for(end, 0.01) == peers.PUT_OK  # push2SlaveMaxOffset stays


def test_a_writer_waits_for_its_slaves(tmp_path: Path) -> None:
    """SYNC_MASTER: of 4.x any slave that is near enough, of 5.x inSyncReplicas of them."""
    message = Message(topic="T", body=b"b" * 100)
    with open_writer(tmp_path / "store", Clock()) as writer:
        writer.append(message)
        log = WriterLog(writer, str(tmp_path / "store"))
        with HaMaster(log, ("127.0.0.1", 0)) as running:
            of_4 = running.as_sync_master("4.9.7", timeout=0.05)
            of_5 = running.as_sync_master("5.3.3", timeout=0.05, replicas=2)
            writer.replicated = of_4
            assert writer.append(message).status == peers.SLAVE_NOT_AVAILABLE
            assert writer.append(replace(message, wait=False)).status == peers.PUT_OK
            writer.replicated = of_5
            assert writer.append(message).status == peers.FLUSH_SLAVE_TIMEOUT
            writer.replicated = running.as_sync_master("5.3.3", timeout=0.05)
            assert writer.append(message).status == peers.PUT_OK
            ended = threading.Event()

            def follow() -> None:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(replica_wire.WireReplication, "_over", lambda _: ended.is_set())
                    replicate_from(
                        f"127.0.0.1:{running.address[1]}", str(tmp_path / "replica"), broker="",
                        rocketmq="5.3.3", settings=SIZES, from_offset=0, follow=True, derive=False,
                    )  # fmt: skip

            slave = threading.Thread(target=follow, daemon=True)
            slave.start()
            assert until(lambda: running.acked() == [log.now().end])
            for waiting in (of_4, of_5):
                writer.replicated = waiting
                writer.append(replace(message, wait=False))
                for _ in range(3):
                    running_long = running.as_sync_master(
                        "4.9.7" if waiting is of_4 else "5.3.3", timeout=60, replicas=2
                    )
                    writer.replicated = running_long
                    assert writer.append(message).status == peers.PUT_OK
                    assert running.acked() == [log.now().end]
            ended.set()
            slave.join(60)
    names = sorted(path.name for path in (tmp_path / "replica/commitlog").iterdir())
    assert names
    for name in names:
        ours = (tmp_path / "replica/commitlog" / name).read_bytes()
        assert ours == (tmp_path / "store/commitlog" / name).read_bytes()


def test_slaves_that_are_none_go_and_others_stay(source: Path, tmp_path: Path) -> None:
    end = stores.record_starts(stores.log_of(source))[1]
    said: list[str] = []
    with master(source, said=said.append) as running:
        for junk in (b"\xff" * 8, encode_report(end + 1), b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(running.address) as slave:
                slave.sendall(junk)
                assert slave.recv(100) == b""
        idle = [socket.create_connection(running.address) for _ in range(20)]
        assert until(lambda: len(running.acked()) == 16)
        assert until(lambda: sum("refused" in line for line in said) >= 4)
        for each in idle:
            each.close()
        assert until(lambda: not running.acked())
        copy(running.address[1], tmp_path / "replica", end, derive=False)
    assert stores.log_of(tmp_path / "replica") == stores.log_of(source)
