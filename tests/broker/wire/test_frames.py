"""The replication protocols as bytes: RocketMQ's layouts by hand, any cuts, hostile peers."""

import re
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.broker.wire.peers import (
    MasterLog,
    Slave,
    SlaveConnection,
    SwitchSlave,
    WrongOffset,
    is_replicated,
    is_slave_ok,
)
from reput.broker.wire.replication import (
    FRAME_MOST,
    LogChunk,
    ProtocolError,
    ReportReader,
    SwitchMasterReader,
    TransferReader,
    encode_header,
    encode_report,
    encode_slave_hello,
    encode_slave_report,
)

LOG = MasterLog(0, 5000, 2048)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[low:high] for low, high in pairwise(at)]


def joined(parts: list[LogChunk]) -> list[tuple[int, bytes]]:
    """The frames, whatever pieces their bytes came in."""
    found: list[tuple[int, bytes]] = []
    ended = True
    for part in parts:
        if ended:
            found.append((part.offset, part.data))
        else:
            found[-1] = (found[-1][0], found[-1][1] + part.data)
        ended = part.frame_ends
    return found


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.binary(max_size=40)), max_size=6),
       st.lists(st.integers(0, 400), max_size=8))  # fmt: skip
def test_transfers_in_any_pieces(frames: list[tuple[int, bytes]], places: list[int]) -> None:
    raw = b"".join(struct.pack(">qi", offset, len(data)) + data for offset, data in frames)
    reader = TransferReader()
    assert joined([part for piece in cut(raw, places) for part in reader.feed(piece)]) == frames


@pytest.mark.parametrize("size", [-1, -(1 << 31), FRAME_MOST + 1, (1 << 31) - 1])
def test_a_size_that_no_slave_could_take_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match="size"):
        TransferReader().feed(struct.pack(">qi", 5, size))
    with pytest.raises(ProtocolError, match="size"):
        SwitchMasterReader().feed(struct.pack(">iiqiqq", 2, size, 5, 1, 0, 0))


@given(st.binary(max_size=200))
def test_anything_else_is_an_error_or_waits(raw: bytes) -> None:
    for reader in (TransferReader(), ReportReader(), SwitchMasterReader()):
        try:
            reader.feed(raw)
        except ProtocolError:
            continue


# --- a slave -------------------------------------------------------------------------------------


def test_a_slave_of_a_log_from_0_on_never_reports_0() -> None:
    """A master sends its last file only then (#9580). The first byte of a size is 0."""
    slave = Slave(0)
    assert slave.hello(0.0) == encode_report(1)
    assert slave.receive(encode_header(1, 2) + b"ab", 0.0) == [
        LogChunk(0, b"\0", False), LogChunk(1, b"ab", True),
    ]  # fmt: skip
    assert slave.receive(encode_header(3, 1) + b"c", 0.0) == [LogChunk(3, b"c", True)]


def test_another_place_of_the_log_is_an_error() -> None:
    for offset, size in ((99, 2), (101, 2), (101, 0)):
        slave = Slave(100)
        with pytest.raises(WrongOffset, match="asked for 100"):
            slave.receive(encode_header(offset, size) + b"ab"[:size], 0.0)


def test_a_slave_in_controller_mode_shakes_hands_first() -> None:
    slave = SwitchSlave(0)
    assert slave.hello(0.0) == struct.pack(">ihhq", 1, 0, 1, 0)
    assert slave.report(0, 9.0) == b""
    hello = struct.pack(">iiqiiqiq", 1, 24, 50, 2, 1, 0, 2, 40)
    assert slave.receive(hello, 9.0) == []
    assert slave.report(50, 9.0) == encode_slave_report(0)  # where the master is to begin
    assert slave.report(50, 9.0) == encode_slave_report(50)  # how far it is
    data = struct.pack(">iiqiqq", 2, 2, 0, 1, 0, 50) + b"ab"
    assert slave.receive(data, 9.0) == [LogChunk(0, b"ab", True)]
    with pytest.raises(ProtocolError, match="before its handshake"):
        SwitchSlave(0).receive(data, 0.0)


# --- a master ------------------------------------------------------------------------------------


def sent(connection: SlaveConnection, log: MasterLog, now: float = 0.0) -> list[int]:
    sizes = []
    while (send := connection.next(log, now)) is not None and send.size:
        sizes.append(send.size)
    return sizes


def test_a_new_slave_gets_all_of_the_log() -> None:
    """Never over a segment's end: a slave could not append that (MappedFile.appendMessage)."""
    connection = SlaveConnection(0.0, 1500)
    assert connection.next(LOG, 100.0) is None  # it has said nothing yet
    connection.receive(encode_report(0), LOG, 0.0)
    assert sent(connection, LOG) == [1500, 548, 1500, 548, 904]
    assert connection.acked == 0
    connection.receive(encode_report(5000), LOG, 0.0)
    assert connection.acked == 5000
    assert connection.next(LOG, 5.0) is None
    beat = connection.next(LOG, 5.1)
    assert beat is not None
    assert (beat.header, beat.size) == (encode_header(5000, 0), 0)
    later = LOG._replace(end=5100)
    send = connection.next(later, 5.2)
    assert send is not None
    assert (send.header, send.at) == (encode_header(5000, 100), 5000)


def test_slaves_that_are_not_of_this_log() -> None:
    with pytest.raises(ProtocolError, match="goes on to 5001"):
        SlaveConnection(0.0).receive(encode_report(5001), LOG, 0.0)
    with pytest.raises(ProtocolError, match="begins at 2048"):
        SlaveConnection(0.0).receive(encode_report(7), LOG._replace(start=2048), 0.0)
    assert SlaveConnection(0.0).silent(20.1)
    assert not SlaveConnection(0.0).silent(20.0)


def test_when_a_put_counts_as_replicated() -> None:
    assert is_slave_ok(1000, True, 801, 200)
    assert not is_slave_ok(1000, True, 800, 200)  # masterPutWhere - push2SlaveMaxOffset < gap
    assert not is_slave_ok(1000, False, 1000, 200)
    assert is_replicated(1000, [], 1000, 1)  # any slave that ever had it
    assert not is_replicated(1000, [], 999, 1)
    assert is_replicated(1000, [1000, 5], 1000, 2)
    assert not is_replicated(1000, [1000, 999], 1000, 3)
    assert is_replicated(1000, [1000, 1000], 1000, 3)


# --- what a broker is asked ----------------------------------------------------------------------


# --- the page -------------------------------------------------------------------------------------


def test_the_frames_of_the_format_page() -> None:
    made = {"report": encode_report, "transfer": encode_header, "hello": lambda last, _,
            broker: encode_slave_hello(bool(last), broker)}  # fmt: skip
    page = Path(__file__).parents[3] / "docs/formats/replication.md"
    blocks = re.findall(r"^```frame (\w+) (.*)\n(.*)\n```$", page.read_text("utf-8"), re.MULTILINE)
    assert {kind for kind, _, _ in blocks} == set(made)
    for kind, words, raw in blocks:
        numbers = [int(word) for word in words.split()]
        encoded: bytes = made[kind](*numbers)  # type: ignore[operator]
        assert encoded == bytes.fromhex(raw), kind
