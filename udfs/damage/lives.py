"""Which life of a log each piece of its damaged segments is of: tasks that list pieces, and judge.

A piece is a line of JSON in staging, as `Piece` of store_format/damage/lives has it.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
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
from reput.udfs.damage.segments import padded
from reput.udfs.staging import RUNS, LineFile, Staging, ids_of, pieces_of, schema

_MOST_PIECES = 2048  # in a segment; one with more is judged by the records around each stretch
_BUFFERED_BYTES = 1 << 16
_BREAKS = 2  # queues that must not go on where a piece begins without a fault
_PAGE = 4096  # bytes that are written at once, or not
_LOOKED_BACK = 256  # records before a break: the piece begins with one of them, or with it
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


class LookedAt(NamedTuple):
    """A segment without salvage. fell: a storeTimestamp is below the one before it; first, newest:
    the first and greatest one, of a segment without records both -1.
    """

    is_sound: bool
    fell: bool
    first: int
    newest: int


def doubtful(segments: Sequence[LookedAt]) -> tuple[set[int], set[int]]:
    """The numbers of damaged segments, and of all in which pages of an older life may be: those,
    each whose times are below those before it, or that follows such a one.
    """
    damaged, listed, newest = set[int](), set[int](), -1
    for n, found in enumerate(segments):
        if not found.is_sound:
            damaged.add(n)
        if found.fell or not found.is_sound or -1 < found.first < newest:
            listed |= {n, n + 1}
        newest = max(newest, found.newest)
    return damaged, listed - {len(segments)}


def pieces_in(read: Read, start: int, end: int, rules: ScanRules) -> list[Piece]:
    """The pieces of the segment [start, end), in order; none where it has more than
    _MOST_PIECES.
    """
    rules = replace(rules, times=True)
    prover = Prover(read, start, end, rules.records)
    buffers = Buffers(_BUFFERED_BYTES)
    found: list[Piece] = []

    def scanned(at: int, stop: int) -> tuple[_Seen, End]:
        seen, stopped = _Seen(prover.head), End()
        for part in scan(read, Stretch(start, end, at, stop, at), rules, buffers):
            if isinstance(part, Runs):
                seen.add(part)
            elif isinstance(part, End):
                stopped = part
        return seen, stopped

    at = prover.next_record(start)
    while at != NOT_FOUND:
        seen, stopped = scanned(at, end)
        if stopped.records:
            seams = dict(_exactly(before, seam, prover) for seam, before in seen.seams().items())
            cuts = [at, *seams, end]
            parts = [scanned(*each) for each in pairwise(cuts)] if seams else [(seen, stopped)]
            pieces = [of.piece(cut, to, prover) for cut, (of, to) in zip(cuts, parts, strict=False)]
            found += _of_one_life_each(pieces, seams)
            if len(found) > _MOST_PIECES:
                return []
        if stopped.fault in (Fault.NONE, Fault.BLANK):
            is_sure = len(found) == 1 and found[0].start == start
            return [found[0]._replace(is_sure=True)] if is_sure else found
        at = prover.next_record(max(stopped.last_record, at) + 1)
    return found


def _exactly(before: int, seam: int, prover: Prover) -> tuple[int, int]:
    """Where a part begins of which `seam` is the first record of a queue, and `before` the last one
    of a queue before it; and where the record before begins if that is of two lives, else the same.

    That is a record that a page ends in: it begins in the later life, and times fall behind it.
    """
    places = [(before, prover.lengths(before))]
    while places[-1][0] < seam and (last := places[-1][1]) is not None:
        places.append((places[-1][0] + last.size, prover.lengths(places[-1][0] + last.size)))
    steps = [
        (now.store_timestamp - was.store_timestamp, at, start)
        for (start, was), (at, now) in pairwise(places) if was and now
    ]  # fmt: skip
    if not steps or places[-1][0] != seam:
        return seam, seam
    fell_by, at, start = min(steps)
    if fell_by >= 0:
        return max(steps)[1], max(steps)[1]
    return at, start if start // _PAGE < (at - 1) // _PAGE else at


def _of_one_life_each(parts: Sequence[Piece], torn: Mapping[int, int]) -> list[Piece]:
    """The parts of a piece, joined where most queues go on from one to the next, or the times leap
    by less than the first one spans. torn: where a part begins with the record before it, if that
    is of two lives.
    """
    found = [*parts[:1]]
    for part in parts[1:]:
        last = found[-1]
        both = [(last.claims[q].last, each) for q, each in part.claims.items() if q in last.claims]
        goes_on = sum(each.first == had + 1 for had, each in both)
        breaks = sum(each.first not in (0, had + 1) for had, each in both)
        step, spans = part.first_time - last.last_time, last.last_time - last.first_time
        if breaks >= max(goes_on, _BREAKS) and (step < 0 or step > spans):
            start = torn.get(part.start, part.start)
            found[-1] = last._replace(end=start, frame=-1)
            found.append(part._replace(start=start))
            continue
        claims = {**last.claims, **part.claims}
        claims |= {q: claims[q]._replace(first=had.first) for q, had in last.claims.items()}
        found[-1] = part._replace(
            start=last.start, records=last.records + part.records, first_time=last.first_time,
            claims=claims,
        )  # fmt: skip
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


_LAST = 1 << 63
_Break = tuple[int, int, Queue]  # a record's place, and that of the record before it in its queue
_Stored = tuple[int, int]  # a record's physical offset and storeTimestamp


class _Seen:
    """The queues and times of one piece, whose runs come in the log's order."""

    def __init__(self, head: int) -> None:
        self._head = head  # bytes before each record, where it begins
        self._claims: dict[Queue, Claim] = {}
        self._begin: list[_Stored] = []
        self._end: list[_Stored] = []
        self._latest: dict[Queue, int] = {}  # the place of each queue's last record
        self._breaks: list[_Break] = []
        self._recent: list[_Stored] = []
        self._seams = _Seams()

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
            places.append(entries["physicalOffset"].astype(np.int64) - self._head)
            if queue.batch:
                continue  # a record may have many positions
            offsets = int(runs.offsets_at[number])
            first = int(runs.first[number])
            last = first + count - 1 if offsets < 0 else int(runs.offsets[offsets + count - 1])
            claim = Claim(first, last, int(runs.times[ends[number] - 1]))
            key = queue.topic, queue.queue_id
            had = self._claims.get(key)
            goes_on = offsets < 0 and (had is None or had.last + 1 == first)
            # a message may go into an LMQ queue twice, with one queueOffset
            if not goes_on and not queue.topic.startswith(LMQ_PREFIX):
                mine = runs.offsets[offsets : offsets + count] if offsets >= 0 else [first]
                self._add_breaks(key, np.array(mine), places[-1])
            self._latest[key] = int(places[-1][-1])
            self._claims[key] = claim._replace(first=had.first) if had else claim
        in_order = sorted(zip(np.concatenate(places).tolist(), runs.times.tolist(), strict=True))
        if self._breaks:
            self._seams.add(sorted(self._breaks), [*self._recent, *in_order])
            self._breaks.clear()
        self._recent = [*self._recent, *in_order][-_LOOKED_BACK:]
        self._begin += in_order[: _WITNESSES - len(self._begin)]
        self._end = [*self._end, *in_order][-_WITNESSES:]

    def _add_breaks(self, queue: Queue, offsets: np.ndarray, places: np.ndarray) -> None:
        """Note the records that do not go on by one in their queue; not those with 0."""
        had = self._claims.get(queue)
        before = np.append(had.last if had else offsets[0] - 1, offsets[:-1])
        where = np.append(self._latest.get(queue, -1), places[:-1])
        for at in np.flatnonzero((offsets != before + 1) & (offsets > 0)).tolist():
            self._breaks.append((int(places[at]), int(where[at]), queue))

    def seams(self) -> dict[int, int]:
        """Where a part of another life may begin, though each record is whole: the place of a
        queue's record, and that of the queues' record before it.
        """
        return self._seams.all()

    def piece(self, start: int, stopped: End, prover: Prover) -> Piece:
        at = stopped.last_record - prover.head
        last = at, stopped.last_timestamp  # it may be of no queue
        begin = _credible(self._begin or [last], 0, prover)
        end = _credible(sorted({*self._end, last})[-_WITNESSES:], -1, prover)
        parts = prover.lengths(at)
        after = at + parts.size if parts else at
        return Piece(start, after, stopped.records, begin, end, prover.frame(after), self._claims)


