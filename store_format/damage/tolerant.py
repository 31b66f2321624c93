"""Scans one segment past its damage: sound records are dispatched, all other ranges are reported.

Each range of the segment is sound, damaged or stale. A record is reported but also dispatched if
only its CRC is wrong: its lengths add up, its physicalOffset is right and another record follows.
So its queue keeps its positions. After any worse fault the scan goes on at the next record that
proves itself (`resync`). The records from there on are stale as long as they were
stored before the last live record, or their queue already has their queueOffset.
"""

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.damage.contradictions import Neighbours
from reput.store_format.damage.liveness import Before, Live, Stretches
from reput.store_format.damage.queue_ends import NEVER, QueueEndArrays, QueueEnds, follow
from reput.store_format.damage.ranges import DamageKind, RangeReporter
from reput.store_format.damage.resync import NOT_FOUND, Prover, lost_its_end
from reput.store_format.dispatch.dispatch import Dispatching, dispatch
from reput.store_format.dispatch.queue_table import find_queue
from reput.store_format.dispatch.scan import Buffers, End, Outputs, Runs, ScanRules
from reput.store_format.faults import CRC_FAULTS, HEAD_FAULTS, Fault
from reput.store_format.kernels.bytes import get_i32, get_i64
from reput.store_format.kernels.java_text import hash_code
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import (
    BLANK,
    BLANK_BYTES,
    DLEDGER_BLANK_LAYOUT,
    RECORD_AT,
    RECORD_FIXED_BYTES,
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_MASK,
)
from reput.store_format.log.records import Bytes, RecordRules, Rows, frame, read_record
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.walk import Marks, Read, Walk

# ---
# Kernels for the ordinary damaged range, of which there may be a million: one damaged record.
#
# Its magic number or its physicalOffset is wrong, its lengths add up, and a sound record follows
# it. Rarer damage is decided in Python (see tolerant), by the same rules.

_NONE, _NEED_MORE = int(Fault.NONE), int(Fault.NEED_MORE)
_BAD_MAGIC, _PLACE = int(Fault.BAD_MAGIC), int(Fault.PLACE)


@kernel
def stride(
    buf: Bytes,
    length: int,
    file_end: int,
    base: int,
    rules: RecordRules,
    rows: Rows,
    faults: npt.NDArray[np.uint8],
    values: npt.NDArray[np.int64],
) -> int:
    """Walk from the record at buf's start over records and ordinary ranges; returns how many.

    buf[:length] stands at physical offset `base`, the segment goes on to `file_end`. Fills rows,
    faults (of the range between a row and the row before it, NONE where they touch) and values
    (the field at fault in that range).
    """
    at, count, skipped, value = 0, 0, _NONE, 0
    while count < len(rows):
        fault, size = frame(buf, at, length, file_end, rules)
        if (fault != _NONE and fault != _BAD_MAGIC) or size < RECORD_FIXED_BYTES:
            break
        if at + size > length:
            break
        parts = read_record(buf, at, size, base + at, 0, rules, rows[count])
        if fault == _NONE and parts == _NONE:
            faults[count], values[count] = skipped, value
            skipped = _NONE
            count += 1
        elif count == 0 or skipped != _NONE or (parts != _NONE and parts != _PLACE):
            break
        elif fault == _BAD_MAGIC:
            skipped, value = _BAD_MAGIC, get_i32(buf, at + RECORD_AT.magic)
        else:
            skipped, value = _PLACE, get_i64(buf, at + RECORD_AT.physicalOffset)
        at += size
    return count


