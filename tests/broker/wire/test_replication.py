"""Reports and transfers of replication, in whatever pieces they come."""

import struct

import pytest

from reput.broker.wire.replication import (
    LogChunk,
    ProtocolError,
    ReportReader,
    SwitchMasterReader,
    TransferReader,
)

MOST = (4 << 20) - 12  # DefaultHAClient.READ_MAX_BUFFER_SIZE, less the header


def test_the_last_whole_report_counts_and_a_rest_waits() -> None:
    reader = ReportReader()
    first, second, third = (struct.pack(">q", offset) for offset in (1, 2, 3))
    assert reader.feed(b"") is None
    assert reader.feed(first[:7]) is None
    assert reader.feed(first[7:] + second + third[:4]) == 2
    assert reader.feed(third[4:]) == 3


@pytest.mark.parametrize("cut", [1, 5, 11, 12, 13, 14])
def test_a_transfer_may_be_cut_anywhere(cut: int) -> None:
    raw = (
        struct.pack(">qi", 500, 3)
        + b"abc"
        + struct.pack(">qi", 503, 0)
        + struct.pack(">qi", 503, 1)
        + b"d"
    )
    reader = TransferReader()
    chunks = [*reader.feed(raw[:cut]), *reader.feed(raw[cut:])]
    assert b"".join(chunk.data for chunk in chunks) == b"abcd"
    assert chunks[-2:] == [LogChunk(503, b"", True), LogChunk(503, b"d", True)]
    at = 500
    for chunk in chunks:
        assert chunk.offset == at
        at += len(chunk.data)
    assert [chunk.frame_ends for chunk in chunks[-3:]] == [True] * 3
    assert not any(chunk.frame_ends for chunk in chunks[:-3])


@pytest.mark.parametrize(
    ("offset", "size", "field"),
    [
        (-1, 0, "offset -1"),
        (0, -1, "size -1"),
        (0, MOST + 1, f"size {MOST + 1}"),
        (0, 0x7FFFFFFF, "size"),
    ],
)
def test_a_header_that_no_slave_could_take_is_refused(offset: int, size: int, field: str) -> None:
    with pytest.raises(ProtocolError, match=field):
        TransferReader().feed(struct.pack(">qi", offset, size))


def test_the_longest_transfer_is_taken_and_nothing_of_it_is_held() -> None:
    reader = TransferReader()
    assert reader.feed(struct.pack(">qi", 0, MOST)) == []
    assert reader.feed(b"xy") == [LogChunk(0, b"xy", False)]


def test_a_negative_report_is_refused_where_it_is_the_last() -> None:
    with pytest.raises(ProtocolError, match="offset -5 is negative"):
        ReportReader().feed(struct.pack(">qq", 1, -5))


# --- Frames under a controller: handshakes, reports and transfers, byte by byte.
HELLO = struct.pack(">iiqiiqiq", 1, 24, 900, 3, 1, 0, 3, 700)


def transfer(offset: int, data: bytes) -> bytes:
    return struct.pack(">iiqiqq", 2, len(data), offset, 1, 0, 750) + data


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
