"""The replication protocols as bytes: in whatever pieces they come, hostile peers, the page."""

import re
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.broker.wire import replication

MOST = (4 << 20) - 12  # DefaultHAClient.READ_MAX_BUFFER_SIZE, less the header


def joined(parts: list[replication.LogChunk]) -> list[tuple[int, bytes]]:
    """The frames, whatever pieces their bytes came in."""
    found: list[tuple[int, bytes]] = []
    ended = True
    for part in parts:
        if ended:
            found.append((part.offset, part.data))
        else:
            assert part.offset == found[-1][0] + len(found[-1][1])
            found[-1] = (found[-1][0], found[-1][1] + part.data)
        ended = part.frame_ends
    return found


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.binary(max_size=40)), max_size=6),
       st.lists(st.integers(0, 400), max_size=8))  # fmt: skip
def test_transfers_in_any_pieces(frames: list[tuple[int, bytes]], places: list[int]) -> None:
    raw = b"".join(struct.pack(">qi", offset, len(data)) + data for offset, data in frames)
    at = [0, *sorted({place % (len(raw) + 1) for place in places}), len(raw)]
    reader = replication.TransferReader()
    pieces = [raw[low:high] for low, high in pairwise(at)]
    assert joined([part for piece in pieces for part in reader.feed(piece)]) == frames


@pytest.mark.parametrize("size", [-1, -(1 << 31), replication.FRAME_MOST + 1, (1 << 31) - 1])
def test_a_size_that_no_slave_could_take_is_refused(size: int) -> None:
    with pytest.raises(replication.ProtocolError, match=f"size {size}"):
        replication.TransferReader().feed(struct.pack(">qi", 5, size))
    with pytest.raises(replication.ProtocolError, match="size"):
        replication.SwitchMasterReader().feed(struct.pack(">iiqiqq", 2, size, 5, 1, 0, 0))


@given(st.binary(max_size=200))
def test_anything_else_is_an_error_or_waits(raw: bytes) -> None:
    kinds = replication.TransferReader, replication.ReportReader, replication.SwitchMasterReader
    for reader in (kind() for kind in kinds):
        try:
            reader.feed(raw)
        except replication.ProtocolError:
            continue


def test_the_last_whole_report_counts_and_a_rest_waits() -> None:
    reader = replication.ReportReader()
    first, second, third = (struct.pack(">q", offset) for offset in (1, 2, 3))
    assert reader.feed(b"") is None
    assert reader.feed(first[:7]) is None
    assert reader.feed(first[7:] + second + third[:4]) == 2
    assert reader.feed(third[4:]) == 3
    with pytest.raises(replication.ProtocolError, match="offset -5 is negative"):
        replication.ReportReader().feed(struct.pack(">qq", 1, -5))


def test_the_longest_transfer_is_taken_and_nothing_of_it_is_held() -> None:
    reader = replication.TransferReader()
    assert reader.feed(struct.pack(">qi", 0, MOST)) == []
    assert reader.feed(b"xy") == [replication.LogChunk(0, b"xy", False)]
    with pytest.raises(replication.ProtocolError, match="offset -1"):
        replication.TransferReader().feed(struct.pack(">qi", -1, 0))


# --- Frames under a controller: handshakes, reports and transfers, byte by byte.
HELLO = struct.pack(">iiqiiqiq", 1, 24, 900, 3, 1, 0, 3, 700)


def transfer(offset: int, data: bytes) -> bytes:
    return struct.pack(">iiqiqq", 2, len(data), offset, 1, 0, 750) + data


@pytest.mark.parametrize("step", [1, 7, 100])
def test_what_a_master_sends_is_read_in_pieces(step: int) -> None:
    raw = HELLO + transfer(0, b"abcd") + transfer(4, b"")
    reader, chunks = replication.SwitchMasterReader(), list[replication.LogChunk]()
    for at in range(0, len(raw), step):
        chunks += reader.feed(raw[at : at + step])
    assert b"".join(chunk.data for chunk in chunks) == b"abcd"
    assert (chunks[-2].frame_ends, chunks[-1]) == (True, replication.LogChunk(4, b"", True))


@pytest.mark.parametrize(("raw", "reason"), [
    (struct.pack(">iiqi", 3, 0, 0, 0), "state 3 is neither"),
    (struct.pack(">iiqi", 1, 13, 0, 0), "size 13 is not that"),
    (struct.pack(">iiqi", 1, -12, 0, 0), "size -12 is not that"),
    (struct.pack(">iiqi", 1, 12 * 1001, 0, 0), "size 12012 is not that"),
    (struct.pack(">iiqiqq", 2, -1, 0, 1, 0, 0), "size -1 is not from 0"),
    (struct.pack(">iiqiqq", 2, 4 << 20, 0, 1, 0, 0), "is not from 0"),
    (struct.pack(">iiqiqq", 2, 1, -1, 1, 0, 0), "offset -1 is negative")])  # fmt: skip
def test_no_master_sends_this(raw: bytes, reason: str) -> None:
    with pytest.raises(replication.ProtocolError, match=reason):
        replication.SwitchMasterReader().feed(raw)


def test_a_master_without_epochs_or_a_log_shakes_hands_too() -> None:
    reader = replication.SwitchMasterReader()
    assert reader.feed(struct.pack(">iiqi", 1, 0, 0, -1)) == []
    assert reader.shaken
    heartbeat = struct.pack(">iiqiqq", 2, 0, -1, -1, -1, 0)
    assert reader.feed(heartbeat) == [replication.LogChunk(-1, b"", True)]


def test_the_frames_of_the_format_page() -> None:
    made = {"report": replication.encode_report, "transfer": replication.encode_header,
        "hello": lambda last, _, broker:
            replication.encode_slave_hello(bool(last), broker)}  # fmt: skip
    page = Path(__file__).parents[3] / "docs/formats/replication.md"
    blocks = re.findall(r"^```frame (\w+) (.*)\n(.*)\n```$", page.read_text("utf-8"), re.MULTILINE)
    assert {kind for kind, _, _ in blocks} == set(made)
    for kind, words, raw in blocks:
        numbers = [int(word) for word in words.split()]
        encoded: bytes = made[kind](*numbers)  # type: ignore[operator]
        assert encoded == bytes.fromhex(raw), kind
