"""What a client of ours is told by hosts that are no name servers and brokers, or bad ones."""

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reput.broker.wire.producing import TargetBroker, request
from reput.broker.wire.remoting import Command, Frames, frame, signed_by
from reput.jobs.replicating import peers
from reput.jobs.replicating.peers import Cluster, NotReached
from reput.store_format.faults import PeerFailed

TLS = Path(__file__).parent.parent / "sockets" / "tls"
ADDRESS = "127.0.0.1"
FOUR = TargetBroker("a", (ADDRESS, 1), 4)
SIX = TargetBroker("a", ("::1", 1), 4)


@contextmanager
def peer(talk: Callable[[socket.socket, Command], None]) -> Iterator[int]:
    """Does this with each connection's first request."""
    with socket.create_server((ADDRESS, 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connected, _ = listener.accept()
                    with connected, suppress(OSError):
                        frames = Frames()
                        while (asked := frames.next()) is None:
                            frames.feed(connected.recv(1 << 16))
                        talk(connected, asked)

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def answer(asked: Command, body: bytes = b"", code: int = 0, opaque: int = 0) -> bytes:
    return frame(Command(code, asked.opaque + opaque, 1, body=body, remark="so it is"))


def route(**more: object) -> bytes:
    brokers = {"brokerName": "a", "brokerAddrs": {"0": f"{ADDRESS}:1", "1": f"{ADDRESS}:2"}}
    return json.dumps(
        {"brokerDatas": [brokers],
         "queueDatas": [{"brokerName": "a", "perm": 6, "writeQueueNums": 4, **more}]}
    ).encode()  # fmt: skip


def drip(connected: socket.socket, asked: Command) -> None:
    for byte in answer(asked, route()):
        connected.sendall(bytes([byte]))
        time.sleep(0.02)


def endless(connected: socket.socket, asked: Command) -> None:
    while True:
        connected.sendall(answer(asked, opaque=1))


def raw(made: bytes) -> Callable[[socket.socket, Command], None]:
    return lambda connected, asked: connected.sendall(made)


def says(body: bytes) -> Callable[[socket.socket, Command], None]:
    return lambda connected, asked: connected.sendall(answer(asked, body))


@pytest.mark.parametrize(("talk", "said"), [
    (drip, "timed out"), (raw(b"\xff" * 4096), "a frame of -1 bytes"),
    (raw(struct.pack(">ii", (1 << 31) - 1, 8)), "a frame of 2147483647 bytes"),
    (raw(b"HTTP/1.1 200 OK\r\n\r\n"), "a frame of 1213486160 bytes"), (endless, "timed out"),
    (raw(b""), "was closed before the answer"), (says(b""), "the route cannot be read"),
    (says(b"[" * 99_999), "the route cannot be read"),
    (says(b'{"brokerDatas":[{}],"queueDatas":[]}'), "the route cannot be read"),
    (says(route(writeQueueNums="x")), "the route cannot be read"),
    (says(route().replace(b":1\"", b":99999\"")), "the route names a broker at"),
    (says(route().replace(b":1\"", b"\"")), "the route names a broker at"),
    (lambda connected, asked: connected.sendall(answer(asked, code=1)), "1 so it is")])  # fmt: skip
def test_what_is_no_route_is_one_error(talk, said, monkeypatch) -> None:
    monkeypatch.setattr(peers, "_ANSWER_SECONDS", 0.4 if said == "timed out" else 60)
    with peer(talk) as port:
        there = Cluster([(ADDRESS, port)])
        with pytest.raises(PeerFailed, match=r"^name server 127\.0\.0\.1:") as failed:
            there.route("T")
        there.close()
    assert said in str(failed.value)
    assert len(str(failed.value)) < 300


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (route(), [FOUR]),
        (route(perm=4), []),
        (route(writeQueueNums=0), []),
        (route(writeQueueNums=1 << 31), []),
        (route(brokerName="b"), []),
        (route().replace(b'"0"', b"0"), [FOUR]),  # as fastjson writes
        (route().replace(b'"0"', b'"2"'), []),  # no master
        (route().replace(f'"{ADDRESS}:1"'.encode(), b'"[::1]:1"'), [SIX]),
    ],
)  # fmt: skip
def test_a_route_has_the_masters_that_take_messages(body: bytes, known: list[TargetBroker]) -> None:
    with peer(says(body)) as port:
        there = Cluster([(ADDRESS, 1), (ADDRESS, port)])  # the first is not there
        assert there.route("T") == known
        there.close()


def test_a_host_that_is_not_there_is_told_from_one_that_does_not_answer() -> None:
    for address in ((ADDRESS, 1), ("no such host.invalid", 9876), ("a" * 70 + ".b", 1), ("\0", 1)):
        with pytest.raises(NotReached, match=r"^cannot be reached: "):
            Cluster().ask(address, request(1))


def test_only_the_answer_to_the_request_counts() -> None:
    def talk(connected: socket.socket, asked: Command) -> None:
        connected.sendall(answer(asked, b"late", opaque=-1) + frame(Command(40, asked.opaque)))
        connected.sendall(answer(asked, b"right"))

    with peer(talk) as port:
        there = Cluster()
        assert there.ask((ADDRESS, port), request(1)).body == b"right"
        there.close()


def test_requests_are_signed(tmp_path: Path) -> None:
    asked: list[Command] = []

    def talk(connected: socket.socket, request: Command) -> None:
        asked.append(request)
        connected.sendall(answer(request))

    with peer(talk) as port:
        there = Cluster(keys=("me", "secret"))
        there.ask((ADDRESS, port), request(310, {"b": "T", "a": 7}, b"body"))
        there.close()
    assert asked[0].fields["AccessKey"] == "me"
    assert signed_by(asked[0].fields, b"body", "secret")
    assert "secret" not in str(asked)


@pytest.mark.parametrize("trusted", [False, True])
def test_tls_is_with_whom_the_certificate_says(trusted: bool) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    if trusted:
        client.load_verify_locations(TLS / "cert.pem")
    with socket.create_server((ADDRESS, 0)) as listener:

        def accept() -> None:
            with suppress(OSError), server.wrap_socket(listener.accept()[0], True) as connected:
                frames = Frames()
                while (asked := frames.next()) is None:
                    frames.feed(connected.recv(1 << 16))
                connected.sendall(answer(asked, b"hidden"))

        threading.Thread(target=accept, daemon=True).start()
        there = Cluster(tls=client)
        address = ADDRESS, listener.getsockname()[1]
        if trusted:
            assert there.ask(address, request(1)).body == b"hidden"
        else:
            with pytest.raises(NotReached, match="certificate verify failed"):
                there.ask(address, request(1))
        there.close()
