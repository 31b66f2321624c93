"""The server itself: hostile and slow clients, limits, waiting pulls, and its end."""

import asyncio
import inspect
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from reput.broker.serving.broker import Answer, Hold, Question
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.broker.wire.remoting import (
    FRAME_MOST,
    HEADER_MOST,
    ONE_WAY_BIT,
    RESPONSE_BIT,
    Command,
    Frames,
    frame,
)
from reput.jobs.sockets import server
from reput.jobs.sockets.connection import Connection
from reput.jobs.sockets.server import Held, HeldPulls, Questions
from tests import golden_stores
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, SUSPEND, Peer, pull, request
from tests.jobs.sockets.serving import Serving, answers_again, still_answers
from tests.processes import until

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
    outside = peer.ask(request(RequestCode.GET_MAX_OFFSET, topic="../..", queueId=0))
    assert outside.fields == {"offset": "0"}


def test_many_requests_at_once_are_answered_in_order_and_a_one_way_one_is_not(peer: Peer) -> None:
    asked = [pull(TOPIC, 0, n % 300, opaque=n) for n in range(200)]
    peer.socket.sendall(b"".join(map(frame, asked)))
    answers = [peer.next() for _ in asked]
    assert [each.opaque for each in answers] == list(range(200))
    assert {each.code for each in answers} == {ResponseCode.SUCCESS}
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


def test_what_is_no_frame_or_half_of_one_harms_nobody(serving: Serving) -> None:
    for raw in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), struct.pack(">ii", -5, 3),
                b"\xff" * 9):  # fmt: skip
        with Peer(serving.address) as peer:
            peer.socket.sendall(raw)
            with pytest.raises((ConnectionError, TimeoutError)):
                peer.next()
    still_answers(serving)
    raw = frame(pull(TOPIC, 0, 0))
    for cut in range(0, len(raw), 17):
        with Peer(serving.address) as peer:
            peer.socket.sendall(raw[:cut])
    for _ in range(20):
        with Peer(serving.address) as peer:
            peer.socket.sendall(raw * 50)  # and does not take the answers
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
    assert until(lambda: answers_again(serving))


def test_too_many_connections_are_closed_and_the_others_served(serving: Serving) -> None:
    peers = [Peer(serving.address) for _ in range(150)]
    answered = 0
    for each in peers:
        with suppress(ConnectionError):
            answered += each.ask(pull(TOPIC, 0, 0)).code == ResponseCode.SUCCESS
        each.socket.close()
    assert 80 <= answered <= 88  # of one address; the others are kept for other addresses
    assert until(lambda: answers_again(serving))


def test_a_slow_reader_does_not_fill_the_memory(serving: Serving) -> None:
    with Peer(serving.address) as slow:
        before = serving.memory()
        slow.socket.settimeout(0.5)
        # 55 MB of answers
        asked = b"".join(frame(pull(TOPIC, 0, 0, opaque=n)) for n in range(2000))
        sent = 0
        try:
            while sent < len(asked):
                sent += slow.socket.send(asked[sent : sent + (1 << 16)])
        except TimeoutError:
            pass
        for _ in range(5):
            still_answers(serving)
        assert serving.memory() - before < 8 << 20
        slow.socket.settimeout(60)
        assert [slow.next().opaque for _ in range(30)] == list(range(30))  # none is lost


def test_a_pull_waits_for_as_long_as_it_says(peer: Peer) -> None:
    end = peer.ask(request(RequestCode.GET_MAX_OFFSET, topic=TOPIC, queueId=0)).fields["offset"]
    waits = {"sysFlag": HAS_SUBSCRIPTION | SUSPEND, "suspendTimeoutMillis": 400}
    begin = time.monotonic()
    other = frame(pull(TOPIC, 0, int(end), opaque=6))  # is not kept waiting by the first
    peer.socket.sendall(frame(pull(TOPIC, 0, int(end), opaque=5, **waits)) + other)
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
        assert until(lambda: sockets(serving) <= listening)  # it closes its ends in turn
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


# --- Questions to one client for another: each is settled once, by an answer or without one.
ASKED = 7  # the number of the client that is asked
Settled = list[tuple[int, int, str]]  # (asker, its request's opaque, what it is told)


