"""Clients that send a byte now and then: they hold no place that others need (issue 57)."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reput.broker.wire.remoting import frame
from reput.jobs.sockets.connection import Connection, TlsMode, tls_mode
from tests import golden_stores
from tests.jobs.sockets.asking import pull
from tests.jobs.sockets.serving import Serving, answers_again, still_answers
from tests.jobs.sockets.tls_client import Client, put_files
from tests.processes import until

SLOW = 20  # sockets
TOPIC = "Live0"


def client_hello() -> bytes:
    client = Client()
    with suppress(ssl.SSLWantReadError):
        client.tls.do_handshake()
    return client.outgoing.read()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def serving(key: Path) -> Iterator[Serving]:
    store = golden_stores.unpack("broker_clean_5.3.3").input
    words = ["--tls-cert", str(key / "cert.pem"), "--tls-key", str(key / "key.pem")]
    with Serving(store, "--max-connections", str(SLOW), *words) as process:
        yield process


@contextmanager
def dripping(address: str, raw: bytes) -> Iterator[list[socket.socket]]:
    """Sockets that have each sent the first bytes of what they will never send whole."""
    host, port = address.rsplit(":", 1)
    slow = [socket.create_connection((host, int(port))) for _ in range(SLOW)]
    for each in slow:
        with suppress(OSError):
            each.sendall(raw[:3])
    yield slow
    for each in slow:
        each.close()


@pytest.mark.parametrize("raw", [frame(pull(TOPIC, 0, 0)), client_hello(), b""])
def test_a_good_client_gets_in_while_slow_ones_hold_all_places(raw, serving) -> None:
    with dripping(serving.address, raw):
        assert until(lambda: answers_again(serving))
        for _ in range(2):
            still_answers(serving)


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def half_since(raw: list[bytes], mode: TlsMode | None) -> list[float | None]:
    """Since when a connection is half way, after each piece; 10 seconds pass between pieces."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    clock, found = Clock(), list[float | None]()
    connection = Connection(
        ours, 1, "p", "l", lambda *_: None, lambda _: None, clock, mode)  # fmt: skip
    for piece in raw:
        theirs.sendall(piece)
        await asyncio.sleep(0.02)
        found.append(connection.half_since)
        clock.now += 10
    connection.close()
    theirs.close()
    return found


def test_the_time_of_a_frame_or_a_handshake_begins_with_its_first_byte(key: Path) -> None:
    raw = frame(pull(TOPIC, 0, 0))
    pieces = [raw[:1], raw[1:2], raw[2:40], raw[40:] + raw[:1], raw[1:9], raw[9:]]
    assert asyncio.run(half_since(pieces, None)) == [0, 0, 0, 30, 30, None]
    assert asyncio.run(half_since([raw * 3 + raw[:5], raw[5:]], None)) == [0, None]
    mode = tls_mode(str(key / "cert.pem"), str(key / "key.pem"), False)
    hello = client_hello()
    pieces = [hello[:1], hello[1:7], hello[7:]]
    assert asyncio.run(half_since(pieces, mode)) == [0, 0, 0]  # its end of the handshake lacks


@pytest.mark.parametrize("piece", [1, 4, 5, 100, 1 << 16])
def test_a_part_of_a_record_of_tls_is_half_way(piece: int, key: Path) -> None:
    mode = tls_mode(str(key / "cert.pem"), str(key / "key.pem"), False)
    client, server = Client(), mode.begin(b"\x16")
    assert server is not None
    client.handshake(server, piece)
    assert not server.is_half_way
    client.tls.write(b"x" * 300)
    raw = client.outgoing.read()
    for at in range(0, len(raw), piece):
        assert server.is_half_way == bool(at)
        server.received(raw[at : at + piece])
    assert not server.is_half_way
