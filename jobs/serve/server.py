"""The server: accepts connections, has requests answered, and watches over connections."""

import asyncio
import os
import resource
import socket
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from reput.broker.serving.broker import Answer, Broker, Caller, refused
from reput.broker.serving.handlers import answer, reply
from reput.broker.serving.records import BodyPiece
from reput.broker.serving.store import LogRange
from reput.broker.wire.codes import ResponseCode
from reput.broker.wire.remoting import Command
from reput.jobs.serve.connection import Connection, framed
from reput.jobs.serve.questions import Questions
from reput.jobs.serve.tls import TlsMode
from reput.jobs.serve.waiting_pulls import Held, HeldPulls
from reput.store_format.faults import StoreError

_BACKLOG = 1024
_LOOK_SECONDS = 5.0  # how often connections are looked at
_GROW_SECONDS = 0.2  # how often the files of a followed store are looked at,
_GROW_FAR_SECONDS = 2.0  # and if they are on another machine
_TELL_SECONDS = 60.0
_GROW_SHARE = 10  # looking at many queues takes long too: it gets a tenth of the time


@dataclass(frozen=True)
class Limits:
    """Limits to connections; times in seconds."""

    connections: int = 4096
    idle: float = 120.0  # NettyServerConfig.serverChannelMaxIdleTimeSeconds
    stuck: float = 30.0  # while a client takes nothing of its answers
    half_frame: float = 30.0