def connected(stack: ExitStack, number: int) -> tuple[Connection, socket.socket]:
    """A connection with this number, and the client's end."""
    ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
    for each in (ours, theirs):
        each.setblocking(False)
    made = Connection(ours, number, "p", "l", lambda *_: None, lambda _: None, lambda: 0.0)
    stack.callback(made.close)
    return made, theirs


class Two:
    """An asker and the client that it asks about, with the clients' ends of their sockets."""

    def __init__(self, stack: ExitStack) -> None:
        self.settled: Settled = []
        self.questions = Questions(lambda asker, request, answer: self.settled.append(
            (asker.number, request.opaque, str(answer.remark))))  # fmt: skip
        self.asker, _ = connected(stack, 1)
        self.asked, self.client = connected(stack, ASKED)
        self.frames = Frames()

    def ask(self, opaque: int, wait: int = 60_000, gone: bool = False) -> None:
        question = Question(
            ASKED, Command(307), (), wait,
            lambda said: Answer(0, "nobody" if said is None else str(said.body)))  # fmt: skip
        asked = None if gone else self.asked
        self.questions.ask(self.asker, Command(22, opaque), question, asked)

    def received(self) -> list[Command]:
        self.frames.feed(self.client.recv(1 << 16))
        return list(iter(self.frames.next, None))

    def answer(self, to: Command, body: bytes, by: Connection | None = None) -> None:
        self.questions.answered(by or self.asked, Command(0, to.opaque, RESPONSE_BIT, body=body))


def within(kind: Any) -> Any:
    """A test that is given one of these, in a loop of its own."""

    def made(test: Any) -> Any:
        def run(**given: Any) -> None:
            async def whole() -> None:
                with ExitStack() as stack:
                    await test(kind(stack), **given)

            asyncio.run(asyncio.wait_for(whole(), 60))

        signature = inspect.signature(test)
        rest = list(signature.parameters.values())[1:]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        run.__name__ = test.__name__
        return run

    return made


@within(Two)
async def test_each_question_gets_the_answer_to_its_own_number(two: Two) -> None:
    two.ask(501)
    two.ask(502)
    first, second = two.received()
    assert first.opaque != second.opaque
    two.answer(second, b"second")
    two.answer(first, b"first")
    two.answer(first, b"again")  # nobody waits for it any more
    assert two.settled == [(1, 502, "b'second'"), (1, 501, "b'first'")]


@within(Two)
async def test_an_answer_of_another_client_settles_nothing(two: Two) -> None:
    two.ask(501)
    [asked] = two.received()
    two.answer(asked, b"forged", by=two.asker)
    assert two.settled == []


@pytest.mark.parametrize(("wait", "gone"), [(0, False), (60_000, True)])
@within(Two)
async def test_without_an_answer_in_time_the_asker_is_told(two: Two, wait: int, gone: bool) -> None:
    two.ask(501, wait, gone)
    assert two.settled == []  # not before the asker's own request is done
    while not two.settled:
        await asyncio.sleep(0)
    assert two.settled == [(1, 501, "nobody")]


@within(Two)
async def test_when_a_client_goes_all_its_questions_are_settled(two: Two) -> None:
    for opaque in (501, 502):
        two.ask(opaque)
    two.questions.forget(two.asker)  # nobody asked this one
    assert two.settled == []
    two.questions.forget(two.asked)
    two.questions.forget(two.asked)
    assert two.settled == [(1, 501, "nobody"), (1, 502, "nobody")]


@within(Two)
async def test_an_asker_of_sixteen_is_not_read_until_one_is_settled(two: Two) -> None:
    for opaque in range(16):
        assert not two.asker.is_full()
        two.ask(opaque)
    assert two.asker.is_full()
    two.answer(two.received()[0], b"")
    assert not two.asker.is_full()


# --- Pulls and pops that wait: sent in the end, asked again, released once, and never too many.
LATER = 1 << 60  # milliseconds


