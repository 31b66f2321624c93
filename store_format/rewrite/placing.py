"""Records at new places in a new log: which place each gets, the order of several logs, the changed
bytes, and which records an earlier store has too.
"""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.files.protocol import InputStorage, Reader
from reput.store_format.kernels.bytes import (
    copy_bytes,
    get_i32,
    get_i64,
    put_i32,
    put_i64,
    same_bytes,
)
from reput.store_format.kernels.jit import inlined, kernel, unlocked
from reput.store_format.layouts import (
    BLANK_BYTES,
    CRC_PROPERTY_BYTES,
    IPV6_HOST,
    MAGIC_V1,
    MAGIC_V2,
    MIDDLE_AT,
    PROPERTIES_LENGTH,
    PROPERTY_END,
    PROPERTY_NAME_END,
    RECORD_AT,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE_BYTES,
    SYS_STORE_HOST_V6,
)
from reput.store_format.log.properties import CRC_PROPERTY_NAME
from reput.store_format.log.records import Bytes, Rows, needs_v2
from reput.store_format.log.segments import Segment
from reput.store_format.message.bulk import put_crc_property
from reput.store_format.rewrite.numbers import put_digits
from reput.store_format.rewrite.selection import store_host_bytes

# ---
# Where the records of a new log stand (CommitLog.DefaultAppendMessageCallback.doAppend).

Numbers = npt.NDArray[np.int64]


@kernel
def place(
    sizes: npt.NDArray[np.uint32], at: int, segment_bytes: int, places: Numbers, begins: Numbers
) -> tuple[int, int]:
    """Place records of these sizes (bytes), one after the other, from `at` on.

    A record stands whole in a segment, with room for a BLANK after it; else the next segment
    begins with it. Fills places (int64) and begins with the indices of the records that begin a
    segment. Returns (where the last record ends, how many begin a segment).
    """
    count = 0
    for i in range(len(sizes)):
        size: int = np.int64(sizes[i])  # type: ignore[assignment]
        left = segment_bytes - at % segment_bytes
        if size + BLANK_BYTES > left:
            at += left
        if at % segment_bytes == 0:
            begins[count] = i
            count += 1
        places[i] = at
        at += size
    return at, count


# ---
# The order of the records of several logs in one: by store time, each log's order kept.

EXHAUSTED, BEGINS = 0, 1  # why `interleave` stopped


@kernel
def interleave(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    times: Numbers, sizes: Numbers, stops: Numbers, queues: Numbers, messages: Numbers,
    cursors: Numbers, ends: Numbers, following: Numbers, at: int, segment_bytes: int, begun: bool,
    places: Numbers, numbers: Numbers,
) -> tuple[int, int]:  # fmt: skip
    """Place the next records of several logs, whose records stand one log after the other in
    times, sizes and stops, and their puts in queues and messages.

    times: milliseconds, never falling within a log; stops: where each record's puts end, those of
    the next one begin; queues: the index of a put's queue in `following`, -1 where it keeps its
    queueOffset; messages: how many positions it has; cursors, ends: the indices of each log's next
    record and of the end of its records; cursors and following are advanced. Of equal times the
    first log's record comes first. begun: the segment at `at` is known to the caller.

    Fills places, and numbers for each put, and stops where a log has no record left (EXHAUSTED) or
    before a record that begins a segment (BEGINS). Returns (why it stopped, the new log's end so
    far).
    """
    while True:
        first = -1
        for log in range(len(cursors)):
            if cursors[log] == ends[log]:
                if ends[log] >= 0:
                    return EXHAUSTED, at
            elif first < 0 or times[cursors[log]] < times[cursors[first]]:
                first = log
        if first < 0:
            return EXHAUSTED, at
        i = cursors[first]
        left = segment_bytes - at % segment_bytes
        if sizes[i] + BLANK_BYTES > left:
            at += left
        if at % segment_bytes == 0 and not begun:
            return BEGINS, at
        begun = False
        places[i] = at
        for put in range(stops[i - 1] if i else 0, stops[i]):
            numbers[put] = -1
            if queues[put] >= 0:
                numbers[put] = following[queues[put]]
                following[queues[put]] += messages[put]
        at += sizes[i]
        cursors[first] += 1


# ---
# Kernels that write records at new places, as they are or changed.
#
# A record's physicalOffset and preparedTransactionOffset become those of the new places; a
# `__CRC32#` at its end is made anew, as it covers these fields
# (CommitLog.DefaultAppendMessageCallback).

# What differs from record to record: its new place, queueOffset and preparedTransactionOffset, and
# where the new queueOffsets of its puts begin in numbers (-1: it stays), which are only looked at
# where they stand in properties.
To = namedtuple("To", "places queue_offsets prepared firsts numbers")
# What all records have in common: what was decided for names, the new names, the storeHost (empty:
# as it was), whether hosts may be of IPv6, and Changes.digits.
Alike = namedtuple("Alike", "decided names host ipv6_hosts digits")

_CRC_NAME = np.frombuffer(CRC_PROPERTY_NAME, np.uint8)

_needs_v2 = inlined(needs_v2)


