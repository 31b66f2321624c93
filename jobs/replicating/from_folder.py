"""Replication from a folder or URL: the log copied in rounds together with its config files."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from reput.jobs.outputs.report import left_behind
from reput.jobs.replicating.config import copy_config
from reput.jobs.replicating.source import (
    ALL_WANTED,
    LogLimit,
    LogPiece,
    RateLimit,
    SourceLog,
    pieces,
    read_ahead,
)
from reput.jobs.replicating.target import ReplicaTarget, Replicated
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.faults import REASONS, DamageFound, Fault
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import FileState
from reput.store_format.log.rules import Checks
from reput.store_format.names import COMPACTION, CONFIG, LMQ_OFFSETS
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.state_table import config_to_carry

_SYNC_BYTES = 4 << 30  # between two syncs, which stop the copy; read again after a kill, in seconds


@dataclass(frozen=True)
class ReplicationOptions:
    """The options of a replication."""

    wanted: LogLimit = ALL_WANTED
    follow: bool = False
    every: float = 1.0  # seconds between rounds
    idle: float | None = None  # ends after so many seconds without new records
    derive: bool = True
    derive_every: float = 30.0
    rate: float | None = None  # bytes a second
    check_crc: bool = True
    verify: bool = False  # compare the whole target with the source, not only its ends


class Replication:
    """Copies one source's log to one target."""

    def __init__(
        self, source: SourceLog, store: Folder, target: ReplicaTarget,
        options: ReplicationOptions, live: Callable[[], bool], about: Replicated,
        progress: Progress,
    ) -> None:  # fmt: skip
        """store: storage and root of the source; live: whether a broker is writing to it."""
        self.source, self.store, self.target = source, store, target
        self.options, self.live, self.about, self.progress = options, live, about, progress
        self._pace = RateLimit(options.rate)
        self._seen: dict[str, FileState] = {}  # states of config/ files when they were copied
        self._fault = Fault.NONE  # fault at the end of the source's log in the last round
        self._reached = 0  # end of the source's last whole record in that round
        self._held = 0  # records of that round that were not committed, and are read again
        self._last = self._next_last = -1  # begin of the last record committed; of the last read

    def run(self) -> None:
        """Copy up to the source's end, or with `follow` until `idle`.

        Raises DamageFound, SourceCleaned, ReplicaDiffers, StoreError, OSError; records copied
        before stay.
        """
        target, options, about = self.target, self.options, self.about
        target.take_up(self.source.read, self.source.start, self.source.stop, options.verify)
        about.resumed_at = about.end = target.log.end
        about.start = min([*target.segments, target.log.end])
        with self.progress.stage("copied", self._done):
            self._rounds()
        if options.derive:
            with self.progress.stage("derived", lambda: Done(None, f"up to {about.end:,}")):
                about.entries += target.derive(self._settle)
        else:
            self._keep_offsets()
        made = () if about.start else (COMPACTION,)  # a log that has its beginning gives it all
        about.warnings += left_behind(self.store, (*config_to_carry(), *made))
        about.behind = max(self._reached - about.end, 0)
        self._judge_end()

    def _settle(self) -> None:
        """Bring what else follows the log to it, before a broker may take it for stopped."""
        target, about = self.target, self.about
        warnings = target.keep_expired(self.store, about.start)
        about.warnings += [each for each in warnings if each not in about.warnings]
        about.waits = target.follow_services(self.options.wanted == ALL_WANTED)
        self._keep_offsets()

    def _keep_offsets(self) -> None:
        if self.options.wanted != ALL_WANTED:
            notes = Notes()
            of_lmq = LMQ_OFFSETS in dict(self.store.listed(CONFIG))
            self.target.keep_offsets(consumer_offsets(self.store, notes), of_lmq, self.about)
            self.about.warnings += [n for n in notes.lines if n not in self.about.warnings]

    def _rounds(self) -> None:
        options, target = self.options, self.target
        grown = derived = time.monotonic()
        seen = (-1, -1)  # (end, reached); equal in two rounds means settled
        while True:
            settled = seen == (target.log.end, self._reached)
            live = options.follow or self.live()
            before = target.log.end
            ended = self._round(hold=live and not settled)
            seen = target.log.end, self._reached
            now = time.monotonic()
            grown = now if target.log.end > before else grown
            waiting = live and target.log.end < self._reached
            if ended or not (options.follow or waiting):
                return
            if options.idle is not None and now - grown >= options.idle and not waiting:
                return
            if options.derive and options.follow and now - derived >= options.derive_every:
                self.about.entries += target.derive(self._settle)
                derived = time.monotonic()
            time.sleep(options.every)
            self.source.refresh()

    def _round(self, hold: bool) -> bool:
        """Copy the present records; whether all wanted records are copied.

        hold: whether a broker is writing to the source. Then the last record is not committed until
        another record follows, or it is still the last in the next round, as no CRC shows whether
        its properties are complete.
        """
        target, log, options = self.target, self.target.log, self.options
        all_wanted = options.wanted == ALL_WANTED
        config, warnings = copy_config(
            self.store, target.files, target.config, all_wanted, self._seen
        )
        changed, target.config = config != target.config, config
        self.about.config = sorted(config)
        self.about.warnings += [each for each in warnings if each not in self.about.warnings]
        log.rewind()
        self.about.records -= self._held
        self._held = 0
        began = durable = self._reached = log.end
        self._fault = Fault.NONE
        checks = Checks(body=options.check_crc)
        records = target.rules.scan.records
        found = read_ahead(pieces(self.source, log.end, options.wanted, records, checks))
        try:
            for piece in found:
                if len(piece.data) and log.written == began:
                    target.begin()
                self._write(piece, hold)
                if log.end - durable >= _SYNC_BYTES:
                    target.note(self._last)
                    durable = log.end
            ended = log.end >= options.wanted.offset or (
                self._fault == Fault.NONE and self._reached < self.source.stop
            )
            if ended and self._reached > log.end:  # a record that is not wanted follows it
                self._commit(self._reached, self._next_last)
                self._held = 0
        finally:
            found.close()
            if log.end > durable or changed:
                target.note(self._last)
        self.about.end = log.end
        return ended

    def _write(self, piece: LogPiece, hold: bool) -> None:
        log, self._fault = self.target.log, piece.fault
        if len(piece.data):
            log.write(piece.data)
        self._reached = max(piece.whole, self._reached)
        if hold and piece.records and piece.whole % self.source.segment_bytes:
            self._commit(piece.last, piece.at if piece.records > 1 else self._next_last)
            self._held = 1
        elif piece.whole > log.end:
            self._commit(piece.whole, piece.last if piece.records else self._next_last)
            self._held = 0
        if piece.records:
            self._next_last = piece.last
        self.about.records += piece.records
        self.about.last_timestamp = piece.timestamp or self.about.last_timestamp
        wait = self._pace.wait_for(len(piece.data))
        if wait:
            time.sleep(wait)

    def _commit(self, to: int, last: int) -> None:
        """Let the replica end at `to`, with the record at `last` as its last record."""
        log = self.target.log
        if to > log.end:
            log.commit(to)
            self._last = last if last >= 0 else self._last
            self.about.end = to

    def _done(self) -> Done:
        stop = min(self.source.stop, self.options.wanted.offset)
        return self.about.done(stop, self._reached, self.options.follow)

    def _judge_end(self) -> None:
        """Set end_reason. Raises DamageFound if the source's log should not end there."""
        source, at, fault = self.source, self._reached, self._fault
        if at >= self.options.wanted.offset or (fault == Fault.NONE and at < source.stop):
            self.about.end_reason = "as far as was wanted"
            return
        self.about.end_reason = REASONS[fault][1] if fault in REASONS else "the last segment's end"
        behind = [start for start in source.written() if start > at]
        behind += [segment.start for segment in source.behind]
        if fault in (Fault.NONE, Fault.ZEROS) and not behind:
            return
        if self._goes_on(at):
            self.about.end_reason = "where the log ended, which is in use"
            return
        field, reason = REASONS.get(fault, REASONS[Fault.MISSING])
        said = f"{source.path(at)}: at offset {at % source.segment_bytes}: {field}: {reason}"
        if fault not in (Fault.NONE, Fault.ZEROS) and not behind and self.live():
            self.about.warnings.append(f"{said}; it may be about to be written")
            return
        follows = f"; segment {min(behind)} follows" if behind else ""
        raise DamageFound(
            f"{said}{follows}. The replica has all before, up to physical offset {at}; "
            f"`reput repair` makes a copy past damage"
        )

    def _goes_on(self, at: int) -> bool:
        """Whether there is a record now where the last round found none, as a broker is writing."""
        self.source.refresh()
        checks = Checks(body=self.options.check_crc)
        found = pieces(self.source, at, ALL_WANTED, self.target.rules.scan.records, checks)
        return any(piece.whole > at for piece in islice(found, 1))
