"""A store's log as pieces for a repository: from where it goes on, and what is there now.

The log may be written to meanwhile. It ends for a run with its last whole record; what is damaged
and has records after it is kept as it is, and named.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from hashlib import sha256
from itertools import islice
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from reput.jobs.replicating.source import (
    ALL_WANTED,
    LogLimit,
    LogPiece,
    RateLimit,
    SourceCleaned,
    SourceLog,
    pieces,
    read_ahead,
)
from reput.store_format.faults import Fault, PieceBroken, StoreError
from reput.store_format.files import frames
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.protocol import Bytes
from reput.store_format.files.runs import PIECE_BYTES, Branch, LastRecord, Piece, Run, Span
from reput.store_format.log.rules import Checks, RecordRules
from reput.store_format.log.walk import NO_CHECKS, Walk

_WINDOW = 1 << 20
_SETTLES = 0.005  # seconds until a record is looked at again


class GoesOn(NamedTuple):
    """Where a run's own pieces begin, and the record before that."""

    begin: int
    last: LastRecord | None
    gap: Span | None = None
    branch: Branch | None = None


def goes_on(source: SourceLog, parent: Run, catalogue: Catalogue, rules: RecordRules) -> GoesOn:
    """Where a store's log leaves the one that its newest run has.

    Raises StoreError if both have nothing in common: it is of another store.
    """
    end, last = parent.end, parent.last
    another = StoreError(
        f"{', '.join(source.folders)}: is not the log of which {catalogue.folder} has run "
        f"{parent.run}: nothing of both is the same; --store NAME begins another"
    )
    if last is None or source.start > last.offset:  # nothing is left to compare but times
        begin = max(source.start, end)
        first = next(pieces(source, begin, ALL_WANTED, rules, NO_CHECKS), None)
        if last is not None and first and first.times and first.times[0] < last.timestamp:
            raise another
        return GoesOn(begin, last, (end, begin) if begin > end else None)
    if digest_at(source, last.offset, end) == last.sha256:
        return GoesOn(end, last)
    for piece, used in reversed(catalogue.chain(parent)):
        begin = max(piece.offset, source.start)  # its first segments may have been deleted since
        if begin >= piece.offset + used:
            break
        whole = used == piece.length and digest_at(source, piece.offset, piece.end) == piece.sha256
        try:
            until = piece.end if whole else _differs_at(source, catalogue, piece, begin, used)
        except (FileNotFoundError, PieceBroken):
            continue
        border, record, stored = begin, -1, 0
        for found in pieces(source, begin, LogLimit(until), rules, NO_CHECKS):
            if border < found.whole <= until:
                border = found.whole
                if found.records:
                    record, stored = found.last, found.timestamp
        if record >= 0:
            before = LastRecord(record, digest_at(source, record, border), stored)
            return GoesOn(border, before, None, Branch(end, border))
    raise another


def _differs_at(
    source: SourceLog, catalogue: Catalogue, piece: Piece, begin: int, used: int
) -> int:
    """The first offset of a piece, from `begin` on, at which the log has another byte."""
    stop = min(piece.offset + used, source.stop)
    stored = catalogue.storage.read_bytes(catalogue.piece_path(piece))
    plain = frames.decode_all(stored, piece.length)
    kept = plain[begin - piece.offset : max(stop, begin) - piece.offset]
    there = np.empty(len(kept), np.uint8)
    read_log(source, begin, there)
    unlike = np.flatnonzero(kept != there)
    return begin + int(unlike[0]) if len(unlike) else begin + len(kept)


def digest_at(source: SourceLog, begin: int, end: int) -> str:
    """The SHA-256 of the log's bytes [begin, end); "" where it does not have them all."""
    found = sha256()
    for at in range(begin, end, _WINDOW):
        buffer = np.empty(min(_WINDOW, end - at), np.uint8)
        try:
            read_log(source, at, buffer)
        except SourceCleaned:
            return ""
        found.update(buffer)
    return found.hexdigest()


def read_log(source: SourceLog, at: int, buffer: Bytes) -> None:
    """Fill a buffer, over borders of segments too. Raises SourceCleaned, StoreError, OSError."""
    size, done = source.segment_bytes, 0
    while done < len(buffer):
        room = size - (at + done) % size
        source.read(at + done, buffer[done : done + room])
        done += min(room, len(buffer) - done)


# ---
# Reads what is new, and packs it frame by frame, in few megabytes of memory that are used again:
# fresh pages for whole pieces take as long as all the rest together.


class Packed(NamedTuple):
    """A piece, and its frames as they will be; none in a dry run."""

    piece: Piece
    frames: list[Future[frames.Packed]]


Pack = Callable[[Bytes], "Future[frames.Packed]"]  # of a frame, which it is done with then
_FRAMES = 8  # in memory