@kernel
def prepared_offsets(buf: Bytes, rows: Rows, prepared: Numbers) -> int:
    """Fill in each record's preparedTransactionOffset; returns how many are not 0."""
    count = 0
    for i in range(len(rows)):
        at = rows[i].bodyAt - RECORD_MIDDLE_BYTES + MIDDLE_AT.preparedTransactionOffset
        prepared[i] = get_i64(buf, at)
        count += prepared[i] != 0
    return count


@kernel
def _copy(out: Bytes, at: int, source: Bytes, start: int, end: int) -> int:
    copy_bytes(out, at, source, start, end - start)
    return at + end - start


@kernel
def ends_in_crc(buf: Bytes, at: int, end: int) -> bool:
    """Whether properties at buf[at:end] end in a `__CRC32#` as RocketMQ appends it."""
    start = end - CRC_PROPERTY_BYTES
    name_end = start + len(_CRC_NAME)
    return (
        start >= at
        and buf[end - 1] == PROPERTY_END
        and buf[name_end] == PROPERTY_NAME_END
        and same_bytes(buf, start, _CRC_NAME, 0, len(_CRC_NAME))
    )


@unlocked
def stamp(out: Bytes, base: int, rows: Rows, places: Numbers, prepared: Numbers) -> None:
    """Put the new places into records that were copied to `out`, which begins at the place `base`.

    prepared: the new preparedTransactionOffsets; empty where none changes.
    """
    for i in range(len(rows)):
        row = rows[i]
        at = places[i] - base
        put_i64(out, at + RECORD_AT.physicalOffset, places[i])
        if len(prepared):
            middle = at + row.bodyAt - row.at - RECORD_MIDDLE_BYTES
            put_i64(out, middle + MIDDLE_AT.preparedTransactionOffset, prepared[i])
        end = at + row.size
        if ends_in_crc(out, end - row.propertiesLength, end):
            put_crc_property(out, at, end - CRC_PROPERTY_BYTES)


@kernel
def copy_rows(buf: Bytes, rows: Rows, places: Numbers, out: Bytes, base: int) -> None:
    """Copy records as they are to their new places."""
    for i in range(len(rows)):
        _copy(out, places[i] - base, buf, rows[i].at, rows[i].at + rows[i].size)


@kernel
def _properties(
    buf: Bytes, rows: Rows, i: int, selection: Any, to: Any, alike: Any, out: Any
) -> None:
    """Copy the properties of row i to `out`, with the new names of topics and the new numbers."""
    spans, positions, row, at = selection.spans, selection.positions, rows[i], 0
    done, end = row.propertiesAt, row.propertiesAt + row.propertiesLength
    first, stop = 0, 0
    if alike.digits:
        first, stop = positions.firsts[i], positions.stops[i]
    while True:
        name = put = -1  # which stands first after what is done
        begin = end
        for k in range(selection.named.shape[1]):
            if selection.named[i, k] >= 0 and done <= spans[i, k, 0] < begin:
                name, begin = k, spans[i, k, 0]
        for n in range(first, stop):
            if done <= positions.texts[n, 0] < begin:
                put, begin = n, positions.texts[n, 0]
        if put >= 0:
            at = _copy(out, at, buf, done, begin)
            number = to.numbers[to.firsts[i] + put - first]
            if number < 0:
                number = positions.puts[put].queueOffset
            at = put_digits(out, at, number, alike.digits)
            done = positions.texts[put, 1]
        elif name >= 0:
            decision = alike.decided[selection.named[i, name]]
            length = decision.nameEnd - decision.nameAt
            at = _copy(out, at, buf, done, begin if length else spans[i, name, 1])
            if length:
                at = _copy(out, at, alike.names, decision.nameAt, decision.nameEnd)
            done = spans[i, name, 1]
        else:
            break
    _copy(out, at, buf, done, end)


