"""A replication master: whom a put waits for, and what one slave gets from it."""

from __future__ import annotations

import socket
import struct

import pytest

from reput.broker.wire.peers import MasterLog
from reput.jobs.replicating.master import HaMaster

LOG = bytes(range(200))
HERE = ("127.0.0.1", 0)


class Bytes:
    """A log of 200 bytes in segments of 128, which is in no file."""

    def now(self) -> MasterLog:
        return MasterLog(0, len(LOG), 128)

    def descriptor(self, segment: int) -> int | None:
        return None

    def read(self, at: int, size: int) -> bytes:
        return LOG[at : at + size]


def exactly(peer: socket.socket, size: int) -> bytes:
    raw = b""
    while len(raw) < size:
        more = peer.recv(size - len(raw))
        assert more, "the master closed the connection"
        raw += more
    return raw


@pytest.fixture
def master() -> HaMaster:
    return HaMaster(Bytes(), HERE)


@pytest.mark.parametrize(
    ("release", "options", "status"),
    [
        ("4.9.7", {}, "SLAVE_NOT_AVAILABLE"),  # at once, as no slave is there
        ("5.3.3", {}, "PUT_OK"),  # inSyncReplicas is 1: the master itself
        ("5.3.3", {"replicas": 0}, "PUT_OK"),
        ("5.3.3", {"replicas": 2, "timeout": 0.0}, "FLUSH_SLAVE_TIMEOUT"),
    ],
)
def test_without_slaves_each_release_answers_a_put_in_its_own_way(
    master: HaMaster, release: str, options: dict[str, float], status: str
) -> None:
    assert master.as_sync_master(release, **options)(200) == status  # type: ignore[arg-type]
    assert master.acked() == []
    master.stop()


def test_a_slave_gets_the_log_from_what_it_reports_and_a_put_waits_for_it(
    master: HaMaster,
) -> None:
    """HAConnection: the slave sends 8 bytes; a transfer is offset, size and body."""
    with master, socket.create_connection(master.address, 60) as peer:
        peer.sendall(struct.pack(">q", 100))
        assert struct.unpack(">qi", exactly(peer, 12)) == (100, 28)  # up to the segment's end
        assert exactly(peer, 28) == LOG[100:128]
        assert struct.unpack(">qi", exactly(peer, 12)) == (128, 72)
        assert exactly(peer, 72) == LOG[128:]
        assert master.wait_for(200, 0.0, replicas=2) == "FLUSH_SLAVE_TIMEOUT"
        peer.sendall(struct.pack(">q", 200))
        assert master.wait_for(200, 60, replicas=2) == "PUT_OK"
        assert master.acked() == [200]
        assert master.wait_for(201, 0.0, replicas=2) == "FLUSH_SLAVE_TIMEOUT"


def test_a_slave_is_told_of_when_it_comes_and_when_it_goes() -> None:
    said: list[str] = []
    master = HaMaster(Bytes(), HERE, said=said.append)
    master.start()
    with socket.create_connection(master.address, 60) as peer:
        peer.sendall(struct.pack(">q", 200))
        assert master.wait_for(200, 60, replicas=2) == "PUT_OK"
        master.stop()
        assert peer.recv(1 << 10) == b""
        name = "{}:{}".format(*peer.getsockname())
    assert said == [f"slave {name}: connected", f"slave {name}: this master ends"]
    with pytest.raises(OSError, match=r"refused|reset"):
        socket.create_connection(master.address, 60)
