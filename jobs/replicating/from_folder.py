"""Replication from a folder or URL: the source's log in pieces, copied in rounds together with its
config files.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

from reput.jobs.outputs.report import left_behind
from reput.jobs.replicating.config import copy_config
from reput.jobs.replicating.target import ReplicaTarget, Replicated
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.faults import REASONS, DamageFound, Fault, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Bytes, FileState, InputStorage
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.rules import Checks, RecordRules
from reput.store_format.log.segments import Segment, list_segments
from reput.store_format.log.walk import Buffers, Read, Walk, most_rows
from reput.store_format.names import COMPACTION, CONFIG, LMQ_OFFSETS
from reput.store_format.notes import Done, Notes
from reput.store_format.state_table import config_to_carry

# ---
# The log that is replicated: its segments on any storage, and its records as pieces to copy.

_AHEAD = 3  # pieces that are read while a piece is written
_LONG_PIECE_BYTES = 1 << 20


class SourceCleaned(StoreError):
    """A part of the log that is to be copied was deleted by the source's broker."""


class LogPiece(NamedTuple):
    """Bytes of the log, with the end of its whole records. Offsets are physical."""

    at: int
    data: Bytes
    whole: int  # end of the last whole record; at or before `at`: no record ends in this piece
    last: int  # begin of the last whole record, -1 if none begins in this piece
    records: int
    timestamp: int  # storeTimestamp of the last record, 0 if there is none
    fault: Fault = Fault.NONE  # fault with which the log ends after `whole`
    times: tuple[int, ...] = ()  # the least and the greatest storeTimestamp, if there is a record


_NO_END = 1 << 62


class LogLimit(NamedTuple):
    """How much of a log is to be copied."""

    offset: int = _NO_END  # no record that ends after this physical offset

    def of(self, rows: np.ndarray) -> int:
        """How many of the first `rows` (RECORD_ROW, in the log's order) are within the limit."""
        ends = rows["physicalOffset"] + rows["size"]
        return int(np.searchsorted(ends, self.offset, "right"))


ALL_WANTED = LogLimit()


class SourceLog:
    """Segments in folders of any storage; an incomplete last segment reads as if zeros followed.

    `refresh` lists the segments anew. Not for use by two threads at once.
    """

    def __init__(self, storage: InputStorage, folders: list[str], segment_bytes: int) -> None:
        self.storage, self.folders, self.segment_bytes = storage, folders, segment_bytes
        self.segments: dict[int, Segment] = {}
        self._local = DiskFiles("") if isinstance(storage, LocalStorage) else None
        self._open: tuple[int, Read, Callable[[], None]] | None = None
        self.refresh()

    def refresh(self) -> None:
        """List the segments anew, up to the first hole. Raises StoreError if there are none."""
        found, _, findings = list_segments(self.storage, self.folders, self.segment_bytes)
        self.close()
        kept: dict[int, Segment] = {}
        for segment in found:
            if segment.state.size > self.segment_bytes:
                raise StoreError(
                    f"{segment.path}: has {segment.state.size} bytes, but mappedFileSizeCommitLog "
                    f"is {self.segment_bytes}"
                )
            if kept and segment.start != max(kept) + self.segment_bytes:
                break  # a segment before it is lost, or not copied yet: the log ends there
            kept[segment.start] = segment
            if segment.state.size < self.segment_bytes:
                break
        if not kept:
            said = "; ".join(f"{each.path}: {each.reason}" for each in findings)
            raise StoreError(f"{', '.join(self.folders)}: no segments{said and '; '}{said}")
        self.segments = kept
        self.behind = [each for each in found if each.start > max(kept)]

    @property
    def start(self) -> int:
        return min(self.segments)

    @property
    def stop(self) -> int:
        """The physical end of the last segment, as far as it exists."""
        return self.segments[max(self.segments)].end

    def path(self, at: int) -> str:
        """The file that holds a physical offset, for messages."""
        segment = self.segments.get(at - at % self.segment_bytes)
        return segment.path if segment else f"{self.folders[0]} at {at}"

    def read(self, at: int, buffer: Bytes) -> None:
        """Fill a buffer that lies within one segment. Raises SourceCleaned, StoreError, OSError."""
        start = at - at % self.segment_bytes
        segment = self.segments.get(start)
        if segment is None:
            raise SourceCleaned(
                f"{', '.join(self.folders)}: has nothing at {at}; its log is from {self.start} to "
                f"{self.stop}"
            )
        there = max(min(segment.end - at, len(buffer)), 0)
        if there:
            self._reader(segment)(at - start, buffer[:there])
        buffer[there:] = 0

    def _reader(self, segment: Segment) -> Read:
        if self._open is None or self._open[0] != segment.start:
            self.close()
            try:
                if self._local is not None:  # its length may change while it is read
                    file = self._local.open_read(segment.path)
                    self._open = segment.start, file.read_at, file.close
                else:
                    reader = self.storage.open(segment.path, segment.state)
                    self._open = segment.start, reader.read_into, reader.close
            except FileNotFoundError:
                raise SourceCleaned(
                    f"{segment.path}: is gone: the source was cleaned while it was copied"
                ) from None
        assert self._open is not None
        return self._open[1]

    def written(self) -> list[int]:
        """The starts of the segments that begin with anything but zeros, in order."""
        return [start for start in sorted(self.segments) if any(self.head(start))]

    def head(self, start: int) -> bytes:
        """The first eight bytes of a segment."""
        head = np.zeros(8, np.uint8)
        self.read(start, head)
        return head.tobytes()

    def close(self) -> None:
        """Close the open file. Raises StoreChanged if it changed but must not."""
        if self._open is not None:
            close, self._open = self._open[2], None
            close()