class Server:
    """A name server and a broker in the thread of the event loop. If the store is on a remote
    storage, another thread makes the answers, one after the other.
    """

    def __init__(
        self, broker: Broker, limits: Limits, tell: Callable[[str], None], follow: bool = False,
        tls: TlsMode | None = None,
    ) -> None:  # fmt: skip
        """tell: gets lines for a log, never the text of a message. follow: the store may grow."""
        self.broker, self.limits, self._tell, self._follow = broker, limits, tell, follow
        self._tls = tls
        self._connections: dict[int, Connection] = {}
        self._numbers = 0
        self._held = HeldPulls(self._send, self._asked)
        broker.waiting = self._held.count
        self._questions = Questions(self._settle)
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[str, float] = {}  # protocol -> when a line last named it
        self._asked_lately, self._trouble = False, ""
        self._thread = ThreadPoolExecutor(1) if broker.store.far else None
        _raise_open_files()

    # --- connections -----------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> str:
        """Listen at host and port, and answer from now on. Returns the address. Raises OSError."""
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            sock.bind(address)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from None
        if not self._listening:
            self._start(self._look())
            if self._follow:
                self._start(self._grow())
        self._listening.append(sock)
        asyncio.get_running_loop().add_reader(sock, self._accept, sock)
        return _text(sock.getsockname())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_BACKLOG):
            try:
                sock, peer = listening.accept()
            except OSError:  # BlockingIOError: no connection waits; or no descriptor is free
                return
            if len(self._connections) >= self.limits.connections:
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._numbers += 1
            self._connections[self._numbers] = Connection(
                sock, self._numbers, _text(peer), _text(sock.getsockname()), self._came,
                self._closed, time.monotonic, self._tls,
            )  # fmt: skip

    def _closed(self, connection: Connection) -> None:
        if connection.foreign is not None:
            self._tell_foreign(connection.peer, connection.foreign)
        self._connections.pop(connection.number, None)
        self._held.forget(connection)
        self._questions.forget(connection)
        for each in self.broker.closed:
            self._do(each, connection.number, _now())

    def _tell_foreign(self, peer: str, protocol: str) -> None:
        """Tell that a peer does not speak remoting, at most once a minute for each protocol."""
        now = time.monotonic()
        if now - self._told.get(protocol, -_TELL_SECONDS) >= _TELL_SECONDS:
            self._told[protocol] = now
            self._tell(
                f"{peer} was closed: it speaks {protocol}; this port speaks RocketMQ's remoting "
                "protocol (gRPC clients come by RocketMQ's Proxy: docs/serve.md)"
            )

    async def _look(self) -> None:
        """Every few seconds close idle, stuck and half-way connections, and call `ticked`."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for connection in list(self._connections.values()):
                silent = now - connection.heard
                if (
                    (connection.is_stuck and now - connection.moved > self.limits.stuck)
                    or (connection.is_half_way and silent > self.limits.half_frame)
                    or (silent > self.limits.idle and not self._held.has(connection))
                ):
                    connection.close()
            for each in self.broker.ticked:
                self._do(each, _now())

    # --- requests --------------------------------------------------------------------------------

    def _came(self, connection: Connection, command: Command) -> None:
        if command.is_response:
            self._questions.answered(connection, command)
        else:
            self._asked(connection, command)

    def _asked(self, connection: Connection, request: Command) -> None:
        self._asked_lately = True
        if self._thread is None:
            self._settle(connection, request, self._answer(connection, request))
        else:
            connection.awaits(1)
            self._start(self._ask_far(connection, request))

    async def _ask_far(self, connection: Connection, request: Command) -> None:
        loop = asyncio.get_running_loop()
        said = await loop.run_in_executor(self._thread, self._answer, connection, request)
        connection.awaits(-1)
        self._settle(connection, request, said)

    def _answer(self, connection: Connection, request: Command) -> Answer:
        caller = Caller(connection.number, connection.peer, connection.local, _now())
        try:
            said = answer(self.broker, request, caller)
            return said if self._thread is None else _loaded(said)
        except (OSError, StoreError) as error:
            self._tell(f"a request of code {request.code} failed: {error}")
            return refused(ResponseCode.SYSTEM_ERROR, "the store cannot be read")
        except Exception as error:  # noqa: BLE001 (other clients are still served)
            if os.environ.get("REPUT_TRACEBACK"):
                traceback.print_exception(error)
            self._tell(f"a request of code {request.code} failed: {type(error).__name__}")
            return refused(ResponseCode.SYSTEM_ERROR, "the request could not be answered")

    def _settle(self, connection: Connection, request: Command, said: Answer) -> None:
        """Send an answer, or hold the pull or pop to which it belongs."""
        if not request.is_one_way:
            if said.question is not None:
                asked = self._connections.get(said.question.connection)
                self._questions.ask(connection, request, said.question, asked)
                return
            held = said.hold is not None and said.hold.until > _now()
            if not (held and self._held.keep(Held(connection, request, said))):
                self._send(connection, request, said)
        self._send_ours()
        self._wake()

    def _wake(self) -> None:
        """Answer pops again for which a handler reports that messages may have come."""
        woken = list(self.broker.woken)
        self.broker.woken.clear()
        for group, topic in woken:
            for held in self._held.take(self._held.pops(group, topic)):
                asyncio.get_running_loop().call_soon(self._ask_again, held)

    def _ask_again(self, held: Held) -> None:
        if held.connection.open:  # else a pop would take messages that nobody gets
            self._asked(held.connection, held.request)

    def _send(self, connection: Connection, request: Command, said: Answer) -> None:
        connection.send(framed(reply(self.broker, request, said), said.pieces))

    def _send_ours(self) -> None:
        """Send the commands that handlers have for other clients."""
        outbox = self.broker.outbox[:]
        self.broker.outbox.clear()
        for number, command in outbox:
            connection = self._connections.get(number)
            # a client that reads nothing gets none: it looks every 20 s (RebalanceService)
            if connection is not None and not connection.is_full():
                connection.send(framed(command))

    def _do(self, function: Callable[..., None], *words: int) -> None:
        """Call a function in the thread that makes answers."""
        if self._thread is None:
            function(*words)
            self._send_ours()
            self._wake()
        else:
            self._thread.submit(function, *words)

    # --- a store that grows ----------------------------------------------------------------------

    async def _grow(self) -> None:
        """Look at the store's files again and again, and answer pulls once messages have come."""
        loop = asyncio.get_running_loop()
        every = _GROW_SECONDS if self._thread is None else _GROW_FAR_SECONDS
        took = 0.0
        while True:
            await asyncio.sleep(max(every, took * _GROW_SHARE))
            if not (self._asked_lately or self._held):
                continue
            self._asked_lately = False
            begin, waiting = time.monotonic(), self._held.all()
            if self._thread is None:
                grown = self._grown(waiting)
            else:
                grown = await loop.run_in_executor(self._thread, self._grown, waiting)
            took = time.monotonic() - begin
            for held in self._held.take(grown):
                self._asked(held.connection, held.request)

    def _grown(self, waiting: list[Held]) -> list[Held]:
        """Look at the files again. Returns the pulls in `waiting` that now find messages."""
        try:
            self.broker.store.refresh()
            return [held for held in waiting if self._has(held)]
        except (OSError, StoreError) as error:
            if str(error) != self._trouble:
                self._tell(f"the store could not be looked at again: {error}")
            self._trouble = str(error)
            return []

    def _has(self, held: Held) -> bool:
        hold = held.said.hold
        assert hold is not None
        if hold.ready is not None:
            return hold.ready()
        queue = self.broker.store.queue(hold.topic, hold.queue_id)
        return queue is not None and queue.maximum > hold.position

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close all connections, and end all tasks."""
        loop = asyncio.get_running_loop()
        for task in self._tasks:
            task.cancel()
        for sock in self._listening:
            loop.remove_reader(sock)
            sock.close()
        for connection in list(self._connections.values()):
            connection.close()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _start(self, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._tell(f"{type(error).__name__}: {error}")


def _loaded(said: Answer) -> Answer:
    """The answer with its pieces read into memory, as sendfile needs files of this machine."""
    if (question := said.question) is not None:
        said = said._replace(question=question._replace(pieces=_read(question.pieces)))
    return said._replace(pieces=_read(said.pieces))


def _read(pieces: tuple[BodyPiece, ...]) -> tuple[BodyPiece, ...]:
    return tuple(memoryview(each.read()) if isinstance(each, LogRange) else each for each in pieces)


def _raise_open_files() -> None:
    """Raise the limit of open files, as each connection and each segment needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _text(address: tuple[object, ...]) -> str:
    """host:port, which RocketMQ's clients split at the last colon."""
    return f"{address[0]}:{address[1]}"


def on_signal(signals: tuple[int, ...]) -> asyncio.Event:
    """An event that is set once one of the signals has come."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    for number in signals:
        loop.add_signal_handler(number, came.set)
    return came
