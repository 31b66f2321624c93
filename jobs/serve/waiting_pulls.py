"""Pulls and pops that wait for messages (PullRequestHoldService, PopLongPollingService)."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from reput.broker.serving.broker import Answer
from reput.broker.wire.remoting import Command
from reput.jobs.serve.connection import Connection

_MOST = 1 << 16  # pulls that wait at the same time
_WAIT_MOST = 300.0  # seconds; clients ask for 15 or 20


@dataclass(eq=False)
class Held:
    """A waiting pull or pop."""

    connection: Connection
    request: Command
    said: Answer  # the answer to send if no message comes in time


class HeldPulls:
    """All waiting pulls and pops, by connection."""

    def __init__(
        self, send: Callable[[Connection, Command, Answer], None],
        ask: Callable[[Connection, Command], None],
    ) -> None:  # fmt: skip
        """send: sends an answer; ask: handles a request again."""
        self._send, self._ask = send, ask
        self._of: dict[Connection, dict[Held, asyncio.TimerHandle]] = {}
        self._pops: dict[tuple[str, str], dict[Held, None]] = {}  # by group and topic
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def has(self, connection: Connection) -> bool:
        return connection in self._of

    def keep(self, held: Held) -> bool:
        """Hold a pull or pop; False if it must be answered now, as too many are held."""
        if self._count >= _MOST or not held.connection.open or held.said.hold is None:
            return False
        hold = held.said.hold
        until = hold.until if hold.again is None else min(hold.until, hold.again)
        seconds = min(until / 1000 - time.time(), _WAIT_MOST)
        timer = asyncio.get_running_loop().call_later(seconds, self._let_go, held)
        self._of.setdefault(held.connection, {})[held] = timer
        if hold.group is not None:
            self._pops.setdefault((hold.group, hold.topic), {})[held] = None
        self._count += 1
        return True

    def pops(self, group: str, topic: str) -> list[Held]:
        """The pops that wait for a group's messages of a topic."""
        return list(self._pops.get((group, topic), ()))

    def count(self, group: str, topic: str, queue_id: int) -> int:
        """The number of pops that wait for a queue, or (id below 0) for all queues of a topic."""
        waiting = (held.said.hold for held in self.pops(group, topic))
        return sum(hold is not None and hold.queue_id == queue_id for hold in waiting)

    def all(self) -> list[Held]:
        return [held for all_of in self._of.values() for held in all_of]

    def take(self, some: list[Held]) -> list[Held]:
        """Release those of `some` that are still held, and return them."""
        waiting = [held for held in some if held in self._of.get(held.connection, ())]
        for held in waiting:
            self._remove(held)
        return waiting

    def forget(self, connection: Connection) -> None:
        """Drop the pulls and pops of a closed connection."""
        for held in list(self._of.get(connection, ())):
            self._remove(held)

    def _let_go(self, held: Held) -> None:
        self._remove(held)
        hold = held.said.hold
        if hold is not None and hold.again is not None and hold.again < hold.until:
            self._ask(held.connection, held.request)
            return
        self._send(held.connection, held.request, held.said)

    def _remove(self, held: Held) -> None:
        waiting = self._of[held.connection]
        waiting.pop(held).cancel()
        self._count -= 1
        hold = held.said.hold
        if hold is not None and hold.group is not None:
            pops = self._pops[hold.group, hold.topic]
            del pops[held]
            if not pops:
                del self._pops[hold.group, hold.topic]
        if not waiting:
            del self._of[held.connection]