@unlocked
def rewrite(
    buf: Bytes, rows: Rows, selection: Any, to: Any, alike: Any, out: Bytes, base: int
) -> None:
    """Write records anew at their places, with all their changes.

    selection: what a RecordSelector gave for these rows; to: a To of arrays, a value a row; alike:
    an Alike.
    """
    host = alike.host
    for i in range(len(rows)):
        row = rows[i]
        decision = alike.decided[selection.numbers[i]]
        start = at = to.places[i] - base
        _copy(out, at, buf, row.at, row.at + RECORD_HEAD_BYTES)
        length = decision.nameEnd - decision.nameAt
        two = get_i32(buf, row.at + RECORD_AT.magic) == MAGIC_V2
        if length:
            two = _needs_v2(length)
        put_i32(out, at + RECORD_AT.totalSize, selection.sizes[i])
        put_i32(out, at + RECORD_AT.magic, MAGIC_V2 if two else MAGIC_V1)
        put_i32(out, at + RECORD_AT.queueId, row.queueId + decision.queueShift)
        put_i64(out, at + RECORD_AT.queueOffset, to.queue_offsets[i])
        put_i64(out, at + RECORD_AT.physicalOffset, to.places[i])
        middle = row.bodyAt - RECORD_MIDDLE_BYTES
        host_at = middle - store_host_bytes(row.sysFlag, alike.ipv6_hosts)
        at = _copy(out, at + RECORD_HEAD_BYTES, buf, row.at + RECORD_HEAD_BYTES, host_at)
        if len(host):
            flag = row.sysFlag & ~SYS_STORE_HOST_V6
            if len(host) == IPV6_HOST:
                flag |= SYS_STORE_HOST_V6
            put_i32(out, start + RECORD_AT.sysFlag, flag)
            at = _copy(out, at, host, 0, len(host))
        else:
            at = _copy(out, at, buf, host_at, middle)
        put_middle = at
        at = _copy(out, at, buf, middle, row.bodyAt + row.bodyLength)
        put_i64(out, put_middle + MIDDLE_AT.preparedTransactionOffset, to.prepared[i])
        topic_bytes = length if length else row.topicLength
        if two:
            out[at], out[at + 1] = topic_bytes >> 8, topic_bytes & 0xFF
            at += 2
        else:
            out[at] = topic_bytes
            at += 1
        if length:
            at = _copy(out, at, alike.names, decision.nameAt, decision.nameEnd)
        else:
            at = _copy(out, at, buf, row.topicAt, row.topicAt + topic_bytes)
        properties_bytes = start + selection.sizes[i] - at - PROPERTIES_LENGTH
        out[at], out[at + 1] = properties_bytes >> 8, properties_bytes & 0xFF
        at += PROPERTIES_LENGTH
        if len(selection.named):
            _properties(buf, rows, i, selection, to, alike, out[at:])
        else:
            _copy(out, at, buf, row.propertiesAt, row.propertiesAt + row.propertiesLength)
        end = start + selection.sizes[i]
        if ends_in_crc(out, at, end):
            put_crc_property(out, start, end - CRC_PROPERTY_BYTES)


# ---
# Which records of a log an earlier store has too: the same bytes at the same physical offset.
#
# A master and the slave that took over from it share their log up to where the two logs part
# (`reput compare`). What an earlier store has after the end of its own log, such as a stale tail,
# does not count, as nothing of it is taken.

Marks = npt.NDArray[np.bool_]


class EarlierLog(NamedTuple):
    """A log whose records are taken. end: of its records, a physical offset."""

    storage: InputStorage
    segments: tuple[Segment, ...]
    end: int


@kernel
def _mark_alike(buf: Bytes, rows: Rows, other: Bytes, base: int, marks: Marks) -> None:
    """Mark rows whose bytes are also in `other`, which begins at the place `base`."""
    for i in range(len(rows)):
        row = rows[i]
        marks[i] |= same_bytes(buf, row.at, other, row.physicalOffset - base, row.size)


class SharedRecords:
    """Compares a walk's records with earlier logs; holds one open file, and a window of it."""

    def __init__(self, logs: tuple[EarlierLog, ...]) -> None:
        self._logs = logs
        self._open: dict[str, Reader] = {}
        self._buffer: Bytes = np.empty(0, np.uint8)

    def of(self, window: Bytes, rows: Rows) -> Marks:
        """For each row whether an earlier log has it too."""
        marks = np.zeros(len(rows), np.bool_)
        if not self._logs or not len(rows):
            return marks
        places = rows["physicalOffset"]
        ends = places + rows["size"]
        for log in self._logs:
            for segment in log.segments:
                if segment.end <= places[0] or ends[-1] <= segment.start:
                    continue
                within = (places >= segment.start) & (ends <= min(segment.end, log.end))
                if np.count_nonzero(within):
                    some = np.flatnonzero(within)
                    first, stop = int(some[0]), int(some[-1]) + 1  # they are in order
                    self._compare(log, segment, window, rows[first:stop], marks[first:stop])
        return marks

    def _compare(
        self, log: EarlierLog, segment: Segment, window: Bytes, rows: Rows, marks: Marks
    ) -> None:
        base = int(rows["physicalOffset"][0])
        if rows["bodyElided"][0]:  # it is the only row, and its body's CRC was compared
            head, size = int(rows["bodyAt"][0]), int(rows["size"][0])
            around = self._read(log, segment, base, head).copy()
            rest = len(window) - head
            around = np.concatenate((around, self._read(log, segment, base + size - rest, rest)))
            marks[0] |= np.array_equal(around, window)
            return
        length = int(rows["physicalOffset"][-1] + rows["size"][-1]) - base
        _mark_alike(window, rows, self._read(log, segment, base, length), base, marks)

    def _read(self, log: EarlierLog, segment: Segment, at: int, length: int) -> Bytes:
        reader = self._open.get(segment.path)
        if reader is None:
            self.close()
            reader = self._open[segment.path] = log.storage.open(segment.path, segment.state)
        if len(self._buffer) < length:
            self._buffer = np.empty(length, np.uint8)
        found = self._buffer[:length]
        reader.read_into(at - segment.start, found)
        return found

    def close(self) -> None:
        """Close the file that is open, if any."""
        while self._open:
            self._open.popitem()[1].close()