class LogPacker:
    """Packs the records of a log from `begin` on. After `packed`, `end` is where it ends."""

    def __init__(
        self, source: SourceLog, on: GoesOn, rules: RecordRules, rate: float | None,
        live: Callable[[], int | None], pack: Pack | None,
    ) -> None:  # fmt: skip
        """live: the broker that writes to the log, if one does; pack: None in a dry run."""
        self.source, self.rules, self.live, self._pack = source, rules, live, pack
        self.end, self.last = on.begin, on.last
        self.damaged: list[Span] = []
        self._pace = RateLimit(rate)
        # What came last waits until more comes: the last record may have to be read again.
        self._held: list[LogPiece] = []
        self._free: SimpleQueue[Bytes] = SimpleQueue()
        for _ in range(_FRAMES if pack else 0):
            self._free.put(np.empty(frames.FRAME_BYTES, np.uint8))
        self._begin(on.begin)

    def _begin(self, at: int) -> None:
        self._at, self._length, self._records = at, 0, 0
        self._times: list[int] = []
        self._sha, self._frames = sha256(), list[Future[frames.Packed]]()
        self._frame, self._filled = np.empty(0, np.uint8), 0

    def packed(self) -> Iterator[Packed]:
        """The pieces, in order. Raises SourceCleaned, StoreError, OSError."""
        after: int | None = self.end
        while after is not None:
            if after > self.end:
                yield from self._keep(after)
            fault = Fault.NONE
            with closing(read_ahead(self._pieces())) as found:
                for piece in found:
                    fault = piece.fault
                    yield from self._take(piece)
            after = self._next(fault)
        self._settle()
        yield from self._flush()
        if self._length:
            yield self._whole()

    def _pieces(self) -> Iterator[LogPiece]:
        return pieces(self.source, self.end, ALL_WANTED, self.rules, Checks(body=True))

    def _take(self, piece: LogPiece) -> Iterator[Packed]:
        if not len(piece.data):  # a fault alone
            return
        held = sum(len(each.data) for each in self._held)
        # a record that is longer than a window comes bit by bit; one as long as a piece is cut
        if piece.at == self.end or held + len(piece.data) > PIECE_BYTES:
            yield from self._flush()
        self._held.append(piece)
        self.end = max(self.end, piece.whole)
        if piece.records:
            self.last = LastRecord(piece.last, "", piece.timestamp)
        wait = self._pace.wait_for(len(piece.data))
        if wait:
            time.sleep(wait)

    def _flush(self) -> Iterator[Packed]:
        """Pack what is held: in a piece of its own if it is too much for this one."""
        held = sum(len(each.data) for each in self._held)
        if self._length and self._length + held > PIECE_BYTES:
            yield self._whole()
        for piece in self._held:
            self._sha.update(piece.data)
            self._length += len(piece.data)
            self._records += piece.records
            self._times += piece.times
            if self._pack is not None:
                self._put(self._pack, piece.data)
        self._held = []

    def _put(self, pack: Pack, data: Bytes) -> None:
        while len(data):
            if not len(self._frame):
                self._frame = self._free.get()
            some = data[: len(self._frame) - self._filled]
            self._frame[self._filled : self._filled + len(some)] = some
            self._filled, data = self._filled + len(some), data[len(some) :]
            if self._filled == len(self._frame):
                self._send(pack)

    def _send(self, pack: Pack) -> None:
        """Have a frame packed, and its memory given back then."""
        frame, self._frame = self._frame, self._frame[:0]
        packed = pack(frame[: self._filled])
        packed.add_done_callback(lambda _: self._free.put(frame))
        self._frames.append(packed)
        self._filled = 0

    def _whole(self) -> Packed:
        """The piece that was begun; another begins."""
        if self._pack is not None and self._filled:
            self._send(self._pack)
        begin, end = self._at, self._at + self._length
        times = (min(self._times), max(self._times)) if self._times else (0, 0)
        holes = ((max(a, begin), min(b, end)) for a, b in self.damaged)
        damaged = tuple(span for span in holes if span[0] < span[1])
        digest = self._sha.hexdigest()
        piece = Piece(begin, self._length, digest, 0, self._records, times, damaged)
        found = Packed(piece, self._frames)
        self._begin(end)
        return found

    def _next(self, fault: Fault) -> int | None:
        """Where the log goes on after what is no record; None where it ends."""
        if fault in (Fault.NONE, Fault.BLANK):
            return None
        self.source.refresh()
        at, size = self.end, self.source.segment_bytes
        after = [start for start in sorted(self.source.segments)
                 if start > at and any(self.source.head(start))]  # fmt: skip
        if fault == Fault.ZEROS and not after:
            return None
        if any(piece.whole > at for piece in islice(self._pieces(), 1)):
            return at  # it has been written meanwhile
        end = at - at % size + size
        walk = Walk(self.source.read, end, self.rules, NO_CHECKS, np.empty(_WINDOW, np.uint8))
        return next(walk.places(at + 1, end), min(after, default=None))

    def _keep(self, until: int) -> Iterator[Packed]:
        """Take what is damaged as it is."""
        self.damaged.append((self.end, until))
        while self.end < until:
            data = np.empty(min(_WINDOW, until - self.end), np.uint8)
            read_log(self.source, self.end, data)
            yield from self._flush()
            self._held = [LogPiece(self.end, data, self.end, -1, 0, 0)]
            self.end += len(data)

    def _settle(self) -> None:
        """Set the digest of the last record. It is read again where a broker writes, as no CRC
        tells whether all of its properties are written.
        """
        if self.last is None or self.last.sha256:
            return
        begin, at = self.last.offset, self._at + self._length
        held = np.concatenate([each.data for each in self._held] or [np.empty(0, np.uint8)])
        there = held[max(begin - at, 0) :]
        while begin >= at and self.live() is not None:
            again = np.empty(len(there), np.uint8)
            read_log(self.source, begin, again)
            if np.array_equal(there, again):
                break
            there[:] = again
            time.sleep(_SETTLES)
        self._held = [each._replace(data=held) for each in self._held[-1:]]
        digest = (
            sha256(there).hexdigest() if begin >= at else digest_at(self.source, begin, self.end)
        )
        self.last = self.last._replace(sha256=digest)
