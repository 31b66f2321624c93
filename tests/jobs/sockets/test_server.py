"""The server itself: hostile and slow clients, limits, waiting pulls, and its end."""

import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import FRAME_MOST, HEADER_MOST, ONE_WAY_BIT, frame
from tests import golden_stores
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, SUSPEND, Peer, pull, request
from tests.jobs.sockets.serving import Serving

TOPIC = "Live0"


@pytest.fixture(scope="module")
def store() -> Path:
    return golden_stores.unpack("broker_clean_5.3.3").input


@pytest.fixture(scope="module")
def serving(store: Path) -> Iterator[Serving]:
    with Serving(store, "--max-connections", "100") as process:
        yield process


@pytest.fixture
def peer(serving: Serving) -> Iterator[Peer]:
    with Peer(serving.address) as peer:
        yield peer


def still_answers(serving: Serving) -> None:
    with Peer(serving.address) as peer:
        assert peer.ask(pull(TOPIC, 0, 0)).code == ResponseCode.SUCCESS


def sockets(serving: Serving) -> int:
    files = list(Path(f"/proc/{serving.process.pid}/fd").iterdir())
    return sum(each.is_socket() for each in files)


def test_route_pull_and_what_is_refused(peer: Peer, serving: Serving) -> None:
    route = peer.ask(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC))
    assert serving.address.encode() in (route.body or b"")
    assert b'"perm":4' in (route.body or b"")
    assert len(peer.ask(pull(TOPIC, 0, 0)).body or b"") == 27774
    for code in (10, 310, 320, 36, 37, 17, 215):
        answer = peer.ask(request(code, body=b"a message", topic=TOPIC))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "read only" in (answer.remark or "")
    assert peer.ask(request(4711)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert peer.ask(request(11)).code == ResponseCode.SYSTEM_ERROR
    wrong = peer.ask(request(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId="1e9"))
    assert (wrong.code, wrong.remark) == (1, "the custom field <queueId> is not a number")
    assert peer.ask(request(RequestCode.GET_MAX_OFFSET, topic="../..", queueId=0)).fields == {
        "offset": "0"
    }


def test_many_requests_at_once_are_answered_in_order(peer: Peer) -> None:
    asked = [pull(TOPIC, 0, n % 300, opaque=n) for n in range(200)]
    peer.socket.sendall(b"".join(map(frame, asked)))
    answers = [peer.next() for _ in asked]
    assert [each.opaque for each in answers] == list(range(200))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}


def test_nobody_waits_for_the_answer_to_a_one_way_request(peer: Peer) -> None:
    peer.send(request(RequestCode.GET_MAX_OFFSET, 7, topic=TOPIC, queueId=0)._replace(flag=2))
    assert ONE_WAY_BIT == 2
    peer.send(request(RequestCode.GET_MAX_OFFSET, 8, topic=TOPIC, queueId=0))
    assert peer.next().opaque == 8


def test_another_protocol_is_named_in_the_log_once(store: Path) -> None:
    with Serving(store) as serving:
        for first in (b"PRI * HTTP/2.0\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n", b"GET / HTTP/1.1\r\n"):
            with Peer(serving.address) as peer, suppress(ConnectionError):
                peer.socket.sendall(first)
                peer.next()
        _, said = serving.end()
    assert said.count("it speaks HTTP/2, as gRPC clients do; this port speaks RocketMQ's") == 1
    assert said.count("it speaks HTTP;") == 1


def test_what_is_no_frame_ends_the_connection(serving: Serving) -> None:
    for raw in (
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(4096),
        struct.pack(">ii", -5, 3),
        b"\xff" * 9,
    ):
        with Peer(serving.address) as peer:
            peer.socket.sendall(raw)
            with pytest.raises((ConnectionError, TimeoutError)):
                peer.next()
    still_answers(serving)


def test_a_message_that_somebody_sends_is_refused_without_being_kept(serving: Serving) -> None:
    with Peer(serving.address) as peer:
        before = serving.memory()
        answer = peer.ask(request(RequestCode.SEND_MESSAGE_V2, body=bytes((1 << 24) - 1000)))
        assert answer.code == ResponseCode.NO_PERMISSION
        assert serving.memory() - before < 6 << 20


def test_frames_that_declare_the_most_take_no_more_than_was_sent(serving: Serving) -> None:
    """A length is a claim: no room is made for it."""
    still_answers(serving)
    before = serving.memory()
    heads = [(FRAME_MOST, 0), (FRAME_MOST, HEADER_MOST), (HEADER_MOST + 4, HEADER_MOST)]
    peers = [Peer(serving.address) for _ in range(80)]
    for number, each in enumerate(peers):
        total, header = heads[number % len(heads)]
        each.socket.sendall(struct.pack(">ii", total, header) + bytes(1 << 10))
    still_answers(serving)
    assert serving.memory() - before < 8 << 20
    for each in peers:
        each.socket.close()
    time.sleep(0.2)
    still_answers(serving)


