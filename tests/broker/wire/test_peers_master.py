"""What a master sends one slave next, and when it gives the slave up."""

import struct

import pytest

from reput.broker.wire.peers import MasterLog, Send, SlaveConnection
from reput.broker.wire.replication import ProtocolError

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
def test_no_piece_is_longer_than_a_batch_or_crosses_a_segments_end(
    offset: int, pieces: list[tuple[int, int]]
) -> None:
    assert sent(at(offset)) == pieces


def test_a_header_is_the_offset_and_the_size() -> None:
    assert at(2900).next(LOG, 0.0) == Send(struct.pack(">qi", 2900, 100), 2900, 100)


@pytest.mark.parametrize(("offset", "reason"), [(3001, "only to 3000"), (999, "begins at 1000")])
def test_a_slave_that_stands_beyond_the_log_or_before_it_is_refused(
    offset: int, reason: str
) -> None:
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
