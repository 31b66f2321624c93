"""What a slave reports, and which bytes of its master's it takes for its log."""

import struct

import pytest

from reput.broker.wire.peers import Slave, SwitchSlave, WrongOffset
from reput.broker.wire.replication import LogChunk, ProtocolError

EPOCHS = ((1, 0), (2, 300))


def transfer(offset: int, data: bytes) -> bytes:
    return struct.pack(">qi", offset, len(data)) + data


def master_hello() -> bytes:
    entries = b"".join(struct.pack(">iq", *each) for each in EPOCHS)
    return struct.pack(">iiqi", 1, len(entries), 900, 2) + entries


def switch_transfer(offset: int, data: bytes, confirmed: int) -> bytes:
    return struct.pack(">iiqiqq", 2, len(data), offset, 1, 0, confirmed) + data


def joined(parts: list[LogChunk]) -> list[tuple[int, bytes]]:
    return [(part.offset, part.data) for part in parts]


def test_a_slave_asks_where_its_log_is_to_go_on() -> None:
    slave = Slave(500)
    assert slave.hello(0.0) == struct.pack(">q", 500)
    assert joined(slave.receive(transfer(500, b"abc") + transfer(503, b""), 0.0)) == [(500, b"abc")]
    assert slave.report(503, 0.0) == struct.pack(">q", 503)


def test_a_slave_of_a_whole_log_never_says_0_and_adds_the_byte_that_is_not_sent() -> None:
    slave = Slave(0)
    assert slave.hello(0.0) == struct.pack(">q", 1)
    assert slave.receive(transfer(1, b""), 0.0) == []
    assert joined(slave.receive(transfer(1, b"bc"), 0.0)) == [(0, b"\0"), (1, b"bc")]
    assert joined(slave.receive(transfer(3, b"d"), 0.0)) == [(3, b"d")]


def test_a_report_is_due_for_more_of_the_log_or_after_five_seconds() -> None:
    slave = Slave(500)
    slave.hello(0.0)
    assert slave.report(500, 5.0) == b""
    assert slave.report(499, 5.1) == struct.pack(">q", 500)  # never less than before
    assert slave.report(500, 10.0) == b""
    assert slave.report(501, 10.0) == struct.pack(">q", 501)


def test_a_master_is_silent_after_twenty_seconds() -> None:
    slave = Slave(500)
    slave.hello(10.0)
    assert (slave.silent(30.0), slave.silent(30.1)) == (False, True)
    slave.receive(b"", 30.0)
    assert not slave.silent(50.0)


@pytest.mark.parametrize("offset", [0, 499, 501])
@pytest.mark.parametrize("data", [b"abc", b""])
def test_another_place_of_the_log_is_refused(offset: int, data: bytes) -> None:
    with pytest.raises(WrongOffset, match=f"from {offset} on, but it was asked for 500"):
        Slave(500).receive(transfer(offset, data), 0.0)


def test_under_a_controller_the_first_report_follows_the_masters_handshake() -> None:
    slave = SwitchSlave(0)
    assert slave.hello(0.0) == struct.pack(">ihhq", 1, 0, 1, 0)
    assert slave.report(0, 9.0) == b""
    assert slave.receive(master_hello(), 9.0) == []
    assert slave.report(0, 9.0) == struct.pack(">iq", 2, 0)
    assert slave.report(0, 9.0) == b""


def test_what_all_replicas_have_is_passed_over() -> None:
    slave = SwitchSlave(200)
    slave.receive(master_hello(), 0.0)
    for at, confirmed in ((200, 150), (201, 100), (202, 202)):
        parts = slave.receive(switch_transfer(at, b"x", confirmed), 0.0)
        assert joined(parts) == [(at, b"x")]
    assert slave.receive(struct.pack(">iiqiqq", 2, 0, -1, -1, -1, 0), 0.0) == []  # an empty log's


def test_a_log_before_the_handshake_is_refused() -> None:
    with pytest.raises(ProtocolError, match="before its handshake"):
        SwitchSlave(0).receive(switch_transfer(0, b"x", 0), 0.0)
