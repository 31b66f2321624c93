"""The server: accepts connections, has requests answered, watches over connections, and keeps pulls
that wait and questions to clients.
"""

import asyncio
import os
import resource
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from reput.broker.serving.broker import Answer, Broker, Caller, Question, refused
from reput.broker.serving.handlers import answer, reply
from reput.broker.serving.records import BodyPiece
from reput.broker.serving.store import LogRange
from reput.broker.wire.codes import ResponseCode
from reput.broker.wire.remoting import INT_MAX, Command
from reput.jobs.sockets.connection import Connection, TlsMode, framed
from reput.store_format.faults import StoreError

# ---
# Pulls and pops that wait for messages (PullRequestHoldService, PopLongPollingService).

_MOST = 1 << 16  # pulls that wait at the same time
_WAIT_MOST = 300.0  # seconds; clients ask for 15 or 20


@dataclass(eq=False)
class Held:
    connection: Connection
    request: Command
    said: Answer  # the answer to send if no message comes in time


class HeldPulls:
    """All waiting pulls and pops, by connection. send: sends an answer; ask: asks again."""

    def __init__(
        self, send: Callable[[Connection, Command, Answer], None],
        ask: Callable[[Connection, Command], None],
    ) -> None:  # fmt: skip
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


# ---
# Questions to clients on behalf of other clients (RemotingServer.invokeSync).


class _Waiting(NamedTuple):
    asker: Connection
    request: Command
    question: Question
    timer: asyncio.TimerHandle


class Questions:
    """All questions without an answer. If an asker has too many, no further request is read."""

    def __init__(self, settle: Callable[[Connection, Command, Answer], None]) -> None:
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


_BACKLOG = 1024
_LOOK_SECONDS = 5.0  # how often connections are looked at
_GROW_SECONDS = 0.2  # how often the files of a followed store are looked at,
_GROW_FAR_SECONDS = 2.0  # and if they are on another machine
_TELL_SECONDS = 60.0
_GROW_SHARE = 10  # looking at many queues takes long too: it gets a tenth of the time


@dataclass(frozen=True)
class Limits:
    """Limits to connections; times in seconds."""

    connections: int = 4096  # seven eighths of them at most for one address
    idle: float = 120.0  # NettyServerConfig.serverChannelMaxIdleTimeSeconds
    stuck: float = 30.0  # while a client takes nothing of its answers
    half_frame: float = 30.0  # from a frame's, or a handshake's, first byte to its last
    unproven: float = 1.0  # without a request, before it may have to make room for another

    @property
    def of_an_address(self) -> int:
        """The most connections that one address may have: the others are kept for others."""
        return self.connections - self.connections // 8


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
        self._address_of: dict[int, str] = {}
        self._addresses = Counter[str]()  # how many connections each address has
        self._numbers = 0
        self._held = HeldPulls(self._send, self._asked)
        broker.waiting = self._held.count
        self._questions = Questions(self._settle)
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[str, float] = {}  # protocol -> when a line last named it
        self._asked_lately, self._trouble = False, ""
        self._thread = ThreadPoolExecutor(1) if broker.store.far else None
        # each connection and each segment needs a descriptor
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    # --- connections -----------------------------------------------------------------------------

    def listen(self, host: str, port: int) -> str:
        """Listen at host and port, and answer from now on. Returns the address. Raises OSError."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        both = family == socket.AF_INET6  # `::` is every address of either family
        try:
            sock = socket.create_server(
                address, family=family, backlog=_BACKLOG, dualstack_ipv6=both
            )
        except OSError as error:
            number = error.errno or 0
            raise OSError(number, f"{host}:{port}: {os.strerror(number)}") from None
        sock.setblocking(False)
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
            address = _network(peer)
            if not self._has_room(address):
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._numbers += 1
            self._addresses[address] += 1
            self._address_of[self._numbers] = address
            self._connections[self._numbers] = Connection(
                sock, self._numbers, _text(peer), _text(sock.getsockname()), self._came,
                self._closed, time.monotonic, self._tls,
            )  # fmt: skip

    def _has_room(self, address: str) -> bool:
        """Whether a further connection of an address is taken. Where there is no room, the oldest
        connection that has sent no whole request yet has to make room.
        """
        of_address = self._addresses[address] >= self.limits.of_an_address
        if not of_address and len(self._connections) < self.limits.connections:
            return True
        limit = time.monotonic() - self.limits.unproven
        for each in self._connections.values():  # the oldest first
            if each.since > limit:
                return False
            if not each.proven and (not of_address or self._address_of[each.number] == address):
                each.close()
                return True
        return False

    def _closed(self, connection: Connection) -> None:
        now, protocol = time.monotonic(), connection.foreign
        told = self._told.get(protocol or "", -_TELL_SECONDS)
        if protocol is not None and now - told >= _TELL_SECONDS:
            self._told[protocol] = now
            self._tell(
                f"{connection.peer} was closed: it speaks {protocol}; this port speaks RocketMQ's "
                "remoting protocol (gRPC clients come by RocketMQ's Proxy: docs/serve.md)"
            )
        self._connections.pop(connection.number, None)
        address = self._address_of.pop(connection.number)
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
        self._held.forget(connection)
        self._questions.forget(connection)
        for each in self.broker.closed:
            self._do(each, connection.number, _now())

    async def _look(self) -> None:
        """Every few seconds close idle, stuck and half-way connections, and call `ticked`."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for connection in list(self._connections.values()):
                silent, half = now - connection.heard, connection.half_since
                if (
                    (connection.is_stuck and now - connection.moved > self.limits.stuck)
                    or (half is not None and now - half > self.limits.half_frame)
                    or (silent > self.limits.idle and not self._held.has(connection))
                ):
                    connection.close()
            for each in self.broker.ticked:
                self._do(each, _now())

    # --- requests --------------------------------------------------------------------------------

    def _came(self, connection: Connection, command: Command) -> None:
        (self._questions.answered if command.is_response else self._asked)(connection, command)

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
        self._hand_on()

    def _hand_on(self) -> None:
        """Send the commands that handlers have for other clients, and answer pops again for which
        they report that messages may have come.
        """
        outbox = self.broker.outbox[:]
        self.broker.outbox.clear()
        for number, command in outbox:
            connection = self._connections.get(number)
            # a client that reads nothing gets none: it looks every 20 s (RebalanceService)
            if connection is not None and not connection.is_full():
                connection.send(framed(command))
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

    def _do(self, function: Callable[..., None], *words: int) -> None:
        """Call a function in the thread that makes answers."""
        if self._thread is None:
            function(*words)
            self._hand_on()
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
            far = self._thread and loop.run_in_executor(self._thread, self._grown, waiting)
            grown = await far if far else self._grown(waiting)
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


def _now() -> int:
    return time.time_ns() // 1_000_000


def _network(address: tuple[object, ...]) -> str:
    """The address of a peer; of IPv6 the network, in which one machine may have any address."""
    host = ip_address(str(address[0]).partition("%")[0])
    if isinstance(host, IPv6Address) and host.ipv4_mapped is None:
        return host.packed[:8].hex()
    return str(address[0])


def _text(address: tuple[object, ...]) -> str:
    """host:port, which RocketMQ's clients split at the last colon."""
    return f"{address[0]}:{address[1]}"


def on_signal(signals: tuple[int, ...]) -> asyncio.Event:
    """An event that is set once one of the signals has come."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    for number in signals:
        loop.add_signal_handler(number, came.set)
    return came
