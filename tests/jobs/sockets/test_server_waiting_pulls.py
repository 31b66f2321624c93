"""Pulls and pops that wait: sent in the end, asked again, released once, and never too many."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from reput.broker.serving.broker import Answer, Hold
from reput.broker.wire.remoting import Command
from reput.jobs.sockets import server
from reput.jobs.sockets.connection import Connection
from reput.jobs.sockets.server import Held, HeldPulls

LATER = 1 << 60  # milliseconds


class Waiting:
    """Two connections, and what was sent or asked again, by the requests' numbers."""

    def __init__(self, stack: ExitStack) -> None:
        self.sent: list[int] = []
        self.asked: list[int] = []
        self.held = HeldPulls(
            lambda _, request, answer: self.sent.append(request.opaque),
            lambda _, request: self.asked.append(request.opaque),
        )
        self.one, self.two = (self._connect(stack, number) for number in (1, 2))

    @staticmethod
    def _connect(stack: ExitStack, number: int) -> Connection:
        ours, _ = (stack.enter_context(each) for each in socket.socketpair())
        ours.setblocking(False)
        made = Connection(ours, number, "p", "l", lambda *_: None, lambda _: None, lambda: 0.0)
        stack.callback(made.close)
        return made

    def pull(self, number: int, connection: Connection | None = None, **more: object) -> Held:
        fields = {"topic": "T", "queue_id": 0, "position": 5, "until": LATER, **more}
        said = Answer(19, hold=Hold(**fields))  # type: ignore[arg-type]
        return Held(connection or self.one, Command(11, number), said)


def run(test: Callable[[Waiting], Awaitable[None]]) -> None:
    async def within() -> None:
        with ExitStack() as stack:
            await test(Waiting(stack))

    asyncio.run(asyncio.wait_for(within(), 10))


@pytest.mark.parametrize(
    ("until", "again", "asked"),
    [(0, None, False), (LATER, 0, True), (1, 0, True), (0, 0, False), (0, LATER, False)],
)
def test_one_whose_time_is_up_is_answered_and_before_that_asked_again(
    until: int, again: int | None, asked: bool
) -> None:
    async def test(waiting: Waiting) -> None:
        assert waiting.held.keep(waiting.pull(7, until=until, again=again))
        assert (waiting.sent, waiting.asked) == ([], [])  # never within the request itself
        while waiting.held:
            await asyncio.sleep(0)
        assert (waiting.sent, waiting.asked) == (([], [7]) if asked else ([7], []))
        assert not waiting.held.has(waiting.one)

    run(test)


def test_nobody_waits_for_longer_than_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(waiting: Waiting) -> None:
        delays: list[float] = []
        loop = asyncio.get_running_loop()
        call_later = loop.call_later
        monkeypatch.setattr(
            loop, "call_later",
            lambda delay, *about: delays.append(delay) or call_later(delay, *about),  # type: ignore[func-returns-value]
        )  # fmt: skip
        now = time.time() * 1000
        for until in (LATER, int(now) + 15_000):
            waiting.held.keep(waiting.pull(1, until=until))
        assert delays[0] == 300.0
        assert 14 < delays[1] <= 15

    run(test)


def test_what_is_taken_is_taken_once() -> None:
    async def test(waiting: Waiting) -> None:
        pulls = [waiting.pull(number) for number in range(3)]
        for each in pulls[:2]:
            waiting.held.keep(each)
        assert waiting.held.all() == pulls[:2]
        assert waiting.held.take(pulls[1:]) == pulls[1:2]  # the third was never held
        assert waiting.held.take(pulls) == pulls[:1]
        assert not waiting.held
        await asyncio.sleep(0)
        assert waiting.sent == []

    run(test)


def test_a_closed_connections_are_dropped_and_anothers_stay() -> None:
    async def test(waiting: Waiting) -> None:
        theirs = waiting.pull(9, waiting.two, group="g")
        for each in (waiting.pull(1), waiting.pull(2, group="g"), theirs):
            waiting.held.keep(each)
        waiting.held.forget(waiting.one)
        waiting.held.forget(waiting.one)
        assert waiting.held.all() == waiting.held.pops("g", "T") == [theirs]
        assert (waiting.held.has(waiting.one), waiting.held.has(waiting.two)) == (False, True)
        waiting.one.close()
        assert not waiting.held.keep(waiting.pull(3))

    run(test)


def test_pops_are_counted_by_group_topic_and_queue() -> None:
    async def test(waiting: Waiting) -> None:
        some = [("g", "T", 0), ("g", "T", -1), ("g", "T", -1), ("g", "U", 0), ("h", "T", 0)]
        for number, (group, topic, queue_id) in enumerate(some):
            waiting.held.keep(waiting.pull(number, group=group, topic=topic, queue_id=queue_id))
        waiting.held.keep(waiting.pull(9))  # a pull is no pop
        found = [waiting.held.count("g", "T", queue) for queue in (0, -1, 1)]
        assert found == [1, 2, 0]
        assert len(waiting.held.pops("g", "T")) == 3
        assert waiting.held.pops("h", "U") == []

    run(test)


def test_too_many_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST", 2)

    async def test(waiting: Waiting) -> None:
        kept = [waiting.held.keep(waiting.pull(number)) for number in range(3)]
        assert kept == [True, True, False]
        waiting.held.take(waiting.held.all()[:1])
        assert waiting.held.keep(waiting.pull(4))
        assert not waiting.held.keep(Held(waiting.one, Command(11), Answer(0)))  # waits for nothing

    run(test)
