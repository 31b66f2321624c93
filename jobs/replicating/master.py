"""A replication master (HAService) from which real brokers as SLAVE copy a log: of a served store,
or of a writer that is appending.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reput.broker.wire.peers import (
    FLUSH_SLAVE_TIMEOUT,
    PUT_OK,
    SLAVE_NOT_AVAILABLE,
    MasterLog,
    Send,
    SlaveConnection,
    is_replicated,
    is_slave_ok,
)
from reput.broker.wire.replication import ProtocolError
from reput.broker.writer.writer import CommitLogWriter
from reput.jobs.in_place.catch_up import rules_of
from reput.jobs.opening.plan import make_plan
from reput.jobs.replicating.source import LogLimit, SourceLog, pieces
from reput.store_format.discover.purpose import REPLICATE
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.groups import refuse_heads
from reput.store_format.log.rules import Checks
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.names import COMMIT_LOG, segment_name
from reput.store_format.release.profiles import release_key, release_named
from reput.store_format.release.setting_table import BY_NAME
from reput.store_format.release.settings import Settings, parse_settings, setting

# ---
# The log that a replication master sends: of a store, or of a writer that is appending.


class SentLog(Protocol):
    """A log that slaves copy. Its methods are called by many threads."""

    def now(self) -> MasterLog:
        """The present start and end of the log."""

    def descriptor(self, segment: int) -> int | None:
        """The segment's file opened for reading, to be closed by the caller; None: use `read`."""

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from a physical offset on, all in one segment."""


class StoreLog:
    """The log of a store that is only read, up to its last whole record."""

    def __init__(self, at: StoreAt) -> None:
        """Raises StoreError, SettingError, UnknownRelease, OSError."""
        storage = at.storage
        plan = make_plan(at, discover(at, REPLICATE), REPLICATE)
        refuse_heads(plan.segments, "replication to slaves")
        size = plan.settings.mapped_file_size_commit_log
        folders = commit_log_folders(at.path, plan.settings)
        self._place = storage, folders, size
        self._local = isinstance(storage, LocalStorage)
        self._rules = rules_of(plan).scan.records
        self._source = self._new()
        used = self._source.written()
        self._end = used[-1] if used else self._source.start
        self.refresh()

    def _new(self) -> SourceLog:
        return SourceLog(*self._place)

    def refresh(self) -> None:
        """Find the log's present end. Raises StoreError, OSError."""
        source, end = self._new(), self._end
        try:
            for piece in pieces(source, end, LogLimit(), self._rules, Checks(body=True)):
                end = max(end, piece.whole)
        finally:
            source.close()
        self._source.close()
        self._source, self._end = source, end

    def now(self) -> MasterLog:
        source = self._source
        return MasterLog(source.start, self._end, source.segment_bytes)

    def descriptor(self, segment: int) -> int | None:
        if not self._local:
            return None
        return _opened(self._source.segments[segment].path)

    def read(self, at: int, size: int) -> bytes:
        source = self._new()
        data = np.empty(size, np.uint8)
        try:
            source.read(at, data)
        finally:
            source.close()
        return data.tobytes()


class WriterLog:
    """The log of a writer of this process; slaves get what it has written to files."""

    def __init__(self, writer: CommitLogWriter, store: str) -> None:
        self._log, self._folder = writer.store.log, f"{store}/{COMMIT_LOG}"

    def now(self) -> MasterLog:
        log = self._log
        return MasterLog(log.start, log.committed, log.segment_bytes)

    def descriptor(self, segment: int) -> int | None:
        return _opened(f"{self._folder}/{segment_name(segment)}")

    def read(self, at: int, size: int) -> bytes:
        data = np.empty(size, np.uint8)
        self._log.read(at, data)
        return data.tobytes()


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


# ---
# A replication master (HAService), from which real brokers as SLAVE copy a log.
#
# Each slave has a thread. `broker/wire/peers.py` decides what is sent and when; this module
# has the sockets, files and the clock.

_SLAVES_MOST = 16
_RECEIVE_BYTES = 64 << 10
_WAIT_SECONDS = 0.1  # as HAService waits for more of the log (allWaitForRunning)
_STUCK_SECONDS = 60.0  # a slave that receives nothing for this time is dropped