def pieces(
    source: SourceLog, start: int, wanted: LogLimit, rules: RecordRules, checks: Checks
) -> Iterator[LogPiece]:
    """The pieces of a log from the record at `start` to its end, its first fault, or the limit.

    A piece is valid until four more pieces were taken. Raises StoreError, OSError.
    """
    at, size = start, source.segment_bytes
    window = min(source.storage.window_bytes, size)
    buffers: Iterator[Buffers] = cycle(
        [
            (np.empty(window, np.uint8), np.zeros(most_rows(window), RECORD_ROW))
            for _ in range(_AHEAD + 3)
        ]
    )
    while at - at % size in source.segments and at < wanted.offset:
        segment = at - at % size
        end = segment + size
        walk = Walk(source.read, end, rules, checks, *next(buffers))
        fault = Fault.NONE
        for step in walk.steps(at, end):
            rows, stop, fault = step.rows, step.next, step.fault
            good = wanted.of(rows)
            if good < len(rows):  # stop at the first record beyond the limit
                stop, fault = int(rows["physicalOffset"][good]), Fault.NONE
            about = (
                (int(rows["physicalOffset"][good - 1]), good, int(rows["storeTimestamp"][good - 1]))
                if good else (-1, 0, 0)
            )  # fmt: skip
            stored = rows["storeTimestamp"][:good]
            times = (int(stored.min()), int(stored.max())) if good else ()
            if good and rows["bodyElided"][0]:
                yield from _long(source, at, stop, about, times)
            elif stop > at or fault not in (Fault.NONE, Fault.BLANK):
                said = fault if fault != Fault.BLANK else Fault.NONE
                yield LogPiece(at, step.window[: stop - at], stop, *about, said, times)
            at = stop
            if good < len(rows):
                return
            if good:
                walk.use(next(buffers))
        if fault not in (Fault.BLANK, Fault.NONE):
            return
        if at < end:
            if end > wanted.offset:
                return
            yield from _long(source, at, end, (-1, 0, 0))
            at = end


def _long(
    source: SourceLog, at: int, end: int, about: tuple[int, int, int], times: tuple[int, ...] = ()
) -> Iterator[LogPiece]:
    """The pieces of a record longer than a window, or of the rest of a segment after its BLANK."""
    while at < end:
        data = np.empty(min(_LONG_PIECE_BYTES, end - at), np.uint8)
        source.read(at, data)
        if at + len(data) == end:
            yield LogPiece(at, data, end, *about, times=times)
        else:
            yield LogPiece(at, data, at, -1, 0, 0)
        at += len(data)


def read_ahead(produced: Iterator[LogPiece]) -> Generator[LogPiece, None, None]:
    """The pieces of `produced`, read by a thread in advance; raises the errors of reading."""
    with ThreadPoolExecutor(1, "read-ahead") as reading:
        ahead = deque(reading.submit(next, produced, None) for _ in range(_AHEAD))
        try:
            while (piece := ahead.popleft().result()) is not None:
                ahead.append(reading.submit(next, produced, None))
                yield piece
        finally:
            reading.shutdown(cancel_futures=True)


_SYNC_BYTES = 4 << 30  # between two syncs, which stop the copy; read again after a kill, in seconds


class RateLimit:
    """Limits a copy to `rate` bytes a second; None: no limit."""

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._since, self._bytes = clock(), 0

    def wait_for(self, size: int) -> float:
        """The seconds to wait after `size` more bytes."""
        if self._rate is None:
            return 0.0
        self._bytes += size
        ahead = self._bytes / self._rate - (self._clock() - self._since)
        if ahead < -1.0:  # after a pause the copy does not catch up at full speed
            self._since, self._bytes = self._clock(), 0
        return max(ahead, 0.0)


class Replication:
    """Copies one source's log to one target."""

    def __init__(
        self, asked: Any, source: SourceLog, store: Folder, target: ReplicaTarget,
        live: Callable[[], bool], about: Replicated,
    ) -> None:  # fmt: skip
        """asked: as jobs/replicate.py declares it. store: storage and root of the source; live:
        whether a broker is writing to it.
        """
        self.source, self.store, self.target = source, store, target
        self.options, self.live, self.about, self.progress = asked, live, about, asked.shows
        self._pace = RateLimit(asked.rate)
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
            grew = options.derive and target.held.crashed  # since the last time
            if grew and options.follow and now - derived >= options.derive_every:
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
