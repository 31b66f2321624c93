"""Replication from a live master over the wire, as a slave that reconnects until it has the log;
and what is asked of the master first.
"""

import json
import random
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from reput.broker.wire import peers
from reput.broker.wire.codes import RequestCode
from reput.broker.wire.producing import request
from reput.broker.wire.remoting import BadFrame
from reput.broker.wire.replication import LogChunk, ProtocolError
from reput.jobs.replicating.config import put_config
from reput.jobs.replicating.peers import Address, Cluster
from reput.jobs.replicating.source import ALL_WANTED, LogLimit, RateLimit
from reput.jobs.replicating.target import ReplicaDiffers, ReplicaTarget, Replicated
from reput.store_format.discover.config import offsets_of_table
from reput.store_format.faults import REASONS, Fault, PeerFailed, StoreError
from reput.store_format.java import quoted_keys
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.rules import Checks
from reput.store_format.log.walk import Walk, most_rows
from reput.store_format.names import OFFSETS
from reput.store_format.notes import Done, Notes
from reput.store_format.release.profiles import UnknownRelease, release_named
from reput.store_format.release.settings import parse_properties
from reput.store_format.state_table import config_to_carry

# ---
# Asks a live master for what its replication port does not show: start of its log, file sizes.

# The settings by which a log is cut and derived; the other settings do not matter here.
_WANTED = (
    "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "mapperFileSizeBatchConsumeQueue",
    "maxHashSlotNum", "maxIndexNum", "messageIndexEnable", "messageDelayLevel",
    "enableMultiDispatch", "enableLmq",
)  # fmt: skip


@dataclass
class MasterSays:
    """A broker's answers. start, end: physical offsets of its log, -1 if unknown."""

    start: int = -1
    end: int = -1
    release: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


class Asking:
    """Sends requests to a broker's own port."""

    def __init__(self, address: Address) -> None:
        self.address, self._peers = address, Cluster()

    def ask(self, code: int) -> bytes:
        """The body of the answer. Raises OSError, ProtocolError; StoreError for a refusal."""
        try:
            answer = self._peers.ask(self.address, request(code))
        except BadFrame as error:
            raise ProtocolError(f"answer: {error}") from None
        finally:
            self._peers.close()
        if answer.code:
            host, port = self.address
            raise StoreError(
                f"{host}:{port}: refuses request {code}: {answer.code} {answer.remark or ''}"
            )
        return answer.body or b""

    def says(self) -> MasterSays:
        """The master's log start and end, release and settings. Raises as `ask`."""
        said = MasterSays()
        info = peers.runtime_info(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO))
        said.start = _number(info, "commitLogMinOffset")
        said.end = _number(info, "commitLogMaxOffset")
        with suppress(UnknownRelease):
            version = info.get("brokerVersionDesc", "").removeprefix("V").replace("_", ".")
            said.release = release_named(version)
        found = parse_properties(self.ask(RequestCode.GET_BROKER_CONFIG).decode("utf-8", "replace"))
        said.settings = {name: found[name] for name in _WANTED if name in found}
        return said

    def config(self, name: str) -> bytes:
        """The content of a file of config/, requested as by SlaveSynchronize; in CONFIG_FILES."""
        return self.ask(next(code for code, file in peers.CONFIG_FILES.items() if file == name))


def _number(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,30}", text) else -1


_RECEIVE_BYTES = 1 << 20
_CHECK_BYTES = 1 << 20  # received before records are checked, or fewer if the master pauses
_WINDOW_BYTES = 1 << 20
_SYNC_BYTES = 256 << 20
_CONNECT_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_CONFIG_SECONDS = 10.0  # SlaveSynchronize's interval
_QUIET_SECONDS = 2 * peers.HEARTBEAT_SECONDS  # without new records ends a copy whose end is unknown
_TRIES = 10  # successive connections without a new record
_GARBAGE_TRIES = 3  # successive connections with bytes that no RocketMQ sends, also with `follow`
_BACKOFF = 0.5, 30.0  # seconds: first and longest wait before reconnecting