@kernel
def dispatch_fresh(
    buf: Bytes,
    rows: Rows,
    faults: npt.NDArray[np.uint8],
    suspect: bool,
    last: int,
    followed: QueueEndArrays,
    dispatching: Dispatching,
) -> tuple[int, int]:
    """Dispatch rows up to a row after a range that may be stale; (how many, why not more).

    suspect: the first row follows a range too; last: the last live storeTimestamp. The reason is
    NONE at a row that may be stale: it is older than `last`, or its queue is not known or already
    has its queueOffset.
    """
    canon, confirmed, doubted, seen = followed
    batch_names, batch_ends = dispatching.batches
    slots, queues, names, names_used = dispatching.table
    queue_puts, _, _, used = dispatching.puts
    for i in range(len(rows)):
        row = rows[i]
        if suspect or faults[i] != _NONE:
            if row.storeTimestamp < last:
                return i, _NONE
            transaction = row.sysFlag & SYS_TRANSACTION_MASK
            if transaction == 0 or transaction == SYS_TRANSACTION_COMMIT:
                if names_used[0] == len(queues) or names_used[1] + row.topicLength > len(names):
                    return i, _NEED_MORE
                end = row.topicAt + row.topicLength
                number = find_queue(
                    slots, queues, names, names_used, buf, row.topicAt, end,
                    hash_code(buf, row.topicAt, end, np.int32(0)), row.queueId,
                    batch_names, batch_ends,
                )  # fmt: skip
                while seen[0] < used[0]:
                    put = queue_puts[seen[0]]
                    if put.queue >= len(canon):
                        return i, _NONE
                    follow(confirmed, doubted, canon[put.queue], put.queueOffset, put.batchSize)
                    seen[0] += 1
                if number >= len(canon):
                    return i, _NONE
                known = confirmed[canon[number]]
                if known == NEVER or row.queueOffset <= known:
                    return i, _NONE
        done, fault = dispatch(buf, rows[i : i + 1], dispatching)
        if done == 0:
            return i, fault
        suspect, last = False, row.storeTimestamp
    return len(rows), _NONE


MOST_RANGES = 1_000_000  # in one segment; the rest of the segment counts as damaged
_PUTS = 1 << 16
_LEAST_STRIDE = 16  # rows
_ASKED_FOR_THEIR_END = 2  # rows before what is not ordinary: `lost_its_end` looks at them


