"""Which life of a log each piece of its damaged segments is of: tasks that list pieces, and judge.

A piece is a line of JSON in staging, as `Piece` of store_format/damage/lives has it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage.evidence import Queue, packed
from reput.store_format.damage.liveness import Given
from reput.store_format.damage.lives import Claim, Piece, judge_lives
from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.derived.queue_files import decode_entries, entry_bytes
from reput.store_format.dispatch.scan import Buffers, End, Read, Runs, ScanRules, scan
from reput.store_format.faults import Fault
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import RECORD_AT, TIMESTAMP_BYTES
from reput.store_format.log.segments import Segment, Stretch
from reput.store_format.names import LMQ_PREFIX
from reput.store_format.release.settings import OS_PAGE_BYTES
from reput.udfs.damage.segments import padded
from reput.udfs.staging import RUNS, LineFile, Staging, ids_of, pieces_of, schema

_MOST_PIECES = 2048  # in a segment; one with more is judged by the records around each stretch
_WHOLE = Fault.NONE, Fault.BLANK
_BUFFERED_BYTES = 1 << 16
_ALIKE = 8  # bytes, the size and the magic number, that a record of one size has in either life
_WITNESSES = 3  # records that are asked when a piece begins or ends

# One row for each segment: the name of the file in staging with its pieces, '' for none.
PIECES = schema(segment=pa.int64(), lines=pa.string())
# One row for each piece: [start, end) of the log; value: its witnesses (witnesses.packed).
VERDICTS = schema(start=pa.int64(), end=pa.int64(), live=pa.bool_(), value=pa.int64())


@dataclass(frozen=True)
class ListPieces:
    """Lists the pieces of those of `segments` whose indices arrive in the column `id`."""

    storage: InputStorage
    staging: Staging
    segments: tuple[tuple[int, Segment], ...]
    segment_bytes: int
    rules: ScanRules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in ids_of(batches):
            number, segment = self.segments[place]
            lines = LineFile(self.staging)
            end = segment.start + self.segment_bytes
            with closing(self.storage.open(segment.path, segment.state)) as reader:
                for piece in pieces_in(padded(reader, segment), segment.start, end, self.rules):
                    lines.add(_as_line(piece))
            rows = [{"segment": number, "lines": lines.finish()}]
            yield pa.RecordBatch.from_pylist(rows, PIECES)


def pieces_in(read: Read, start: int, end: int, rules: ScanRules) -> list[Piece]:
    """The pieces of the segment [start, end), in order; none where it has more than
    _MOST_PIECES.

    A piece also ends where a page of another life may begin though its records are whole, as those
    of one size are. A record that such a page begins in is of the piece whose times are lower.
    """
    rules = replace(rules, times=True)
    prover = Prover(read, start, end, rules.records)
    buffers = Buffers(_BUFFERED_BYTES)
    found: list[Piece] = []

    def scanned(at: int, stop: int) -> tuple[_Seen, End]:
        seen, stopped = _Seen(start, end), End()
        for part in scan(read, Stretch(start, end, at, stop, at), rules, buffers):
            if isinstance(part, Runs):
                seen.add(part)
            elif isinstance(part, End):
                stopped = part
        return seen, stopped

    at = prover.next_record(start)
    while at != NOT_FOUND:
        seen, stopped = scanned(at, end)
        seams, torn, last = seen.seams(), -1, at
        if len(found) + len(seams) >= _MOST_PIECES:
            return []
        for page in [*seams, end]:
            if seams:
                seen, stopped = scanned(at, page - (_ALIKE if page < end else 0))
            if not stopped.records:
                continue
            piece = seen.piece(at, stopped, prover)
            if page < end or stopped.fault in _WHOLE:
                piece = piece._replace(frame=-1, is_sure=torn >= 0 or at == start)
            if torn >= 0 and piece.first_time < found[-1].last_time:
                found[-1], piece = found[-1]._replace(end=torn), piece._replace(start=torn)
            found.append(piece)
            at, last = stopped.next, stopped.last_record
            torn = last - prover.head if at > page else at
        if stopped.fault in _WHOLE:
            break
        at = prover.next_record(last + 1)
    return found


def suspect(ends: Iterable[tuple[int, Mapping[str, Any]]]) -> set[int]:
    """The numbers of segments that may have pages of an older life, though all is whole: those with
    times that fall, or are below those before, and the next ones.

    ends: (segment, what `End` has) of parts of the log, in order.
    """
    found, newest = set[int](), -1
    for number, end in ends:
        if end["records"] and (end["fell_by"] > 0 or end["first_timestamp"] < newest):
            found |= {number, number + 1}
        newest = max(newest, end["last_timestamp"])
    return found


def judged(pieces: list[Piece]) -> list[Given]:
    """What the whole log, given in its pieces, says of those that can be judged by it; none where
    no piece is of an older life.
    """
    pieces = sorted(pieces, key=lambda each: each.start)
    verdicts = judge_lives(pieces)
    # A piece's last record may reach over its page's end, into the bytes of another record.
    limits = [*(each.start for each in pieces[1:]), 1 << 62]
    return [
        Given(each.start, min(each.end, limit), verdict.live, packed(verdict))
        for each, limit in zip(pieces, limits, strict=False)
        if (verdict := verdicts.get(each.start)) is not None
    ]


class _Seen:
    """The queues and times of one piece of a segment, whose runs come in the log's order."""

    def __init__(self, start: int, end: int) -> None:
        self._claims: dict[Queue, Claim] = {}
        self._begin: list[_Stored] = []
        self._end: list[_Stored] = []
        self._places: dict[Queue, int] = {}  # of each queue's last record
        self._start = start
        # By page, as differences: how many queues go on over its beginning, and how many do not.
        self._over = np.zeros((2, (end - start) // OS_PAGE_BYTES + 2), np.int32)

    def add(self, part: Runs) -> None:
        runs = part.runs
        ends = np.cumsum(runs.count)
        places = []
        for number, queue in enumerate(part.queues):
            count, at = int(runs.count[number]), int(runs.entries_at[number])
            if not count:
                continue
            length = count * entry_bytes(queue.batch)
            entries = decode_entries(runs.entries[at : at + length], queue.batch)
            places.append(entries["physicalOffset"].astype(np.int64))
            if queue.batch:
                continue  # a record may have many positions
            at, first = int(runs.offsets_at[number]), int(runs.first[number])
            offsets = runs.offsets[at : at + count] if at >= 0 else first + np.arange(count)
            key = queue.topic, queue.queue_id
            had = self._claims.get(key, Claim(first, first - 1, 0))
            last = self._places.get(key, int(places[-1][0]))
            if not queue.topic.startswith(LMQ_PREFIX):  # one may have a message twice
                goes_on = np.diff(offsets, prepend=had.last) == 1
                self._cross(0, goes_on, last, places[-1])
                self._cross(1, ~goes_on & (offsets > 0), last, places[-1])
            time = int(runs.times[ends[number] - 1])
            self._claims[key] = Claim(had.first, int(offsets[-1]), time)
            self._places[key] = int(places[-1][-1])
        order = np.argsort(place := np.concatenate(places), kind="stable")
        place, times = place[order], runs.times[order]
        at, time = self._end[-1] if self._end else (int(place[0]), int(times[0]))
        self._cross(1, np.diff(times, prepend=time) < 0, at, place)
        in_order = list(zip(place.tolist(), times.tolist(), strict=True))
        self._begin += in_order[: _WITNESSES - len(self._begin)]
        self._end = [*self._end, *in_order][-_WITNESSES:]

    def _cross(
        self, off: int, steps: npt.NDArray[np.bool_], last: int, places: npt.NDArray[np.int64]
    ) -> None:
        """Count `steps` to each place from the one before, at the pages that begin in between."""
        pages = (np.append(last, places) - self._start) // OS_PAGE_BYTES + 1
        np.add.at(self._over[off], pages[:-1][steps], 1)
        np.add.at(self._over[off], pages[1:][steps], -1)

    def seams(self) -> list[int]:
        """Where pages begin at which another life may: as many queues as go on by one or more do
        not, of these two, or one where times fall.
        """
        ends = (*self._begin[:1], *self._end[-1:])
        first, last = ((at - self._start) // OS_PAGE_BYTES for at, _ in ends) if ends else (0, 0)
        on, off = np.cumsum(self._over[:, first : last + 1], axis=1)
        pages = np.flatnonzero((off > 1) & (off >= on)) + first
        return (pages * OS_PAGE_BYTES + self._start).tolist()

    def piece(self, start: int, stopped: End, prover: Prover) -> Piece:
        at = stopped.last_record
        last = at, stopped.last_timestamp  # it may be of no queue
        begin = _credible(self._begin or [last], 0, prover)
        end = _credible(sorted({*self._end, last})[-_WITNESSES:], -1, prover)
        parts = prover.lengths(at)
        after = at + parts.size if parts else at
        return Piece(start, after, stopped.records, begin, end, prover.frame(after), self._claims)


_Stored = tuple[int, int]  # a record's physical offset and storeTimestamp


def _credible(records: list[_Stored], number: int, prover: Prover) -> int:
    """The storeTimestamp of one of a few records; the middle one of all where its own bornTimestamp
    speaks for that.
    """
    place, stored = records[number]
    middle = sorted(time for _, time in records)[len(records) // 2]
    raw = prover.bytes_at(place + prover.head + RECORD_AT.bornTimestamp, TIMESTAMP_BYTES)
    born = int.from_bytes(raw, "big", signed=True)
    return stored if abs(stored - born) <= abs(middle - born) else middle


class SoundPart(NamedTuple):
    """What is asked of the SCANNED row of a split that was walked without a fault."""

    first: int
    next: int
    records: int
    last_timestamp: int
    run: str


@dataclass(frozen=True)
class JudgeLives:
    """One task: yields VERDICTS rows of the log's pieces.

    pieces: the names of the files that ListPieces wrote. sound: the parts of the other segments.
    """

    staging: Staging
    pieces: tuple[str, ...]
    sound: tuple[SoundPart, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in ids_of(batches):
            pieces = [piece for name in self.pieces for piece in self._read(name)]
            asked = {queue for each in pieces for queue in each.claims}
            pieces += [self._sound(part, asked) for part in self.sound]
            rows = [each._asdict() for each in judged(pieces)]
            yield pa.RecordBatch.from_pylist(rows, VERDICTS)

    def _read(self, name: str) -> Iterator[Piece]:
        for line in b"".join(pieces_of(self.staging, name)).splitlines():
            fields = json.loads(line)
            claims = {(topic, queue): Claim(*said) for topic, queue, *said in fields.pop("claims")}
            yield Piece(**fields, claims=claims)

    def _sound(self, part: SoundPart, asked: set[Queue]) -> Piece:
        claims: dict[Queue, Claim] = {}
        raw = self.staging.storage.read_bytes(self.staging.path(part.run + RUNS))
        with pa.ipc.open_stream(raw) as stream:
            for row in (row for rows in stream for row in rows.to_pylist()):
                key = row["topic"], row["queue_id"]
                if key in asked and not row["batch"]:
                    first = claims[key].first if key in claims else row["first"]
                    claims[key] = Claim(first, row["greatest"], part.last_timestamp)
        time = part.last_timestamp
        return Piece(part.first, part.next, part.records, time, time, -1, claims, True)


def _as_line(piece: Piece) -> dict[str, Any]:
    claims = [[*queue, *claim] for queue, claim in piece.claims.items()]
    return {**piece._asdict(), "claims": claims}
