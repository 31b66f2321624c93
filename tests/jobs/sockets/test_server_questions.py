"""Questions to one client for another: each is settled once, by an answer or without one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from reput.broker.serving.broker import Answer, Question
from reput.broker.wire.remoting import RESPONSE_BIT, Command, Frames
from reput.jobs.sockets.connection import Connection
from reput.jobs.sockets.server import Questions

ASKED = 7  # the number of the client that is asked
Settled = list[tuple[int, int, str]]  # (asker, its request's opaque, what it is told)


class Two:
    """An asker and the client that it asks about, with the clients' ends of their sockets."""

    def __init__(self, stack: ExitStack) -> None:
        self.settled: Settled = []
        self.questions = Questions(
            lambda asker, request, answer: self.settled.append(
                (asker.number, request.opaque, str(answer.remark))
            )
        )
        self.asker, _ = self._connect(stack, 1)
        self.asked, self.client = self._connect(stack, ASKED)
        self.frames = Frames()

    @staticmethod
    def _connect(stack: ExitStack, number: int) -> tuple[Connection, socket.socket]:
        ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
        ours.setblocking(False)
        theirs.setblocking(False)
        made = Connection(ours, number, "p", "l", lambda *_: None, lambda _: None, lambda: 0.0)
        stack.callback(made.close)
        return made, theirs

    def ask(self, opaque: int, wait: int = 60_000, gone: bool = False) -> None:
        question = Question(
            ASKED, Command(307), (), wait,
            lambda said: Answer(0, "nobody" if said is None else str(said.body)),
        )  # fmt: skip
        asked = None if gone else self.asked
        self.questions.ask(self.asker, Command(22, opaque), question, asked)

    def received(self) -> list[Command]:
        self.frames.feed(self.client.recv(1 << 16))
        return list(iter(self.frames.next, None))

    def answer(self, to: Command, body: bytes, by: Connection | None = None) -> None:
        self.questions.answered(by or self.asked, Command(0, to.opaque, RESPONSE_BIT, body=body))


def run(test: Callable[[Two], Awaitable[None]]) -> None:
    async def within() -> None:
        with ExitStack() as stack:
            await test(Two(stack))

    asyncio.run(asyncio.wait_for(within(), 10))


def test_each_question_gets_the_answer_to_its_own_number() -> None:
    async def test(two: Two) -> None:
        two.ask(501)
        two.ask(502)
        first, second = two.received()
        assert first.opaque != second.opaque
        two.answer(second, b"second")
        two.answer(first, b"first")
        two.answer(first, b"again")  # nobody waits for it any more
        assert two.settled == [(1, 502, "b'second'"), (1, 501, "b'first'")]

    run(test)


def test_an_answer_of_another_client_settles_nothing() -> None:
    async def test(two: Two) -> None:
        two.ask(501)
        [asked] = two.received()
        two.answer(asked, b"forged", by=two.asker)
        assert two.settled == []

    run(test)


@pytest.mark.parametrize(("wait", "gone"), [(0, False), (60_000, True)])
def test_without_an_answer_in_time_the_asker_is_told(wait: int, gone: bool) -> None:
    async def test(two: Two) -> None:
        two.ask(501, wait, gone)
        assert two.settled == []  # not before the asker's own request is done
        while not two.settled:
            await asyncio.sleep(0)
        assert two.settled == [(1, 501, "nobody")]

    run(test)


def test_when_a_client_goes_all_its_questions_are_settled() -> None:
    async def test(two: Two) -> None:
        for opaque in (501, 502):
            two.ask(opaque)
        two.questions.forget(two.asker)  # nobody asked this one
        assert two.settled == []
        two.questions.forget(two.asked)
        two.questions.forget(two.asked)
        assert two.settled == [(1, 501, "nobody"), (1, 502, "nobody")]

    run(test)


def test_an_asker_of_sixteen_is_not_read_until_one_is_settled() -> None:
    async def test(two: Two) -> None:
        for opaque in range(16):
            assert not two.asker.is_full()
            two.ask(opaque)
        assert two.asker.is_full()
        two.answer(two.received()[0], b"")
        assert not two.asker.is_full()

    run(test)