class TolerantScan:
    """A scan of a whole segment, [start, end) of the log, that goes on after damage.

    Reads each byte a bounded number of times; memory does not depend on what is read.
    """

    def __init__(self, read: Read, start: int, end: int, rules: ScanRules, before: Before) -> None:
        self.read, self.segment, self.segment_end = read, start, end
        self.rules, self.before = rules, before
        buffers = Buffers(end - start, _PUTS)
        self.end = End()
        self.outputs = Outputs(rules, buffers, self.end)
        self.prover = Prover(read, start, end, rules.records)
        self.walk = Walk(
            read, end, rules.records, rules.checks, buffers.window, buffers.rows, self._doubt
        )
        self._neighbours = Neighbours(rules.records)
        self.most_ranges = MOST_RANGES
        self._buffers = buffers
        self._followed = QueueEnds(buffers)
        stretches = Stretches(read, start, end, rules)
        self.live = Live(start, before, self._followed, self.prover, stretches)
        self.reporter = RangeReporter(self.prover)
        self._stride_rows = _LEAST_STRIDE
        self._stride_faults = np.zeros(len(buffers.rows), np.uint8)
        self._stride_values = np.zeros(len(buffers.rows), np.int64)
        self._suspect = True  # stale records may follow

    def run(self) -> Iterator[Any]:
        """Yields IndexPuts, Runs, Damage and Ranges, each in the log's order, and last one End.

        End.fault: BLANK where the segment ends as it should, ZEROS where only zeros follow
        from End.next on, else NONE: it is damaged up to its end.
        """
        for part in self._parts():
            if isinstance(part, Runs):
                self._followed.keep()  # the buffers are emptied when this goes on
            yield part

    def _parts(self) -> Iterator[Any]:
        end = self.end
        end.first = at = self.segment
        while at < self.segment_end and end.fault == Fault.NONE:
            at, fault = yield from self._sound(at)
            if fault == Fault.BLANK:
                at = yield from self._blank(at)
            elif fault != Fault.NONE:
                at = yield from self._damaged(at, fault)
                if self._suspect and not self.walk.head and not self.before.given:
                    at = yield from self._strides(at)
        end.next = at
        yield from self.outputs.empty()
        yield from self.reporter.rest()
        yield end

    def _sound(self, at: int) -> Generator[Any, None, tuple[int, Fault]]:
        """Walk and dispatch as long as records are whole; returns (where that ends, the fault)."""
        for step in self.walk.marked(at, self.segment_end):
            rows, at, fault = step.rows, step.next, step.fault
            wrong = self._doubted(step.window, rows, step.wrong)
            if wrong is not None and wrong[-1] and not self.prover.ends_well(at):
                at, fault = step.start(-1), Fault(int(wrong[-1]))
                rows, wrong = rows[:-1], wrong[:-1]
            if len(rows) and fault not in (Fault.NONE, Fault.BLANK):
                end_fault = lost_its_end(step.window, rows, False)
                if end_fault != Fault.NONE and not self._ends_log(at, fault):
                    wrong = np.zeros(len(rows), np.uint8) if wrong is None else wrong
                    wrong[-1] = wrong[-1] or end_fault
            yield from self._rows(step.window, rows, wrong)
            if fault != Fault.NONE:
                return at, fault
        return at, Fault.NONE if at < self.segment_end else Fault.SHORT_TAIL

    def _ends_log(self, at: int, fault: Fault) -> bool:
        """Whether only zeros follow, as every log may end."""
        return fault == Fault.ZEROS and self.before.is_last and self._last_byte(at) < at

    def _doubted(self, window: Bytes, rows: Rows, wrong: Marks | None) -> Marks | None:
        """Each row's fault by its CRCs, or else by two other witnesses."""
        doubted = self._neighbours.contradictions(window, rows)
        if doubted is None or wrong is None:
            return wrong if doubted is None else doubted
        return np.where(wrong, wrong, doubted)

    def _doubt(self, at: int) -> Fault:
        """The fault for which a record that reaches past the window is not worth reading, or NONE.

        Without this, forged sizes could make the scan read the same megabytes again and again.
        """
        parts = self.prover.lengths(at)
        if parts is None:
            return Fault.LENGTHS
        if parts.place != at:
            return Fault.PLACE
        whole = self.prover.ends_well(at + parts.size) or self.prover.proves(at)
        return Fault.NONE if whole else Fault.BODY_CRC

    def _rows(self, window: Bytes, rows: Rows, wrong: Marks | None) -> Generator[Any, None, None]:
        """Dispatch rows, and report those that are stale, fail a CRC or are malformed."""
        wrong = np.zeros(len(rows), np.uint8) if wrong is None else wrong
        while len(rows):
            if self._suspect or self.before.given:
                stale = self.live.stale(window, rows)
                if stale:
                    yield from self._stale_range(rows[:stale])
                    rows, wrong = rows[stale:], wrong[stale:]
                    continue
                self._suspect = False
            # `__CRC32#` covers the whole record: nothing in it is sure. Nor is anything beside a
            # page of an older life: the record has fields of two lives.
            torn = wrong == Fault.PROPERTY_CRC
            if self.before.given:
                torn |= (wrong != Fault.NONE) & self.live.beside_stale(rows)
            unsure = np.flatnonzero(torn)
            most = int(unsure[0]) if len(unsure) else len(rows)
            if self.before.given:
                most = min(most, self.live.undoubted(rows))
            if most == 0:
                yield from self._row_range(DamageKind.DAMAGED, rows[0], Fault(int(wrong[0])))
                rows, wrong = rows[1:], wrong[1:]
                continue
            good, fault = yield from self.outputs.dispatch(window, rows[:most])
            for i in np.flatnonzero(wrong[:good]).tolist():
                yield from self._row_range(DamageKind.CONTENT, rows[i], Fault(int(wrong[i])))
            if good:
                self.live.took(rows[:good])
            if good < most:
                yield from self._row_range(DamageKind.DAMAGED, rows[good], fault)
                good += 1
            rows, wrong = rows[good:], wrong[good:]

    def _row_range(self, kind: DamageKind, row: Any, fault: Fault) -> Generator[Any, None, None]:
        """Report the range of one record, with its DLedger head if there is one."""
        place, size = int(row["physicalOffset"]), int(row["size"])
        at, end = place - self.walk.head, place + size
        yield from self.reporter.range(kind, at, end, fault, self._follows(end))

    def _strides(self, at: int) -> Generator[Any, None, int]:
        """Take records and ordinary ranges from the record at `at` on, thousands at a time.

        Returns the offset of what is not ordinary, which is left to the rest of this class. After
        a stop within a stride the next stride is short, so that little is walked twice.
        """
        while True:
            window = self.walk.load(at)
            rows = self._buffers.rows[: self._stride_rows]
            count = stride(
                window, len(window), self.segment_end - at, at, self.rules.records, rows,
                self._stride_faults, self._stride_values,
            )  # fmt: skip
            stops = count < len(rows)
            marks = self.walk.marks(window, rows[:count]) if count else None
            wrong = self._doubted(window, rows[:count], marks)
            count = max(count - _ASKED_FOR_THEIR_END, 0)
            wrong = wrong[:count] if wrong is not None else None
            taken, at = yield from self._take(at, window, rows[:count], wrong)
            if taken < count:
                self._stride_rows = _LEAST_STRIDE
            if taken < count or stops:
                return at
            self._stride_rows = min(4 * len(rows), len(self._buffers.rows))

    def _take(
        self, at: int, window: Bytes, rows: Rows, wrong: Marks | None
    ) -> Generator[Any, None, tuple[int, int]]:
        """Dispatch a stride's rows and report its ranges; returns (rows taken, the next offset).

        Stops at a row that may be stale, at a malformed one, and at one that fails a CRC and that
        no sound record follows at once.
        """
        faults, most = self._stride_faults, len(rows)
        if wrong is not None:
            alone = np.append(faults[1:most] != Fault.NONE, True)
            unsealed = wrong == Fault.PROPERTY_CRC
            ends = np.flatnonzero(unsealed | ((wrong != Fault.NONE) & alone))
            most = int(ends[0]) if len(ends) else most
        good = yield from self._dispatch_fresh(window, rows[:most])
        if good == 0:
            return 0, at
        self.live.took(rows[:good])
        yield from self.reporter.of_stride(
            rows[:good], self._stride_faults, self._stride_values, wrong
        )
        self._suspect = good < len(rows) and faults[good] != Fault.NONE
        if self._suspect:
            found = int(rows["physicalOffset"][good])
            fault = Fault(int(faults[good]))
            kind = DamageKind.STALE if fault == Fault.PLACE else DamageKind.DAMAGED
            yield from self.reporter.range(kind, self.live.end, found, fault, "record")
            return good, found
        return good, self.live.end

    def _dispatch_fresh(self, window: Bytes, rows: Rows) -> Generator[Any, None, int]:
        """Dispatch rows up to one that may be stale or is malformed; returns how many."""
        good, suspect, fault = 0, self._suspect, int(Fault.NEED_MORE)
        while fault == Fault.NEED_MORE and good < len(rows):
            last = self.end.last_timestamp if self.end.records else self.before.timestamp
            more, fault = dispatch_fresh(
                window, rows[good:], self._stride_faults[good:], suspect,
                NEVER if last is None else last, self._followed.look(), self.outputs.dispatching,
            )  # fmt: skip
            self.outputs.count(rows[good : good + more])
            good += more
            suspect = suspect and more == 0
            if fault == Fault.NEED_MORE:
                yield from self.outputs.make_room()
        return good

    def _stale_range(self, rows: Rows) -> Generator[Any, None, None]:
        start, last = int(rows["physicalOffset"][0]) - self.walk.head, rows[-1]
        end = min(int(last["physicalOffset"]) + int(last["size"]), self.live.stale_end)
        yield from self.reporter.range(
            DamageKind.STALE, start, end, Fault.NONE, self._follows(end), self.live.stale_by
        )

    def _blank(self, at: int) -> Generator[Any, None, int]:
        """A BLANK ends the segment, unless its size is wrong and a live record follows."""
        head = np.empty(BLANK.itemsize, np.uint8)
        self.read(at, head)
        layout = DLEDGER_BLANK_LAYOUT if self.walk.head else BLANK
        size, left = int(np.frombuffer(head, layout)[0]["size"]), self.segment_end - at
        if size != left:
            found = self._search(at + 1)
            following = found if found != NOT_FOUND else self.segment_end
            yield from self.reporter.range(
                DamageKind.DAMAGED, at, following, Fault.BLANK_SIZE,
                "record" if found != NOT_FOUND else "segment's end",
            )  # fmt: skip
            if found != NOT_FOUND:
                self._suspect = True
                return found
        self.end.fault = Fault.BLANK
        return self.segment_end

    def _damaged(self, at: int, fault: Fault) -> Generator[Any, None, int]:
        """Report the damage at `at`; returns where the scan goes on."""
        beneath = self._beneath_stale(at)
        if beneath < at:
            self._suspect = True
            return beneath
        self.prover.stand(at)
        if fault in HEAD_FAULTS and self.prover.proves(at):
            return (yield from self._with_wrong_head(at, fault))
        kind = DamageKind.DAMAGED
        found = NOT_FOUND
        parts = self.prover.lengths(at)
        if parts and fault in (Fault.BAD_MAGIC, Fault.PLACE, *CRC_FAULTS):
            if fault == Fault.PLACE:
                kind = DamageKind.STALE
            if self.prover.starts_surely(at + parts.size):
                found = at + parts.size  # the damage is one record; its body is not searched
        if found == NOT_FOUND:
            found = self._search(at + 1)
        if found != NOT_FOUND:
            self._suspect = True
            yield from self.reporter.range(kind, at, found, fault, self._follows(found))
            return found
        blank = self.prover.next_blank(at + 1)
        if blank != NOT_FOUND:
            yield from self.reporter.range(kind, at, blank, fault, "BLANK")
            return blank
        last = self._last_byte(at)
        if last >= at:
            zeros = last + 1 < self.segment_end
            yield from self.reporter.range(
                kind, at, last + 1, fault, "zeros" if zeros else "segment's end"
            )
        if last + 1 < self.segment_end:
            self.end.fault = Fault.ZEROS
            return max(last + 1, at)
        return self.segment_end

    def _beneath_stale(self, at: int) -> int:
        """Where a record begins that the stale record before `at` reaches into; else `at`.

        The last record of a page of an older life may go on in bytes of the later one.
        """
        end = self.live.stale_end
        found = self.prover.next_record(end) if self.live.end < end < at else NOT_FOUND
        return found if NOT_FOUND < found < at else at

    def _with_wrong_head(self, at: int, fault: Fault) -> Generator[Any, None, int]:
        """Dispatch the sound record at `at`, of which only a field of the DLedger head is wrong."""
        parts = self.prover.lengths(at)
        assert parts is not None
        alone = self.rules.records._replace(heads_from=NO_HEADS)
        place, end = at + self.walk.head, at + parts.size
        buffer = np.empty(end - place, np.uint8)
        for step in Walk(self.read, end, alone, self.rules.checks, buffer).marked(place, end):
            yield from self._rows(step.window, step.rows, step.wrong)
        yield from self.reporter.range(DamageKind.CONTENT, at, end, fault, self._follows(end))
        return end

    def _follows(self, end: int) -> str:
        """What stands at a range's end, for the report; what is nothing else counts as a record."""
        if end == self.segment_end:
            return "segment's end"
        if self.prover.is_blank(end):
            return "BLANK"
        return "record" if any(self.prover.bytes_at(end, BLANK_BYTES)) else "zeros"

    def _search(self, at: int) -> int:
        return self.prover.next_record(at) if self.reporter.count < self.most_ranges else NOT_FOUND

    def _last_byte(self, at: int) -> int:
        """The offset of the segment's last non-zero byte from `at` on; at - 1 if there is none."""
        last = at - 1
        for start, window in self.walk.windows(at, self.segment_end):
            written = np.flatnonzero(window)
            if len(written):
                last = start + int(written[-1])
        return last
