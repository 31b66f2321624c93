"""A client's connection, with TLS or without: frames come in, answers go out as fast as the client
reads them.

Sockets are used directly, without asyncio's transports: sendfile copies a body from a file of the
log to the socket, for which asyncio would need a task each time.
"""

import asyncio
import os
import socket
import ssl
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from reput.broker.serving.records import BodyPiece
from reput.broker.serving.store import LogRange
from reput.broker.wire import remoting
from reput.store_format.faults import StoreError

# ---
# TLS on the same port as plain connections (NettyRemotingServer's HandshakeHandler). A client's
# first byte shows whether it wants TLS.
#
# `Tls` has no socket: received bytes go in, bytes to be sent come out.

_HANDSHAKE = 0x16  # first byte of a TLS record with a handshake; frames begin with 0 or 1
_HEAD_BYTES = 5  # type, version, length of what follows
_READ_BYTES = 1 << 16


class PlainRefused(Exception):
    """A client does not use TLS although it must."""


class Tls:
    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._head, self._left = b"", 0  # of the record that comes: its first bytes, and the rest
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def received(self, data: bytes) -> bytes:
        """The plain text of received bytes; b"" if no record is complete. Raises ssl.SSLError."""
        self._incoming.write(data)
        self._count(data)
        plain = bytearray()
        try:
            while some := self._tls.read(_READ_BYTES):
                plain += some
        except ssl.SSLWantReadError:
            pass
        return bytes(plain)

    @property
    def is_half_way(self) -> bool:
        """Whether the handshake is not done, or a record has been received in part."""
        return bool(self._head or self._left) or self._tls.version() is None

    def _count(self, data: bytes) -> None:
        """Follow the records by their heads: OpenSSL does not tell that it has a part of one."""
        at = 0
        while at < len(data):
            if self._left:
                passed = min(self._left, len(data) - at)
                self._left -= passed
                at += passed
                continue
            part = data[at : at + _HEAD_BYTES - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == _HEAD_BYTES:
                self._left = int.from_bytes(self._head[_HEAD_BYTES - 2 :], "big")
                self._head = b""

    def encrypt(self, data: bytes) -> None:
        """Encrypt data to be sent, for `outgoing`. Raises ssl.SSLError."""
        self._tls.write(data)

    def outgoing(self) -> bytes:
        """The bytes to be sent now, also those of the handshake."""
        return self._outgoing.read()


@dataclass(frozen=True)
class TlsMode:
    """Whether connections may be, or must be, TLS (TlsMode.PERMISSIVE, ENFORCING)."""

    context: ssl.SSLContext
    required: bool

    def begin(self, first: bytes) -> Tls | None:
        """The TLS of a connection with these first bytes; None: plain. Raises PlainRefused."""
        if first[0] == _HANDSHAKE:
            return Tls(self.context)
        if self.required:
            raise PlainRefused
        return None


def tls_mode(certificate: str, key: str, required: bool) -> TlsMode:
    """TLS with a certificate, its chain and its key, as PEM. Raises StoreError, OSError."""
    os.stat(certificate)  # OpenSSL's error would name no file
    refuse_readable_by_others(key, os.stat(key).st_mode)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # without `password` OpenSSL would ask for a key's password at the terminal
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        reason = error.reason or "is not PEM that OpenSSL reads"
        raise StoreError(f"{certificate}, {key}: do not fit together: {reason}") from None
    return TlsMode(context, required)


def refuse_readable_by_others(path: str, mode: int) -> None:
    """Raise StoreError if anyone but its owner can read or write a file of secrets."""
    if not stat.S_ISREG(mode):
        raise StoreError(f"{path}: is not a file")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(
            f"{path}: others than its owner can read or write it (mode {stat.S_IMODE(mode):o}): "
            "chmod 600 makes it fit for secrets"
        )


_AWAITED_MOST = 16  # requests being answered elsewhere before no further request is read
_UNSENT_MOST = 1 << 19  # unsent bytes, beyond which no further request is read
_PIECES_MOST = 1 << 10
_GATHERED = 64  # buffers a sendmsg takes

Sendable = bytes | BodyPiece


class Connection:
    """An accepted connection. number: no other connection of the server has this number."""

    def __init__(
        self, sock: socket.socket, number: int, peer: str, local: str,
        came: Callable[["Connection", remoting.Command], None],
        closed: Callable[["Connection"], None], now: Callable[[], float],
        tls: TlsMode | None = None,
    ) -> None:  # fmt: skip
        """came: called with each command; closed: called once at the end; now: clock in seconds."""
        self.number, self.peer, self.local = number, peer, local
        self._sock, self._came, self._closed, self._now = sock, came, closed, now
        self._loop = asyncio.get_running_loop()
        self._tls_mode, self._begun = tls, False
        self._tls: Tls | None = None
        self._frames = remoting.Frames()
        self._first = b""  # the client's first bytes
        self.foreign: str | None = None  # the client's protocol, if that is not remoting
        self._unsent = deque[Sendable]()
        self._unsent_bytes = 0
        self._reading = self._writing = False
        self._awaited = 0  # requests being answered elsewhere
        self._next: remoting.Command | None = None  # a received command that waits for its turn
        self._turn_due = False
        self.open = True
        self.since = self._now()  # when it was accepted
        self.heard = self.moved = self.since  # when bytes were last received, and last sent
        self.proven = False  # whether it has ever sent a whole command
        self.half_since: float | None = None  # when the first byte came of what is half way
        self._read()

    # --- in --------------------------------------------------------------------------------------

    def _read(self) -> None:
        if not self._reading:
            self._loop.add_reader(self._sock, self._readable)
            self._reading = True

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._sock)
            self._reading = False

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self.heard = self._now()
        self._first = self._first or data[: remoting.FIRST_BYTES]
        if self._tls_mode is not None:
            data = self._decrypted(data, self._tls_mode)
        self._frames.feed(data)
        self._take()

    def _decrypted(self, data: bytes, mode: TlsMode) -> bytes:
        """The plain text of received bytes; the bytes themselves if the connection is plain."""
        try:
            if not self._begun:
                self._begun, self._tls = True, mode.begin(data)
            if self._tls is None:
                return data
            plain = self._tls.received(data)
        except (PlainRefused, ssl.SSLError):
            self.close()
            return b""
        if handshake := self._tls.outgoing():
            self._queue([handshake])
        return plain

    def _take(self) -> None:
        """Have one request answered, if the client reads its answers. The next request of this
        connection waits until every other connection had its turn.
        """
        self._turn_due = False
        if not self.open:
            return
        if self.is_full():
            self._pause()
            return
        command = None
        try:
            command = self._next or self._frames.next()
            self._next = None
            if command is not None:
                self.proven = True
                self._came(self, command)
                self._next = self._frames.next()
        except remoting.BadFrame:
            self.foreign = remoting.protocol_of(self._first)
            self.close()
        if not self.is_half_way:
            self.half_since = None
        elif self.half_since is None or command is not None:
            self.half_since = self._now()
        if self.open and self._next is None:
            self._read()
        elif self.open:
            self._pause()
            self._turn()

    def _turn(self) -> None:
        """Schedule one turn after all work that is due now."""
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._take)

    def awaits(self, more: int) -> None:
        """Add `more`, which may be negative, to the number of requests being answered elsewhere."""
        self._awaited += more
        if more < 0 and self.open and not self._reading and not self.is_full():
            self._turn()

    @property
    def is_half_way(self) -> bool:
        """Whether a frame, or the TLS that brings it, has been received in part."""
        if self._next is not None:
            return False  # it waits for its turn, or for answers
        return self._frames.is_half_way or (self._tls is not None and self._tls.is_half_way)

    # --- out -------------------------------------------------------------------------------------

    def send(self, pieces: list[Sendable]) -> None:
        """Send pieces in order, after all unsent pieces."""
        if not self.open:
            return
        if self._tls is None:
            self._queue(pieces)
            return
        try:
            self._tls.encrypt(b"".join(_bytes(each) for each in pieces))
        except (ssl.SSLError, StoreError, OSError):
            self.close()
            return
        self._queue([self._tls.outgoing()])

    def _queue(self, pieces: list[Sendable]) -> None:
        idle = not self._unsent
        if idle:
            self.moved = self._now()
        self._unsent.extend(pieces)
        self._unsent_bytes += sum(len(each) for each in pieces if not isinstance(each, LogRange))
        if idle:
            self._write()

    @property
    def is_stuck(self) -> bool:
        """Whether there are bytes that the client has not read yet."""
        return bool(self._unsent)

    def is_full(self) -> bool:
        """Whether so much is unsent or being answered that no request is read."""
        return (
            self._unsent_bytes > _UNSENT_MOST
            or len(self._unsent) > _PIECES_MOST
            or self._awaited >= _AWAITED_MOST
        )

    def _write(self) -> None:
        try:
            while self._unsent:
                self._send_some()
                self.moved = self._now()
        except BlockingIOError:
            if not self._writing:
                self._loop.add_writer(self._sock, self._write)
                self._writing = True
        except OSError:
            self.close()
            return
        else:
            if self._writing:
                self._loop.remove_writer(self._sock)
                self._writing = False
        if not self._reading and not self.is_full():
            self._turn()

    def _send_some(self) -> None:
        """Send with one system call. Raises BlockingIOError, OSError."""
        first = self._unsent[0]
        if isinstance(first, LogRange):
            descriptor = first.file.descriptor
            assert descriptor is not None
            sent = os.sendfile(self._sock.fileno(), descriptor, first.start, first.length)
            if not sent:
                raise OSError("the file has become shorter")
            self._unsent.popleft()
            if sent < first.length:
                rest = LogRange(first.file, first.start + sent, first.length - sent)
                self._unsent.appendleft(rest)
            return
        gathered = list[bytes | memoryview]()
        flags = 0
        for piece in self._unsent:
            if isinstance(piece, LogRange):
                flags = socket.MSG_MORE  # a file follows: not a packet of its own
                break
            if len(gathered) == _GATHERED:
                break
            gathered.append(piece)
        sent = self._sock.sendmsg(gathered, (), flags)
        self._unsent_bytes -= sent
        while sent:
            length = len(self._unsent[0])
            piece = self._unsent.popleft()
            if sent < length:
                self._unsent.appendleft(memoryview(piece)[sent:])  # type: ignore[arg-type]
                return
            sent -= length

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection; unsent bytes are lost."""
        if not self.open:
            return
        self.open = False
        self._pause()
        if self._writing:
            self._loop.remove_writer(self._sock)
        self._unsent.clear()
        with suppress(OSError):
            self._sock.close()
        self._closed(self)


def framed(command: remoting.Command, pieces: tuple[Sendable, ...] = ()) -> list[Sendable]:
    """The frame of a command whose body goes on with `pieces`."""
    body = command.body or b""
    length = sum(each.length if isinstance(each, LogRange) else len(each) for each in pieces)
    return [remoting.frame_head(command, len(body) + length) + body, *pieces]


def _bytes(piece: Sendable) -> bytes | memoryview:
    return piece.read() if isinstance(piece, LogRange) else piece
