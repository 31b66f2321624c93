"""What a master sends one slave next, when it gives the slave up, and what a slave takes."""

import struct

import pytest

from reput.broker.wire import peers
from reput.broker.wire.replication import LogChunk, ProtocolError, encode_slave_report

LOG = peers.MasterLog(1000, 3000, 1000)  # three segments of 1,000 bytes, the first of them expired
WHOLE = [(1000, 600), (1600, 400), (2000, 600), (2600, 400)]


def at(offset: int, now: float = 0.0, batch: int = 600) -> peers.SlaveConnection:
    """A slave that has reported once."""
    slave = peers.SlaveConnection(now, batch)
    slave.receive(struct.pack(">q", offset), LOG, now)
    return slave


def sent(slave: peers.SlaveConnection, log: peers.MasterLog = LOG) -> list[tuple[int, int]]:
    """(offset, size) of all that is due at once."""
    found = []
    while (send := slave.next(log, 0.0)) is not None:
        found.append((send.at, send.size))
    return found


def test_a_new_slave_gets_all_of_the_log() -> None:
    """Never over a segment's end: a slave could not append that (MappedFile.appendMessage)."""
    slave = peers.SlaveConnection(0.0)
    assert slave.next(LOG, 100.0) is None  # it has said nothing yet
    assert slave.acked == -1
    for offset, pieces in ((0, WHOLE), (1000, WHOLE), (1999, [(1999, 1), *WHOLE[2:]]), (3000, [])):
        assert sent(at(offset)) == pieces
    slave = at(1000)
    assert sent(slave)
    slave.receive(struct.pack(">q", 2000), LOG, 0.0)  # later ones only say what it has
    assert (slave.acked, sent(slave)) == (2000, [])
    assert at(2900).next(LOG, 0.0) == peers.Send(struct.pack(">qi", 2900, 100), 2900, 100)


@pytest.mark.parametrize(("offset", "reason"), [(3001, "only to 3000"), (999, "begins at 1000")])
def test_slaves_that_are_not_of_this_log(offset: int, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        at(offset)


def test_a_heartbeat_is_due_after_more_than_five_seconds_without_a_transfer() -> None:
    slave = at(3000)
    assert slave.next(LOG, 5.0) is None
    assert slave.next(LOG, 5.1) == peers.Send(struct.pack(">qi", 3000, 0), 3000, 0)
    assert slave.next(LOG, 10.0) is None
    assert (slave.silent(20.0), slave.silent(20.1)) == (False, True)
    slave.receive(b"", LOG, 15.0)
    assert not slave.silent(35.0)
    later = LOG._replace(end=3100)
    assert slave.next(later, 10.1) == peers.Send(struct.pack(">qi", 3000, 100), 3000, 100)


# --- What a slave reports, and which bytes of its master's it takes for its log.
HELLO = struct.pack(">iiqi", 1, 24, 900, 2) + struct.pack(">iqiq", 1, 0, 2, 300)


def transfer(offset: int, data: bytes) -> bytes:
    return struct.pack(">qi", offset, len(data)) + data


def switch_transfer(offset: int, data: bytes, confirmed: int) -> bytes:
    return struct.pack(">iiqiqq", 2, len(data), offset, 1, 0, confirmed) + data


def joined(parts: list[LogChunk]) -> list[tuple[int, bytes]]:
    return [(part.offset, part.data) for part in parts]


def test_a_slave_of_a_log_from_0_on_never_reports_0() -> None:
    """A master sends its last file only then (#9580). The first byte of a size is 0."""
    slave = peers.Slave(0)
    assert slave.hello(0.0) == struct.pack(">q", 1)
    assert slave.receive(transfer(1, b""), 0.0) == []
    parts = slave.receive(transfer(1, b"bc"), 0.0)
    assert parts == [LogChunk(0, b"\0", False), LogChunk(1, b"bc", True)]
    assert joined(slave.receive(transfer(3, b"d"), 0.0)) == [(3, b"d")]


def test_a_slave_asks_where_its_log_goes_on_and_reports_more_of_it_or_after_five_seconds() -> None:
    slave = peers.Slave(500)
    assert slave.hello(0.0) == struct.pack(">q", 500)
    assert joined(slave.receive(transfer(500, b"abc") + transfer(503, b""), 0.0)) == [(500, b"abc")]
    assert slave.report(503, 0.0) == struct.pack(">q", 503)
    slave = peers.Slave(500)
    slave.hello(0.0)
    assert slave.report(500, 5.0) == b""
    assert slave.report(499, 5.1) == struct.pack(">q", 500)  # never less than before
    assert slave.report(500, 10.0) == b""
    assert slave.report(501, 10.0) == struct.pack(">q", 501)


def test_a_master_is_silent_after_twenty_seconds() -> None:
    slave = peers.Slave(500)
    slave.hello(10.0)
    assert (slave.silent(30.0), slave.silent(30.1)) == (False, True)
    slave.receive(b"", 30.0)
    assert not slave.silent(50.0)


@pytest.mark.parametrize("offset", [0, 499, 501])
@pytest.mark.parametrize("data", [b"abc", b""])
def test_another_place_of_the_log_is_an_error(offset: int, data: bytes) -> None:
    with pytest.raises(peers.WrongOffset, match=f"from {offset} on, but it was asked for 500"):
        peers.Slave(500).receive(transfer(offset, data), 0.0)


def test_a_slave_in_controller_mode_shakes_hands_first() -> None:
    slave = peers.SwitchSlave(0)
    assert slave.hello(0.0) == struct.pack(">ihhq", 1, 0, 1, 0)
    assert slave.report(0, 9.0) == b""
    assert slave.receive(HELLO, 9.0) == []
    assert slave.report(50, 9.0) == encode_slave_report(0)  # where the master is to begin
    assert slave.report(50, 9.0) == encode_slave_report(50)  # how far it is
    assert slave.report(50, 9.0) == b""
    with pytest.raises(ProtocolError, match="before its handshake"):
        peers.SwitchSlave(0).receive(switch_transfer(0, b"x", 0), 0.0)
    slave = peers.SwitchSlave(200)
    slave.receive(HELLO, 0.0)
    for place, confirmed in ((200, 150), (201, 100), (202, 202)):  # what all replicas have
        assert joined(slave.receive(switch_transfer(place, b"x", confirmed), 0.0)) == [
            (place, b"x")]  # fmt: skip
    assert slave.receive(struct.pack(">iiqiqq", 2, 0, -1, -1, -1, 0), 0.0) == []  # an empty log's


# --- When a put counts as replicated (HAService.isSlaveOK, doWaitTransfer).
def test_when_a_put_counts_as_replicated() -> None:
    """masterPutWhere - push2SlaveMaxOffset < gap; of more replicas the master counts as one."""
    for pushed, near in ((1000, True), (901, True), (900, False), (2000, True)):
        assert peers.is_slave_ok(1000, True, pushed, gap=100) is near
        assert not peers.is_slave_ok(1000, False, pushed, gap=100)
    for replicas in (1, 0, -1):  # any slave that ever had it
        assert peers.is_replicated(1000, [], 1000, replicas)
        assert not peers.is_replicated(1000, [5000, 5000], 999, replicas)
    for acked, many, enough in (
        ([], 2, False), ([1000], 2, True), ([999], 2, False), ([999, 1000, 4], 2, True),
        ([1000, 1000], 3, True), ([1000, 999], 3, False), ([-1, -1, -1], 2, False)):  # fmt: skip
        assert peers.is_replicated(1000, iter(acked), 9999, many) == enough
