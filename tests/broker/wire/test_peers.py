"""What a master sends one slave next, and when it gives the slave up."""

import struct

import pytest

from reput.broker.wire.peers import (
    MasterLog,
    Send,
    Slave,
    SlaveConnection,
    SwitchSlave,
    WrongOffset,
    is_replicated,
    is_slave_ok,
    runtime_info,
)
from reput.broker.wire.replication import LogChunk, ProtocolError

LOG = MasterLog(1000, 3000, 1000)  # three segments of 1,000 bytes, the first of them expired


def at(offset: int, now: float = 0.0, batch: int = 600) -> SlaveConnection:
    """A slave that has reported once."""
    slave = SlaveConnection(now, batch)
    slave.receive(struct.pack(">q", offset), LOG, now)
    return slave


def sent(slave: SlaveConnection, log: MasterLog = LOG) -> list[tuple[int, int]]:
    """(offset, size) of all that is due at once."""
    found = []
    while (send := slave.next(log, 0.0)) is not None:
        found.append((send.at, send.size))
    return found


def test_nothing_is_sent_before_the_first_report() -> None:
    slave = SlaveConnection(0.0)
    assert slave.next(LOG, 100.0) is None
    assert slave.acked == -1


@pytest.mark.parametrize(
    ("offset", "pieces"),
    [
        (0, [(1000, 600), (1600, 400), (2000, 600), (2600, 400)]),  # a new slave gets all
        (1000, [(1000, 600), (1600, 400), (2000, 600), (2600, 400)]),
        (1999, [(1999, 1), (2000, 600), (2600, 400)]),
        (3000, []),
    ],
)
def test_no_piece_is_longer_than_a_batch_or_crosses_a_segments_end(offset, pieces) -> None:
    assert sent(at(offset)) == pieces


def test_a_header_is_the_offset_and_the_size() -> None:
    assert at(2900).next(LOG, 0.0) == Send(struct.pack(">qi", 2900, 100), 2900, 100)


@pytest.mark.parametrize(("offset", "reason"), [(3001, "only to 3000"), (999, "begins at 1000")])
def test_a_slave_that_stands_beyond_the_log_or_before_it_is_refused(offset, reason) -> None:
    with pytest.raises(ProtocolError, match=reason):
        at(offset)


def test_later_reports_only_say_what_the_slave_has() -> None:
    slave = at(1000)
    assert sent(slave)
    slave.receive(struct.pack(">q", 2000), LOG, 0.0)
    assert (slave.acked, sent(slave)) == (2000, [])


def test_a_heartbeat_is_due_after_more_than_five_seconds_without_a_transfer() -> None:
    slave = at(3000)
    assert slave.next(LOG, 5.0) is None
    assert slave.next(LOG, 5.1) == Send(struct.pack(">qi", 3000, 0), 3000, 0)
    assert slave.next(LOG, 10.0) is None
    assert not slave.silent(20.0)
    assert slave.silent(20.1)
    slave.receive(b"", LOG, 15.0)
    assert not slave.silent(35.0)


# --- What a slave reports, and which bytes of its master's it takes for its log.
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


# --- What a master answers that is none.
def test_figures_of_a_broker_are_texts() -> None:
    body = b'{"table":{"commitLogMinOffset":"0","a":5}}'
    assert runtime_info(body) == {"commitLogMinOffset": "0", "a": "5"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"table":[1]}', b'{"table":null}', b"[" * 99_999]
)
def test_a_body_without_figures_is_an_error(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="GET_BROKER_RUNTIME_INFO"):
        runtime_info(body)


# --- When a put counts as replicated (HAService.isSlaveOK, GroupTransferService.doWaitTransfer).
@pytest.mark.parametrize(
    ("connected", "pushed", "near"),
    [
        (True, 1000, True),
        (True, 901, True),
        (True, 900, False),  # strictly less than the gap
        (True, 2000, True),  # behind the put
        (False, 1000, False),
    ],
)
def test_a_slave_is_near_where_less_than_the_gap_is_missing(connected, pushed, near) -> None:
    assert is_slave_ok(1000, connected, pushed, gap=100) == near


@pytest.mark.parametrize("replicas", [1, 0, -1])
def test_for_one_replica_any_slave_that_ever_had_it_is_enough(replicas: int) -> None:
    assert is_replicated(1000, [], 1000, replicas)
    assert not is_replicated(1000, [5000, 5000], 999, replicas)


@pytest.mark.parametrize(
    ("acked", "replicas", "enough"),
    [
        ([], 2, False),
        ([1000], 2, True),
        ([999], 2, False),
        ([999, 1000, 4], 2, True),
        ([1000, 1000], 3, True),
        ([1000, 999], 3, False),
        ([-1, -1, -1], 2, False),  # nothing reported yet
    ],
)
def test_of_more_the_master_counts_as_one(acked: list[int], replicas: int, enough: bool) -> None:
    assert is_replicated(1000, iter(acked), 9999, replicas) == enough