class WireReplication:
    """Copies a master's log to one target."""

    def __init__(
        self, asked: Any, address: Address, log: tuple[int, int], asking: Asking | None,
        target: ReplicaTarget, about: Replicated,
    ) -> None:  # fmt: skip
        """asked: as jobs/replicate.py declares it. log: physical offsets of the start and end of
        the master's log, -1 for an end that is unknown.
        """
        self.address, self.asking = address, asking
        self.target, self.options = target, asked
        self.about, self.progress = about, asked.shows
        self.start, self.end = log
        self._pace = RateLimit(asked.rate)
        self._at = 0  # physical offset of the next received byte
        self._begun = False  # whether ReplicaTarget.begin was called since the last derive
        self._durable = self._checked = 0
        self._last, self._ended = -1, False
        self._compared = False  # whether the target's last record was compared with the master's
        self._grown = self._derived = self._configured = time.monotonic()
        window = min(_WINDOW_BYTES, target.segment_bytes)
        self._window = np.empty(window, np.uint8)
        self._rows = np.zeros(most_rows(window), RECORD_ROW)

    def run(self) -> None:
        """Copy up to the end that the master's log had at the start, or with `follow` until `idle`.

        Raises ReplicaDiffers, PeerFailed, StoreError, OSError; records copied before stay.
        """
        target, about = self.target, self.about
        target.stand(self.start)
        about.resumed_at = about.end = self._durable = self._checked = target.log.end
        about.start = min([*target.segments, target.log.end])
        self._compared = target.last < 0
        if target.last >= 0 and 0 <= self.end < target.log.end:
            raise ReplicaDiffers(
                f"{target.name}: goes up to {target.log.end}, and the master's log ends at "
                f"{self.end}: what follows was lost there, or it is another log; give another "
                "folder"
            )
        self._config()
        with self.progress.stage("copied", self._done):
            try:
                self._connections()
            finally:
                if target.log.end > self._durable:
                    target.note(self._last)
        if self.options.derive:
            with self.progress.stage("derived", lambda: Done(None, f"up to {about.end:,}")):
                about.entries += target.derive(self._settle)
        else:
            self._offsets()
        about.behind = max(self.end - about.end, 0)
        about.end_reason = "as far as was wanted" if self._ended else "where the master's log ended"

    def _settle(self) -> None:
        """As of a replication from a folder; a master does not tell of queues that have expired."""
        self.about.waits = self.target.follow_services(self.options.wanted == ALL_WANTED)
        self._offsets()

    def _connections(self) -> None:
        wait, tries, garbage = _BACKOFF[0], 0, 0
        name = "{}:{}".format(*self.address)
        while not self._over():
            before = self.target.log.end
            try:
                self._one()
                continue
            except peers.WrongOffset as error:  # reconnecting would give the same
                raise PeerFailed(f"{name}: {error}") from None
            except (OSError, ProtocolError) as error:
                why = error
            if self.target.log.end > before:
                wait, tries, garbage = _BACKOFF[0], 0, 0
            else:
                wait, tries = min(wait * 2, _BACKOFF[1]), tries + 1
                garbage += isinstance(why, ProtocolError)
            down = not self.options.follow and tries >= _TRIES
            if down or garbage >= _GARBAGE_TRIES:
                raise PeerFailed(f"{name}: {why}; given up after {tries} times")
            self.about.reconnects += 1
            time.sleep(wait * random.uniform(0.5, 1.0))

    def _over(self) -> bool:
        options, end = self.options, self.target.log.end
        if self._ended or end >= options.wanted.offset:
            self._ended = True
            return True
        if not options.follow and self.end >= 0:
            return end >= self.end and self._compared
        idle = options.idle if options.follow else _QUIET_SECONDS
        return idle is not None and time.monotonic() - self._grown >= idle

    def _one(self) -> None:
        """Copy by one connection. Raises OSError, ProtocolError, ReplicaDiffers."""
        log = self.target.log
        log.rewind()
        self._checked, self._begun = log.end, False
        # the last record is received again, to be compared
        self._at = self.target.last if self.target.last >= 0 else log.end
        slave = peers.SwitchSlave(self._at) if self.options.controller else peers.Slave(self._at)
        with socket.create_connection(self.address, _CONNECT_SECONDS) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.settimeout(_CONNECT_SECONDS)
            peer.sendall(slave.hello(time.monotonic()))
            while not self._over():
                ready = wait([peer], 0 if log.written > self._checked else _LOOK_SECONDS)
                now = time.monotonic()
                if ready:
                    data = self._received(peer)
                    for part in slave.receive(data, now):
                        self._take(part)
                if log.written > self._checked and (
                    not ready or log.written - log.end >= _CHECK_BYTES
                ):
                    self._advance()
                    self._checked = log.written
                # Reports must not exceed what this connection received: a master begins to send at
                # the last report that it finds at first (HAConnection.processReadEvent).
                report = slave.report(min(log.end, self._at), now)
                if report:
                    peer.sendall(report)
                if slave.silent(now):
                    raise ConnectionError("the master was silent for too long")
                self._now_and_then(now)

    def _received(self, peer: socket.socket) -> bytes:
        """Received bytes. If the connection ended, bytes received before are used first."""
        try:
            data = peer.recv(_RECEIVE_BYTES)
            if data:
                return data
        except OSError:
            self._advance()
            raise
        self._advance()
        raise ConnectionError("the master closed the connection")

    def _take(self, part: LogChunk) -> None:
        """Write received bytes; bytes that the target already has must be the same."""
        log, data = self.target.log, part.data
        if part.offset != self._at:
            raise peers.WrongOffset(f"the log comes from {part.offset} on, not from {self._at}")
        self._at += len(data)
        known = min(max(log.end - part.offset, 0), len(data))
        if known:
            self._compare(part.offset, data[:known])
            self._compared = self._compared or self._at >= log.end
        data = data[known:]
        wait = self._pace.wait_for(len(data))
        if wait:
            time.sleep(wait)
        size = self.target.segment_bytes
        while data:
            if not self._begun:
                self.target.begin()
                self._begun = True
            now = data[: size - log.written % size]
            log.write(now)
            data = data[len(now) :]
            if log.written % size == 0:  # check a whole segment before the next begins
                self._advance()

    def _compare(self, at: int, data: bytes) -> None:
        size = self.target.segment_bytes
        while data:
            length = min(len(data), size - at % size)
            ours = np.empty(length, np.uint8)
            self.target.read(at, ours)
            if ours.tobytes() != data[:length]:
                raise ReplicaDiffers(
                    f"{self.target.name}: its last record, from {at} on, is not the master's: it "
                    f"is not a beginning of that log; give another folder"
                )
            at, data = at + length, data[length:]

    def _advance(self) -> None:
        """Move the replica's end after the last whole record. Raises ProtocolError for a fault."""
        log, size, wanted = self.target.log, self.target.segment_bytes, self.options.wanted
        before = log.end
        while log.end < log.written and not self._ended:
            at = log.end
            segment_end = at - at % size + size
            stop = min(segment_end, log.written)
            walk = Walk(
                log.read, stop, self.target.rules.scan.records, Checks(body=self.options.check_crc),
                self._window, self._rows,
            )  # fmt: skip
            fault, done = Fault.NONE, False
            for step in walk.steps(at, stop):
                done = self._whole(step.rows, wanted)
                fault, at = step.fault, step.next
                if done:
                    break
            if done:
                self._ended = True
                break
            if fault not in (Fault.NONE, Fault.BLANK) and self._is_wrong(at, fault, segment_end):
                field, reason = REASONS[fault]
                raise ProtocolError(
                    f"the master's log at {at}: {field}: {reason}; nothing after it is taken"
                )
            if log.written < segment_end:
                break
            if segment_end > wanted.offset:
                self._ended = True
                break
            if segment_end > log.end:
                log.commit(segment_end)  # with the rest of the segment after a BLANK
        self.about.end = log.end
        if log.end > before:
            self._grown = time.monotonic()
        if log.end - self._durable >= _SYNC_BYTES:
            self.target.note(self._last)
            self._durable = log.end

    def _whole(self, rows: np.ndarray, wanted: LogLimit) -> bool:
        """Commit whole records up to the limit; whether the limit was reached."""
        good = wanted.of(rows)
        if good:
            last = rows[good - 1]
            self._last = self.target.last = int(last["physicalOffset"])
            self.target.log.commit(self._last + int(last["size"]))
            self.about.records += good
            self.about.last_timestamp = int(last["storeTimestamp"])
        return good < len(rows)

    def _is_wrong(self, at: int, fault: Fault, segment_end: int) -> bool:
        """Whether a fault would remain with more bytes."""
        log = self.target.log
        if log.written >= segment_end or log.written - at < 8:
            return log.written >= segment_end
        size = np.empty(4, np.uint8)
        log.read(at, size)
        past = at + int.from_bytes(size.tobytes(), "big", signed=True) > segment_end
        return past or fault not in (Fault.SIZE_PAST_END, Fault.SHORT_TAIL)

    # --- now and then ------------------------------------------------------------------------

    def _now_and_then(self, now: float) -> None:
        if now - self._configured >= _CONFIG_SECONDS:
            self._configured = now
            self._config()
        options = self.options
        if options.follow and options.derive and now - self._derived >= options.derive_every:
            log = self.target.log
            if log.written == log.end and log.end > self._durable:
                self.target.note(self._last)
                self._durable = log.end
                self.about.entries += self.target.derive(self._settle)
                self._derived, self._begun = time.monotonic(), False

    def _config(self) -> None:
        """Copy the files of config/ as SlaveSynchronize does; a refusal is a warning."""
        if self.asking is None:
            return
        target = self.target
        names = config_to_carry(positions=self.options.wanted == ALL_WANTED)
        for name in peers.CONFIG_FILES.values():
            if name not in names:
                continue
            try:
                content = self.asking.config(name)
            except (OSError, ProtocolError, StoreError) as error:
                said = f"config/{name}: {error}"
                if said not in self.about.warnings:
                    self.about.warnings.append(said)
                continue
            with suppress(FileNotFoundError):
                put_config(target.files, name, content, target.config, self.about.warnings)
        self.about.config = sorted(target.config)

    def _offsets(self) -> None:
        """Take over the groups' offsets of now, as far as a replica goes that ends earlier."""
        about, notes = self.about, Notes()
        if self.asking is None or self.options.wanted == ALL_WANTED:
            return
        try:
            table = json.loads(quoted_keys(self.asking.config(OFFSETS)))["offsetTable"]
            offsets = offsets_of_table(table, notes)
        except (OSError, ValueError, KeyError, TypeError, ProtocolError, StoreError) as error:
            about.offsets = f"none: the master does not tell them: {error}"
            return
        self.target.keep_offsets(offsets, False, about)
        about.warnings += notes.lines

    def _done(self) -> Done:
        return self.about.done(self.end, self.end, self.options.follow)
