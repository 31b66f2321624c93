"""Questions to clients on behalf of other clients (RemotingServer.invokeSync)."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from reput.broker.serving.broker import Answer, Question
from reput.broker.wire.remoting import INT_MAX, Command
from reput.jobs.serve.connection import Connection, framed


class _Waiting(NamedTuple):
    asker: Connection
    request: Command
    question: Question
    timer: asyncio.TimerHandle


class Questions:
    """All questions without an answer. If an asker has too many, no further request is read."""

    def __init__(self, settle: Callable[[Connection, Command, Answer], None]) -> None:
        """settle: called with the asker, its request, and the answer to it."""
        self._settle = settle
        self._waiting: dict[tuple[int, int], _Waiting] = {}  # by (asked connection, opaque)
        self._opaque = 0

    def ask(
        self, asker: Connection, request: Command, question: Question, asked: Connection | None
    ) -> None:
        """Send a question. asked: None if that client is gone, which counts as a timeout."""
        self._opaque = self._opaque % INT_MAX + 1
        key = question.connection, self._opaque
        there = asked is not None and not asked.is_full()
        seconds = question.wait / 1000 if there else 0.0
        timer = asyncio.get_running_loop().call_later(seconds, self._end, key, None)
        self._waiting[key] = _Waiting(asker, request, question, timer)
        asker.awaits(1)
        if asked is not None and there:
            command = question.command._replace(opaque=self._opaque)
            asked.send(framed(command, question.pieces))

    def answered(self, connection: Connection, command: Command) -> None:
        """Settle the question of an answer; an answer without a waiting question is dropped."""
        self._end((connection.number, command.opaque), command)

    def forget(self, connection: Connection) -> None:
        """Settle all questions to a closed connection, without an answer."""
        for key in [key for key in self._waiting if key[0] == connection.number]:
            self._end(key, None)

    def _end(self, key: tuple[int, int], said: Command | None) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        waiting.timer.cancel()
        waiting.asker.awaits(-1)
        self._settle(waiting.asker, waiting.request, waiting.question.then(said))
