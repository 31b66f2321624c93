"""Connections have their turns: one that asks much keeps no other one waiting."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack

from reput.broker.wire.remoting import RESPONSE_BIT, Command, frame
from reput.jobs.sockets.connection import Connection, framed

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

    asyncio.run(asyncio.wait_for(serve(), 20))
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
