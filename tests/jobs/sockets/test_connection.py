"""Connections have their turns: one that asks much keeps no other one waiting."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from reput.broker.wire.remoting import RESPONSE_BIT, Command, frame
from reput.jobs.sockets.connection import Connection, PlainRefused, TlsMode, framed, tls_mode
from tests.jobs.sockets.tls_client import Client, put_files

MANY = 200
_REQUEST = Command(105, 1, fields={"topic": "T"})
_ANSWER = b"x" * 2_000


def answered(asking: list[int], then: Callable[[Connection], None] = lambda _: None) -> list[int]:
    """Which connection was answered, in order, where each had sent so many requests at once."""
    order: list[int] = []

    def came(connection: Connection, command: Command) -> None:
        order.append(connection.number)
        connection.send(framed(command._replace(flag=RESPONSE_BIT, body=_ANSWER)))
        then(connection)

    async def serve() -> None:
        with ExitStack() as stack:
            peers = list[socket.socket]()
            for number, count in enumerate(asking):
                ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
                ours.setblocking(False)
                peers.append(theirs)
                connection = Connection(ours, number, "p", "l", came, lambda _: None, lambda: 0.0)
                stack.callback(connection.close)
                theirs.sendall(frame(_REQUEST) * count)
                theirs.setblocking(False)
            while len(order) < sum(asking):
                await asyncio.sleep(0)
                for each in peers:
                    try:
                        each.recv(1 << 20)
                    except BlockingIOError:
                        continue

    asyncio.run(asyncio.wait_for(serve(), 60))
    return order


def test_one_that_sends_many_requests_at_once_has_one_answered_a_turn() -> None:
    order = answered([MANY, MANY, MANY, 1])
    assert order.index(3) <= 6  # two turns of three others at most
    # from the first to the last they take turns: none is ahead of another by more than two
    for at in range(len(order)):
        counts = [order[:at].count(number) for number in range(3)]
        if max(counts) < MANY:
            assert max(counts) - min(counts) <= 2, at


def test_requests_that_came_together_are_all_answered_in_order() -> None:
    assert answered([MANY]) == [0] * MANY


# --- TLS and plain connections on one port: told apart by the first byte, and read in any pieces.
@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def mode(files: Path) -> TlsMode:
    return tls_mode(str(files / "cert.pem"), str(files / "key.pem"), False)


@pytest.mark.parametrize("piece", [7, 1000, 1 << 16])
def test_bytes_come_out_as_they_went_in_both_ways(mode: TlsMode, piece: int) -> None:
    client, server = Client(), mode.begin(b"\x16")
    assert server is not None
    client.handshake(server, piece)
    long = bytes(range(256)) * 80  # longer than a record of TLS
    client.tls.write(b"hello")
    client.tls.write(long)
    assert client.carry(server, piece) == b"hello" + long
    server.encrypt(b"an answer")
    raw = server.outgoing()
    assert b"an answer" not in raw
    client.incoming.write(raw)
    assert client.tls.read() == b"an answer"
    assert server.outgoing() == b""


def test_a_part_of_a_record_is_nothing_yet_and_what_is_no_tls_is_an_error(mode: TlsMode) -> None:
    client, server = Client(), mode.begin(b"\x16")
    assert server is not None
    client.handshake(server, 1 << 16)
    client.tls.write(b"hello")
    raw = client.outgoing.read()
    assert server.received(raw[:-1]) == b""
    assert server.received(raw[-1:]) == b"hello"
    server = mode.begin(b"\x16")
    assert server is not None
    with pytest.raises(ssl.SSLError):
        server.received(b"\x16" + b"\xff" * 600)
    assert mode.context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("first", [0x00, 0x01, 0x15, 0x17, 0x47, 0xFF])
def test_only_a_handshake_begins_with_its_byte(mode: TlsMode, first: int) -> None:
    """A frame begins with 0 or 1: its length is at most 16 MB."""
    assert mode.begin(bytes([first])) is None
    enforcing = TlsMode(mode.context, required=True)
    with pytest.raises(PlainRefused):
        enforcing.begin(bytes([first, 0x16]))
    assert enforcing.begin(b"\x16\x03") is not None