class _Seams:
    """Finds where several queues break off at once: at a page of another life whose records are as
    long as those beside it. The records before the first break are of either life, back to the
    last one of its queue: there times fall or, without a fall, leap.
    """

    def __init__(self) -> None:
        self._found: dict[int, int] = {}
        self._queues: set[Queue] = set()
        self._after = self._first = -1  # the places that the seam is after, and is at most
        self._near: list[_Stored] = []

    def add(self, breaks: list[_Break], near: list[_Stored]) -> None:
        for place, before, queue in breaks:
            if before >= self._first:
                self._close()
                self._first, self._after = place, before
                at = bisect_right(near, (place, _LAST))
                self._near = near[max(at - _LOOKED_BACK, 0) : at]
            self._queues.add(queue)

    def all(self) -> dict[int, int]:
        self._close()
        return self._found

    def _close(self) -> None:
        if len(self._queues) >= _BREAKS and len(self._found) < _MOST_PIECES:
            steps = [
                (now - was, at, before)
                for (before, was), (at, now) in pairwise(self._near) if at > self._after
            ]  # fmt: skip
            if steps:
                _, at, before = min(steps) if min(steps)[0] < 0 else max(steps)
                self._found[at] = before
        self._queues.clear()
        self._first = -1


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
    """A split that was walked without a fault. run: the name of its run files in staging."""

    split: int
    start: int
    end: int
    records: int
    last_time: int
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
                    claims[key] = Claim(first, row["greatest"], part.last_time)
        time = part.last_time
        return Piece(part.start, part.end, part.records, time, time, -1, claims, True)


def _as_line(piece: Piece) -> dict[str, Any]:
    claims = [[*queue, *claim] for queue, claim in piece.claims.items()]
    return {**piece._asdict(), "claims": claims}