class Waiting:
    """Two connections, and what was sent or asked again, by the requests' numbers."""

    def __init__(self, stack: ExitStack) -> None:
        self.sent: list[int] = []
        self.asked: list[int] = []
        self.held = HeldPulls(lambda _, request, answer: self.sent.append(request.opaque),
                              lambda _, request: self.asked.append(request.opaque))  # fmt: skip
        self.one, self.two = (connected(stack, number)[0] for number in (1, 2))

    def pull(self, number: int, connection: Connection | None = None, **more: object) -> Held:
        fields = {"topic": "T", "queue_id": 0, "position": 5, "until": LATER, **more}
        said = Answer(19, hold=Hold(**fields))  # type: ignore[arg-type]
        return Held(connection or self.one, Command(11, number), said)


@pytest.mark.parametrize(
    ("until", "again", "asked"),
    [(0, None, False), (LATER, 0, True), (1, 0, True), (0, 0, False), (0, LATER, False)],
)
@within(Waiting)
async def test_one_whose_time_is_up_is_answered_and_before_that_asked_again(
    waiting: Waiting, until, again, asked
) -> None:
    assert waiting.held.keep(waiting.pull(7, until=until, again=again))
    assert (waiting.sent, waiting.asked) == ([], [])  # never within the request itself
    while waiting.held:
        await asyncio.sleep(0)
    assert (waiting.sent, waiting.asked) == (([], [7]) if asked else ([7], []))
    assert not waiting.held.has(waiting.one)


@within(Waiting)
async def test_nobody_waits_for_longer_than_five_minutes(waiting: Waiting, monkeypatch) -> None:
    delays: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    monkeypatch.setattr(
        loop, "call_later",
        lambda delay, *about: delays.append(delay) or call_later(delay, *about),  # type: ignore[func-returns-value]
    )  # fmt: skip
    now = time.time() * 1000
    for last in (LATER, int(now) + 100_000):
        waiting.held.keep(waiting.pull(1, until=last))
    assert delays[0] == 300.0
    assert 40 < delays[1] <= 100


@within(Waiting)
async def test_what_is_taken_is_taken_once(waiting: Waiting) -> None:
    pulls = [waiting.pull(number) for number in range(3)]
    for each in pulls[:2]:
        waiting.held.keep(each)
    assert waiting.held.all() == pulls[:2]
    assert waiting.held.take(pulls[1:]) == pulls[1:2]  # the third was never held
    assert waiting.held.take(pulls) == pulls[:1]
    assert not waiting.held
    await asyncio.sleep(0)
    assert waiting.sent == []


@within(Waiting)
async def test_a_closed_connections_are_dropped_and_anothers_stay(waiting: Waiting) -> None:
    theirs = waiting.pull(9, waiting.two, group="g")
    for each in (waiting.pull(1), waiting.pull(2, group="g"), theirs):
        waiting.held.keep(each)
    waiting.held.forget(waiting.one)
    waiting.held.forget(waiting.one)
    assert waiting.held.all() == waiting.held.pops("g", "T") == [theirs]
    assert (waiting.held.has(waiting.one), waiting.held.has(waiting.two)) == (False, True)
    waiting.one.close()
    assert not waiting.held.keep(waiting.pull(3))


@within(Waiting)
async def test_pops_are_counted_by_group_topic_and_queue(waiting: Waiting) -> None:
    some = [("g", "T", 0), ("g", "T", -1), ("g", "T", -1), ("g", "U", 0), ("h", "T", 0)]
    for number, (group, topic, queue_id) in enumerate(some):
        waiting.held.keep(waiting.pull(number, group=group, topic=topic, queue_id=queue_id))
    waiting.held.keep(waiting.pull(9))  # a pull is no pop
    found = [waiting.held.count("g", "T", queue) for queue in (0, -1, 1)]
    assert found == [1, 2, 0]
    assert len(waiting.held.pops("g", "T")) == 3
    assert waiting.held.pops("h", "U") == []


@within(Waiting)
async def test_too_many_are_answered_at_once(waiting: Waiting, monkeypatch) -> None:
    monkeypatch.setattr(server, "_MOST", 2)
    kept = [waiting.held.keep(waiting.pull(number)) for number in range(3)]
    assert kept == [True, True, False]
    waiting.held.take(waiting.held.all()[:1])
    assert waiting.held.keep(waiting.pull(4))
    assert not waiting.held.keep(Held(waiting.one, Command(11), Answer(0)))  # waits for nothing
