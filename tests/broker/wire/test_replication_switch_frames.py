"""Frames under a controller: handshakes, reports and transfers, byte by byte."""

import struct

import pytest

from reput.broker.wire.replication import (
    LogChunk,
    ProtocolError,
    SwitchMasterReader,
    encode_slave_hello,
    encode_slave_report,
)

HELLO = struct.pack(">iiqiiqiq", 1, 24, 900, 3, 1, 0, 3, 700)


def transfer(offset: int, data: bytes) -> bytes:
    return struct.pack(">iiqiqq", 2, len(data), offset, 1, 0, 750) + data


def test_layouts_are_those_of_the_page() -> None:
    """docs/formats/replication.md."""
    assert encode_slave_hello(broker_id=7).hex(" ") == (
        "00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 07"
    )
    assert encode_slave_report(4100) == struct.pack(">iq", 2, 4100)


@pytest.mark.parametrize("step", [1, 7, 100])
def test_what_a_master_sends_is_read_in_pieces(step: int) -> None:
    raw = HELLO + transfer(0, b"abcd") + transfer(4, b"")
    reader, chunks = SwitchMasterReader(), list[LogChunk]()
    for at in range(0, len(raw), step):
        chunks += reader.feed(raw[at : at + step])
    assert b"".join(chunk.data for chunk in chunks) == b"abcd"
    assert (chunks[-2].frame_ends, chunks[-1]) == (True, LogChunk(4, b"", True))


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
    reader = SwitchMasterReader()
    assert reader.feed(struct.pack(">iiqi", 1, 0, 0, -1)) == []
    assert reader.shaken
    heartbeat = struct.pack(">iiqiqq", 2, 0, -1, -1, -1, 0)
    assert reader.feed(heartbeat) == [LogChunk(-1, b"", True)]