def test_half_frames_and_clients_that_go_away(serving: Serving) -> None:
    raw = frame(pull(TOPIC, 0, 0))
    for cut in range(0, len(raw), 17):
        with Peer(serving.address) as peer:
            peer.socket.sendall(raw[:cut])
    for _ in range(20):
        with Peer(serving.address) as peer:
            peer.socket.sendall(raw * 50)  # and does not take the answers
    still_answers(serving)


def test_too_many_connections_are_closed_and_the_others_served(serving: Serving) -> None:
    peers = [Peer(serving.address) for _ in range(150)]
    answered = 0
    for each in peers:
        with suppress(ConnectionError):
            answered += each.ask(pull(TOPIC, 0, 0)).code == ResponseCode.SUCCESS
        each.socket.close()
    assert 80 <= answered <= 88  # of one address; the others are kept for other addresses
    time.sleep(0.2)
    still_answers(serving)


def test_a_slow_reader_does_not_fill_the_memory(serving: Serving) -> None:
    with Peer(serving.address) as slow:
        before = serving.memory()
        slow.socket.settimeout(0.5)
        asked = b"".join(
            frame(pull(TOPIC, 0, 0, opaque=n)) for n in range(2000)
        )  # 55 MB of answers
        sent = 0
        try:
            while sent < len(asked):
                sent += slow.socket.send(asked[sent : sent + (1 << 16)])
        except TimeoutError:
            pass
        for _ in range(5):
            still_answers(serving)
        assert serving.memory() - before < 8 << 20
        slow.socket.settimeout(20)
        assert [slow.next().opaque for _ in range(30)] == list(range(30))  # none is lost


def test_a_pull_waits_for_as_long_as_it_says(peer: Peer) -> None:
    end = peer.ask(request(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0)).fields["offset"]
    waits = {"sysFlag": HAS_SUBSCRIPTION | SUSPEND, "suspendTimeoutMillis": 400}
    begin = time.monotonic()
    peer.send(pull(TOPIC, 0, int(end), opaque=5, **waits))
    peer.send(pull(TOPIC, 0, int(end), opaque=6))  # is not kept waiting by the other
    first, second = peer.next(), peer.next()
    assert (first.opaque, first.code) == (6, ResponseCode.PULL_NOT_FOUND)
    assert (second.opaque, second.code) == (5, ResponseCode.PULL_NOT_FOUND)
    assert 0.35 < time.monotonic() - begin < 30  # with 400 ms asked for: not 400 s


def test_sigterm_ends_it_with_0(store: Path) -> None:
    with Serving(store) as serving, Peer(serving.address) as peer:
        waits = {"sysFlag": HAS_SUBSCRIPTION | SUSPEND, "suspendTimeoutMillis": 60_000}
        peer.send(pull(TOPIC, 0, 348, **waits))
        assert serving.end(signal.SIGTERM) == (0, "")
        with pytest.raises((ConnectionError, OSError)):
            Peer(serving.address, 1)


def test_it_listens_on_loopback_and_names_the_port_that_is_taken(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AssertionError, match=f"reput: error: .*{address}: Address already in"):
            Serving(store, "--listen", address)


@pytest.mark.long
def test_ten_thousand_connects(store: Path) -> None:
    with Serving(store, "--max-connections", "2000") as serving:
        still_answers(serving)  # what the first request loads stays
        before, listening = serving.memory(), sockets(serving)
        for _ in range(20):
            peers = [Peer(serving.address) for _ in range(500)]
            for number, each in enumerate(peers):
                if number % 3:
                    with suppress(OSError):  # those beyond the limit are closed
                        each.socket.sendall(frame(pull(TOPIC, 0, 0))[: number % 90])
                each.socket.close()
        until = time.monotonic() + 60
        while sockets(serving) > listening:  # it closes its ends of them in turn
            assert time.monotonic() < until
            time.sleep(0.05)
        still_answers(serving)
        assert serving.memory() - before < 16 << 20
        assert serving.end() == (0, "")


@pytest.mark.long
def test_a_thousand_idle_and_sixty_four_pulling_in_bounded_memory(store: Path) -> None:
    with Serving(store) as serving:
        still_answers(serving)
        before = serving.memory()
        idle = [Peer(serving.address) for _ in range(1000)]
        pulling = [Peer(serving.address) for _ in range(64)]
        for _ in range(20):
            for each in pulling:
                each.send(pull(TOPIC, 0, 0))
            for each in pulling:
                assert each.next().code == ResponseCode.SUCCESS
        assert serving.memory() - before < 32 << 20
        for each in (*idle, *pulling):
            each.socket.close()
        still_answers(serving)
