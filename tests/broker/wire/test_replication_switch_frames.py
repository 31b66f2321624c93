"""Frames under a controller: handshakes, reports and transfers, byte by byte."""

import struct

import pytest

from reput.broker.wire.replication import (
    LogChunk,
    MasterHello,
    ProtocolError,
    SlaveHello,
    SlaveReport,
    SwitchMasterReader,
    SwitchSlaveReader,
    Transfer,
    encode_master_hello,
    encode_slave_hello,
    encode_slave_report,
    encode_transfer,
)
from reput.store_format.log.groups import Epoch

EPOCHS = (Epoch(1, 0), Epoch(3, 700))


def test_layouts_are_those_of_the_page() -> None:
    """docs/formats/replication.md."""
    hello = encode_slave_hello(SlaveHello(False, True, 7))
    assert hello.hex(" ") == "00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 07"
    assert encode_slave_report(4100) == struct.pack(">iq", 2, 4100)
    assert encode_master_hello(MasterHello(900, 3, EPOCHS)) == struct.pack(
        ">iiqi iq iq".replace(" ", ""), 1, 24, 900, 3, 1, 0, 3, 700
    )
    head = encode_transfer(800, 5, EPOCHS[1], 750)
    assert (len(head), head) == (36, struct.pack(">iiqiqq", 2, 5, 800, 3, 700, 750))


@pytest.mark.parametrize("step", [1, 3, 28])
def test_what_a_slave_sends_is_read_in_pieces(step: int) -> None:
    raw = struct.pack(">ihhq", 1, 1, 0, -1) + struct.pack(">iq", 2, 10)
    reader, found = SwitchSlaveReader(), []
    for at in range(0, len(raw), step):
        found += reader.feed(raw[at : at + step])
    assert found == [SlaveHello(True, False, -1), SlaveReport(10)]


@pytest.mark.parametrize("step", [1, 7, 100])
def test_what_a_master_sends_is_read_in_pieces(step: int) -> None:
    raw = encode_master_hello(MasterHello(900, 3, EPOCHS))
    raw += encode_transfer(0, 4, EPOCHS[0], 0) + b"abcd" + encode_transfer(4, 0, EPOCHS[0], 4)
    reader, found = SwitchMasterReader(), []
    for at in range(0, len(raw), step):
        found += reader.feed(raw[at : at + step])
    chunks = [each for each in found if isinstance(each, LogChunk)]
    assert [each for each in found if not isinstance(each, LogChunk)] == [
        MasterHello(900, 3, EPOCHS), Transfer(0, 4, EPOCHS[0], 0), Transfer(4, 0, EPOCHS[0], 4),
    ]  # fmt: skip
    assert b"".join(chunk.data for chunk in chunks) == b"abcd"
    assert (chunks[-2].frame_ends, chunks[-1]) == (True, LogChunk(4, b"", True))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (struct.pack(">i", 0), "state 0 is neither"),
        (struct.pack(">i", 3), "state 3 is neither"),
        (struct.pack(">iq", 2, -1), "offset -1 is negative"),
    ],
)
def test_no_slave_sends_this(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        SwitchSlaveReader().feed(raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (struct.pack(">iiqi", 3, 0, 0, 0), "state 3 is neither"),
        (struct.pack(">iiqi", 1, 13, 0, 0), "size 13 is not that"),
        (struct.pack(">iiqi", 1, -12, 0, 0), "size -12 is not that"),
        (struct.pack(">iiqi", 1, 12 * 1001, 0, 0), "size 12012 is not that"),
        (struct.pack(">iiqiqq", 2, -1, 0, 1, 0, 0), "size -1 is not from 0"),
        (struct.pack(">iiqiqq", 2, 4 << 20, 0, 1, 0, 0), "is not from 0"),
        (struct.pack(">iiqiqq", 2, 1, -1, 1, 0, 0), "offset -1 is negative"),
    ],
)
def test_no_master_sends_this(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        SwitchMasterReader().feed(raw)


def test_a_master_without_epochs_or_a_log_shakes_hands_too() -> None:
    empty = MasterHello(0, -1, ())
    assert SwitchMasterReader().feed(encode_master_hello(empty)) == [empty]
    heartbeat = struct.pack(">iiqiqq", 2, 0, -1, -1, -1, 0)
    assert SwitchMasterReader().feed(heartbeat)[-1] == LogChunk(-1, b"", True)
    many = tuple(Epoch(number, number) for number in range(1001))
    assert len(encode_master_hello(MasterHello(0, 1000, many))) == 20 + 12 * 1000
