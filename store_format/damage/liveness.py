"""Which records after damage are live, judged by the records before and after them in the log."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.damage import evidence
from reput.store_format.damage.queue_ends import NEVER, QueueEnds
from reput.store_format.damage.resync import NOT_FOUND, Prover
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import Fault
from reput.store_format.layouts import RECORD_AT, RECORD_HEAD, as_struct
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.walk import Read, Walk

# ---
# Looks ahead from a record after damage: the stretch of sound records there, and the next one.
#
# Each stretch is looked at once, in the log's order, so that each byte is read twice at most.

_WINDOW_BYTES = 1 << 20
_READ_OF_EACH = 256  # records at each end of a window: they show where queues begin and end
_NONE_BEHIND = -1


class SoundStretch(NamedTuple):
    """A stretch of sound records, and the beginning of the next stretch.

    spans: its queues. time: storeTimestamp of its last record.
    end: the physical offset where the stretch breaks off, or where a newer record stands.
    behind: the physical offset of the next stretch, -1 for none.
    firsts, behind_time: the next stretch's first queueOffsets and first storeTimestamp.
    """

    spans: dict[evidence.Queue, evidence.QueueSpan]
    time: int
    end: int
    largest: int  # the longest record, in bytes
    behind: int
    firsts: dict[evidence.Queue, int]
    behind_time: int


class Stretches:
    """Looks ahead in one segment that ends at `end`."""

    def __init__(self, read: Read, start: int, end: int, rules: ScanRules) -> None:
        self.own_queues = evidence.OwnQueues(rules)
        self._end = end
        buffer = np.empty(min(_WINDOW_BYTES, end - start), np.uint8)
        self._prover = Prover(read, start, end, rules.records)
        self._walk = Walk(read, end, rules.records, rules.checks, buffer, None, self._doubt)

    def _doubt(self, at: int) -> Fault:
        parts = self._prover.lengths(at)
        return Fault.NONE if parts and parts.place == at else Fault.LENGTHS

    def look(self, at: int, newer: int | None) -> SoundStretch:
        """The stretch that begins with the record at `at`.

        newer: if not None, the stretch ends before the first record with at least this time.
        """
        spans: dict[evidence.Queue, evidence.QueueSpan] = {}
        end, fault, largest, time, last = at, Fault.NONE, 0, 0, at
        for step in self._walk.steps(at, self._end):
            rows, end, fault = step.rows, step.next, step.fault
            count = len(rows)
            if newer is not None:
                young = np.flatnonzero(rows["storeTimestamp"] >= newer)
                count = int(young[0]) if len(young) else count
            self._add(spans, step.window, rows[:count])
            if count:
                last, time = (int(rows[count - 1][n]) for n in ("physicalOffset", "storeTimestamp"))
            largest = max(largest, int(rows["size"][:count].max(initial=0)))
            if count < len(rows):
                firsts = self._firsts(step.window, rows[count:])
                place, behind_time = step.start(count), int(rows["storeTimestamp"][count])
                return SoundStretch(spans, time, place, largest, place, firsts, behind_time)
        behind = NOT_FOUND
        if fault not in (Fault.BLANK, Fault.NONE) and end < self._end:
            # The last record may reach over its page's end into the bytes of another record.
            behind = self._prover.next_record(last + 1)
            end = behind if last < behind < end else end
        first = next(self._walk.steps(behind, self._end), None) if behind != NOT_FOUND else None
        if first is None or not len(first.rows):
            return SoundStretch(spans, time, end, largest, _NONE_BEHIND, {}, 0)
        behind_time = int(first.rows["storeTimestamp"][0])
        firsts = self._firsts(first.window, first.rows)
        return SoundStretch(spans, time, end, largest, behind, firsts, behind_time)

    def _add(
        self, spans: dict[evidence.Queue, evidence.QueueSpan], window: Bytes, rows: Rows
    ) -> None:
        """Add a window's records to the queues' spans: those at its beginning, and at its end."""
        ends = [rows[:_READ_OF_EACH], rows[_READ_OF_EACH:][-_READ_OF_EACH:]]
        for part in ends:
            for row in part:
                taken = self.own_queues.of(window, row)
                if taken is not None:
                    begin = evidence.QueueSpan(taken.first, taken.first - 1, batch=taken.batch)
                    old = spans.get(taken.queue, begin)
                    spans[taken.queue] = old.then(taken.first, taken.last)

    def _firsts(self, window: Bytes, rows: Rows) -> dict[evidence.Queue, int]:
        firsts: dict[evidence.Queue, int] = {}
        for row in rows[:_READ_OF_EACH]:
            taken = self.own_queues.of(window, row)
            if taken is not None:
                firsts.setdefault(taken.queue, taken.first)
        return firsts


_RECENT = 4  # last live records whose times are kept
_HEAD, _HEAD_NAMES = as_struct(RECORD_HEAD), RECORD_HEAD.names or ()


class Given(NamedTuple):
    """A piece [start, end) of the log that was judged by the whole log (damage/lives).

    value: the witnesses, see `packed`.
    """

    start: int
    end: int
    live: bool
    value: int


class Before(NamedTuple):
    """What the log has before a segment, so that stale records can be known in it.

    timestamp: the storeTimestamp of the last live record. known: (topic, queueId) -> what the queue
    goes on from, or None. is_last: all later segments are empty. Only then do stale records follow
    the log's end: RocketMQ deletes the segments after a truncation, and has overwritten all of a
    segment when it begins the next one. given: pieces of the segment that are judged already, in
    order.
    """

    timestamp: int | None
    known: Callable[[str, int], evidence.NextOffset | None]
    is_last: bool = True
    given: Sequence[Given] = ()


class Live:
    """Which records of a segment are live, as far as the segment's scan has come."""

    def __init__(
        self, start: int, before: Before, followed: QueueEnds, prover: Prover, stretches: Stretches
    ) -> None:
        """start: where the segment begins; followed: the queues that the scan's buffers hold."""
        self.end = start  # where the last live record ends
        self.stale_by = 0  # the witnesses of the last stale records, see `packed`
        self._segment, self._before, self._followed = start, before, followed
        self._prover, self._stretches = prover, stretches
        self._lost = 0  # bytes before `end` that are no live records
        self.stale_end = start  # records that begin before this offset are stale
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)  # (place, storeTimestamp)

    def took(self, rows: Rows) -> None:
        """Note live records: where they end, and when the last _RECENT were stored."""
        first, last = rows[0], rows[-1]
        self._lost += int(first["physicalOffset"]) - self._prover.head - self.end
        self.end = int(last["physicalOffset"]) + int(last["size"])
        for row in rows[-_RECENT:]:
            self._recent.append((int(row["physicalOffset"]), int(row["storeTimestamp"])))

    def stale(self, window: Bytes, rows: Rows) -> int:
        """How many rows are stale, counted from the first one up to the first that may be live.

        A stretch is judged only if its first record is older than the last live record, or its
        queue already has that queueOffset; or if no live record of the log is before it.
        """
        at = int(rows["physicalOffset"][0]) - self._prover.head
        time = int(rows["storeTimestamp"][0])
        given = self._given(at)
        if given is not None:
            self.stale_end = at if given.live else given.end
            self.stale_by = given.value
        elif at >= self.stale_end:
            last = self._last_time(time)
            is_older = last is not None and time < last
            begins = at == self._segment and last is None
            if not is_older and not begins and not self._repeats(window, rows[0]):
                return 0
            self._judge(at, last if is_older else None, last is not None and not is_older)
        return int(np.searchsorted(rows["physicalOffset"], self.stale_end))

    def _given(self, at: int) -> Given | None:
        """The piece that is judged already and has the record at `at`."""
        number = bisect_right(self._before.given, at, key=lambda each: each.start) - 1
        found = self._before.given[number] if number >= 0 else None
        return found if found is not None and at < found.end else None

    def beside_stale(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether each row begins or ends where a stale piece that is judged already does."""
        stale = [each for each in self._before.given if not each.live]
        start = rows["physicalOffset"] - self._prover.head
        ends = np.isin(rows["physicalOffset"] + rows["size"], [each.start for each in stale])
        return ends | np.isin(start, [each.end for each in stale])

    def undoubted(self, rows: Rows) -> int:
        """How many rows come before the next stale piece that is judged already."""
        number = bisect_right(
            self._before.given, int(rows["physicalOffset"][0]), key=lambda each: each.start
        )
        stale = (each.start for each in self._before.given[number:] if not each.live)
        return int(np.searchsorted(rows["physicalOffset"], next(stale, 1 << 62)))

    def _judge(self, at: int, newer: int | None, is_younger: bool) -> None:
        """Judge the stretch that begins at `at`; where it is stale, `_stale_until` is its end.

        newer: the last live storeTimestamp if the stretch is older, else None; is_younger: there
        is a live record before, and the stretch is not older.
        """
        found = self._stretches.look(at, newer)
        known = {queue: self._last_offset(queue) for queue in found.spans}
        lost = at - self.end
        ends_log = found.behind < 0 and self._before.is_last
        # The next stretch is no witness where it may be as old as this one.
        since = max(found.time, self._before.timestamp or 0 if newer is None else newer)
        is_newer = found.behind >= 0 and found.behind_time >= since
        facts = evidence.StretchFacts(
            newer is not None and (ends_log or found.behind >= 0),
            is_newer,
            lost > 2 * found.largest or (lost > 0 and self._frame_at(self.end, at)),
            evidence.votes_before(found.spans, known, lost),
            evidence.votes_behind(
                found.spans, known, found.firsts.items() if is_newer else (),
                found.behind - found.end, found.behind - self.end,
            ),
            is_younger and is_newer, at == self._segment,
        )  # fmt: skip
        verdict = evidence.judge_stretch(facts)
        self.stale_end = at if verdict.live else found.end
        self.stale_by = evidence.packed(verdict)

    def _last_offset(self, queue: evidence.Queue) -> evidence.NextOffset | None:
        """The queueOffset that a queue goes on from."""
        here = self._followed.last(queue)
        if here != NEVER:
            return evidence.NextOffset(here, self._lost)
        had = self._before.known(*queue)
        return evidence.NextOffset(had.last, had.lost + self._lost) if had else None

    def _repeats(self, window: Bytes, row: Any) -> bool:
        taken = self._stretches.own_queues.of(window, row)
        known = self._last_offset(taken.queue) if taken is not None else None
        return taken is not None and known is not None and taken.first <= known.last

    def _frame_at(self, at: int, following: int) -> bool:
        """Whether a record began at `at`: its physicalOffset is `at`, or it ends at `following`."""
        at += self._prover.head
        raw = self._prover.bytes_at(at, RECORD_HEAD.itemsize)
        if len(raw) < RECORD_HEAD.itemsize:
            return False
        fields = dict(zip(_HEAD_NAMES, _HEAD.unpack(raw), strict=True))
        return bool(fields["physicalOffset"] == at or fields["totalSize"] == following - at)

    def _last_time(self, following: int) -> int | None:
        """When the last live record was stored; None where there is none.

        Its own field is outvoted where the record before it, the one that follows the damage, and
        its own bornTimestamp all say that it was earlier.
        """
        recent = list(self._recent)
        while len(recent) > 1 and recent[-1][1] > following >= recent[-2][1]:
            place, stored = recent[-1]
            born = int.from_bytes(self._prover.bytes_at(place + RECORD_AT.bornTimestamp, 8), "big")
            if abs(born - following) >= stored - following:
                break
            recent.pop()
        return recent[-1][1] if recent else self._before.timestamp