class HaMaster:
    """Listens for slaves and sends them a log. Use it in `with`, or call `start` and `stop`."""

    def __init__(
        self, log: SentLog, listen: tuple[str, int], *,
        said: Callable[[str], None] = lambda _: None,
        begin: Callable[[float], SlaveConnection] = SlaveConnection,
    ) -> None:  # fmt: skip
        """said: gets a line for each slave that connects or leaves. begin: called with the time for
        each slave. Raises OSError.
        """
        self._log, self._said, self._begin = log, said, begin
        family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
        self._listener = socket.create_server(listen, family=family, backlog=_SLAVES_MOST)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        # each slave's connection -> a socket that wakes the slave's thread
        self._slaves: dict[SlaveConnection, socket.socket] = {}
        self._changed = threading.Condition()
        self._pushed = 0  # the greatest offset that any slave ever reported (push2SlaveMaxOffset)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Accept slaves from now on."""
        self._run(self._accept)

    def __enter__(self) -> "HaMaster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, work: Callable[..., None], *about: object) -> None:
        thread = threading.Thread(target=work, args=about, name="ha-master", daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def stop(self) -> None:
        """Disconnect all slaves, and close the port."""
        self._ended.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join()

    def acked(self) -> list[int]:
        """The physical offset that each slave has reported; -1 before its first report."""
        with self._changed:
            return [each.acked for each in self._slaves]

    def wait_for(
        self, put_end: int, timeout: float, *, replicas: int = 1, gap: int | None = None
    ) -> str:
        """Wait until a put is on enough replicas: PUT_OK, or the status of the failure.

        put_end: physical offset of the put's end. replicas: how many must have it, with the master.
        gap: SLAVE_NOT_AVAILABLE at once if no slave is nearer (up to 4.9); None: always wait (5.x).
        timeout: seconds (slaveTimeout).
        """
        until = time.monotonic() + timeout
        self.wake()
        with self._changed:
            if gap is not None and not is_slave_ok(put_end, bool(self._slaves), self._pushed, gap):
                return SLAVE_NOT_AVAILABLE
            while not is_replicated(put_end, self.acked(), self._pushed, replicas):
                left = until - time.monotonic()
                if left <= 0 or self._ended.is_set():
                    return FLUSH_SLAVE_TIMEOUT
                self._changed.wait(min(left, _WAIT_SECONDS))
        return PUT_OK

    def wake(self) -> None:
        """Send at once, as the log has grown (HAService's WaitNotifyObject)."""
        with self._changed:
            wakers = list(self._slaves.values())
        for each in wakers:
            with suppress(OSError):  # the socket is full, or its thread has just ended
                each.send(b"\0", socket.MSG_DONTWAIT)

    def as_sync_master(
        self, release: str, *, timeout: float = 3.0, replicas: int = 1, gap: int = 256 << 20
    ) -> Callable[[int], str]:
        """The function for `CommitLogWriter.replicated`, which waits as a SYNC_MASTER of a release.

        timeout: seconds (slaveTimeout). replicas: inSyncReplicas of 5.x; with 1 or less, as by
        default, it does not wait (CommitLog.handleHA). gap: haSlaveFallbehindMax of 4.x, which
        waits for any one slave that is nearer (submitReplicaRequest).
        """
        if release_key(release_named(release)) < release_key("5.0.0"):
            return lambda end: self.wait_for(end, timeout, gap=gap)
        if replicas <= 1:
            return lambda _: PUT_OK
        return lambda end: self.wait_for(end, timeout, replicas=replicas)

    # --- slaves ------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                peer, address = self._listener.accept()
            except OSError:  # this master is stopping, or no descriptor is free for a while
                self._ended.wait(_WAIT_SECONDS)
                continue
            name, connection = f"{address[0]}:{address[1]}", self._begin(time.monotonic())
            woken, waker = socket.socketpair()
            with self._changed:
                full = len(self._slaves) >= _SLAVES_MOST
                if not full:
                    self._slaves[connection] = waker
            if full:
                self._said(f"slave {name}: refused, {_SLAVES_MOST} are served")
                for each in (peer, woken, waker):
                    each.close()
                continue
            self._run(self._serve, peer, name, connection, woken)

    def _serve(
        self, peer: socket.socket, name: str, connection: SlaveConnection, woken: socket.socket
    ) -> None:
        self._said(f"slave {name}: connected")
        why = "gone"
        try:
            why = self._talk(peer, connection, woken)
        except (ProtocolError, StoreError, OSError) as error:
            why = str(error)
        finally:
            with self._changed:
                waker = self._slaves.pop(connection)
                self._changed.notify_all()
            for each in (peer, woken, waker):
                each.close()
            self._said(f"slave {name}: {why}")

    def _talk(self, peer: socket.socket, connection: SlaveConnection, woken: socket.socket) -> str:
        """Send and receive until the slave leaves or is dropped; the reason.

        woken: has bytes to read if the log has grown.
        """
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        out = _Out(peer, self._log)
        moved = time.monotonic()
        waiting = select.poll()  # select() takes no descriptor beyond 1,023
        waiting.register(woken, select.POLLIN)
        try:
            while not self._ended.is_set():
                now = time.monotonic()
                if out.idle:
                    send = connection.next(self._log.now(), now)
                    if send is not None:
                        out.begin(send)
                        moved = now
                if not out.idle and out.go_on():
                    moved = now
                wait = 0.0 if out.idle and send is not None else _WAIT_SECONDS
                waiting.register(peer, select.POLLIN | (0 if out.idle else select.POLLOUT))
                ready = dict(waiting.poll(wait * 1000))
                if ready.get(woken.fileno()):
                    woken.recv(_RECEIVE_BYTES)
                if ready.get(peer.fileno(), 0) & ~select.POLLOUT:
                    data = peer.recv(_RECEIVE_BYTES)
                    if not data:
                        return "gone"
                    with self._changed:
                        connection.receive(data, self._log.now(), now)
                        self._pushed = max(self._pushed, connection.acked)
                        self._changed.notify_all()
                if connection.silent(now):
                    return "silent for too long"
                if not out.idle and now - moved > _STUCK_SECONDS:
                    return "takes nothing"
            return "this master ends"
        finally:
            out.close()


class _Out:
    """A transfer to one slave: a header, then bytes directly from the segment's file."""

    def __init__(self, peer: socket.socket, log: SentLog) -> None:
        self._peer, self._log = peer, log
        self._head = b""
        self._at = self._left = 0
        self._segment, self._file = -1, -1

    @property
    def idle(self) -> bool:
        return not self._head and not self._left

    def begin(self, send: Send) -> None:
        """Begin a transfer. Raises OSError if the segment is gone."""
        self._head, self._at, self._left = send.header, send.at, send.size
        if not self._left:
            return
        size = self._log.now().segment_bytes
        segment = send.at - send.at % size
        if segment != self._segment:
            self.close()
            file = self._log.descriptor(segment)
            self._segment, self._file = segment, -1 if file is None else file
        if self._file < 0:  # no local file: the bytes go with the header
            self._head += self._log.read(self._at, self._left)
            self._left = 0

    def go_on(self) -> bool:
        """Send as much as the socket takes; whether it took any bytes. Raises OSError."""
        moved = False
        with suppress(BlockingIOError):
            while self._head:
                more = socket.MSG_MORE if self._left else 0
                sent = self._peer.send(self._head, more)
                self._head, moved = self._head[sent:], True
            while self._left:
                sent = os.sendfile(
                    self._peer.fileno(), self._file, self._at - self._segment, self._left
                )
                if not sent:
                    raise StoreError(f"the segment at {self._segment} ends before {self._at}")
                self._at, self._left, moved = self._at + sent, self._left - sent, True
        return moved

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._segment, self._file = -1, -1


# ---
# `reput append --ha-listen`: slaves copy, a SYNC_MASTER waits for them (CommitLog.handleHA).

SYNC_MASTER = "SYNC_MASTER"
_LOOK_SECONDS = 0.2
_OWN_TIMEOUT = (4, 9, 3)  # has slaveTimeout; older releases use syncFlushTimeout for slaves too


class NotReplicated(StoreError):
    """A message is in the log, but not enough slaves have reported it in time."""


@dataclass(frozen=True)
class MasterSettings(Settings):
    """How a master waits for slaves. Times in milliseconds; the defaults are RocketMQ's."""

    broker_role: str = setting("brokerRole")
    slave_timeout: int = setting("slaveTimeout", least=0)
    sync_flush_timeout: int = setting("syncFlushTimeout", least=1)
    in_sync_replicas: int = setting("inSyncReplicas", least=0)
    ha_max_gap_not_in_sync: int = setting("haMaxGapNotInSync", least=0)


@contextmanager
def slaves_of(
    writer: CommitLogWriter, store: str, listen: tuple[str, int], given: Mapping[str, str],
    said: Callable[[str], None], check: Callable[[], None],
) -> Iterator[Callable[[], None]]:  # fmt: skip
    """Serve slaves; yields a function that waits until enough slaves have all appended messages.

    A SYNC_MASTER first waits, however long, until enough slaves have the present log; else its
    first message would get no PUT_OK. said: gets a line for each slave that connects or leaves.
    check: called during that wait, may raise. The yielded function raises NotReplicated.
    Raises SettingError, OSError.
    """
    release = writer.profile.release
    settings = parse_settings(MasterSettings, given, release=release)
    with HaMaster(WriterLog(writer, store), listen, said=said) as master:
        said(f"slaves get the log at {master.address[0]}:{master.address[1]}")
        if settings.broker_role != SYNC_MASTER:
            yield lambda: None
            return
        own = release_key(release) >= _OWN_TIMEOUT
        timeout = settings.slave_timeout if own else settings.sync_flush_timeout
        replicated = master.as_sync_master(
            release, timeout=timeout / 1000, replicas=settings.in_sync_replicas,
            gap=settings.ha_max_gap_not_in_sync,
        )  # fmt: skip
        if release_key(release) >= (5, 0, 0) and settings.in_sync_replicas <= 1:
            said("inSyncReplicas=1 counts the master itself: RocketMQ 5 waits for no slave then")

        def wait() -> None:
            end = writer.log.end
            status = replicated(end)
            if status != PUT_OK:
                raise NotReplicated(
                    f"{store}: {status}: the log's end {end} is in this store, and not on enough "
                    f"slaves (inSyncReplicas={settings.in_sync_replicas}, {timeout} ms)"
                )

        while replicated(writer.log.end) != PUT_OK:
            check()
            time.sleep(_LOOK_SECONDS)
        yield wait


def for_the_writer(given: Mapping[str, str]) -> dict[str, str]:
    """The settings without those that `slaves_of` uses and of which the writer would warn."""
    return {
        name: text
        for name, text in given.items()
        if BY_NAME[name].name != "inSyncReplicas"
        and (BY_NAME[name].name, text.strip()) != ("brokerRole", SYNC_MASTER)
    }
