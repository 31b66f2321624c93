"""The server: accepts connections, has their requests answered, and holds pulls that wait."""

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from reput.jobs.serve.connection import Connection, Piece
from reput.store_format.remoting.codes import ResponseCode
from reput.store_format.remoting.command import Command
from reput.store_format.remoting.frames import frame, frame_head
from reput.store_format.serving.answer import Answer, Caller, Hold, refused
from reput.store_format.serving.answering import answer, reply
from reput.store_format.serving.broker import Broker

_BACKLOG = 1024
_LOOK_SECONDS = 5.0  # how often connections are looked at


@dataclass(frozen=True)
class Limits:
    """What a client may not exceed; seconds."""

    connections: int = 4096
    idle: float = 120.0  # NettyServerConfig.serverChannelMaxIdleTimeSeconds
    stuck: float = 30.0  # without taking anything of its answers
    half_frame: float = 30.0


@dataclass
class Held:
    """A pull that waits (PullRequest)."""

    connection: Connection
    request: Command
    hold: Hold
    answer: Answer


class Server:
    """A name server and a broker on one port."""

    def __init__(self, broker: Broker, limits: Limits, tell: Callable[[str], None]) -> None:
        """tell: is given what is worth a line of a log; never a message's text."""
        self.broker, self.limits, self._tell = broker, limits, tell
        self._connections: dict[int, Connection] = {}
        self._numbers = 0
        self._held = dict[int, list[Held]]()  # by connection
        self._listening: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    # --- connections -----------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen there, and answer from now on; returns the address. Raises OSError."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
        self._listening.append(sock)
        loop = asyncio.get_running_loop()
        loop.add_reader(sock, self._accept, sock)
        if not self._tasks:
            self._tasks.append(loop.create_task(self._look()))
        host, port = sock.getsockname()[:2]
        return host, port

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BACKLOG):
            try:
                sock, peer = listening.accept()
            except OSError:  # BlockingIOError: there is none; or no descriptor is left
                return
            if len(self._connections) >= self.limits.connections:
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._numbers += 1
            self._connections[self._numbers] = Connection(
                sock, self._numbers, _text(peer), _text(sock.getsockname()), self._asked,
                self._closed, time.monotonic,
            )  # fmt: skip

    def _closed(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)
        self._held.pop(connection.number, None)
        for each in self.broker.closed:
            each(connection.number, _now())
        self._send_ours()

    async def _look(self) -> None:
        """Every few seconds: close what is idle, stuck or half way for too long."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for connection in list(self._connections.values()):
                silent = now - connection.heard
                if (
                    (connection.is_stuck and now - connection.moved > self.limits.stuck)
                    or (connection.is_half_way and silent > self.limits.half_frame)
                    or silent > self.limits.idle
                ):
                    connection.close()
            for each in self.broker.ticked:
                each(_now())
            self._send_ours()

    # --- requests --------------------------------------------------------------------------------

    def _asked(self, connection: Connection, request: Command) -> None:
        said = self._answer(connection, request)
        if said.hold is not None and not request.is_one_way:
            self._hold(Held(connection, request, said.hold, said))
        elif not request.is_one_way:
            self._send(connection, request, said)
        self._send_ours()

    def _answer(self, connection: Connection, request: Command) -> Answer:
        caller = Caller(connection.number, connection.peer, connection.local, _now())
        try:
            return answer(self.broker, request, caller)
        except OSError as error:
            self._tell(f"a request of code {request.code} failed: {error}")
            return refused(ResponseCode.SYSTEM_ERROR, "the store cannot be read")

    def _send(self, connection: Connection, request: Command, said: Answer) -> None:
        length = len(said.body) + sum(
            len(each) if isinstance(each, bytes) else each.length for each in said.ranges
        )
        head = frame_head(reply(self.broker, request, said), length)
        pieces: list[Piece] = [head + said.body if said.body else head, *said.ranges]
        connection.send(pieces)

    def _send_ours(self) -> None:
        """Send what handlers want to be sent to other clients."""
        while self.broker.outbox:
            number, command = self.broker.outbox.pop(0)
            if (connection := self._connections.get(number)) is not None:
                connection.send([frame(command)])

    # --- pulls that wait -------------------------------------------------------------------------

    def _hold(self, held: Held) -> None:
        self._held.setdefault(held.connection.number, []).append(held)
        seconds = max(held.hold.until - _now(), 0) / 1000
        asyncio.get_running_loop().call_later(seconds, self._let_go, held)

    def _let_go(self, held: Held) -> None:
        """Answer a pull as it stood, unless it was answered, or its client is gone."""
        waiting = self._held.get(held.connection.number, [])
        if held in waiting:
            waiting.remove(held)
            self._send(held.connection, held.request, held.answer)

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of everything."""
        loop = asyncio.get_running_loop()
        for task in self._tasks:
            task.cancel()
        for sock in self._listening:
            loop.remove_reader(sock)
            sock.close()
        for connection in list(self._connections.values()):
            connection.close()


def _now() -> int:
    return time.time_ns() // 1_000_000


def _text(address: tuple[object, ...]) -> str:
    """host:port, as RocketMQ's clients read it: the last colon parts them."""
    return f"{address[0]}:{address[1]}"


async def until_signal(signals: tuple[int, ...]) -> None:
    """Wait for one of these."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    for number in signals:
        with suppress(ValueError, NotImplementedError):
            loop.add_signal_handler(number, came.set)
    await came.wait()
