"""Finds the next record after damage that can be trusted, one that proves itself, and whether the
record before the damage has lost its own end.

A record proves itself if all of this holds: it has a magic number; its physicalOffset is where it
starts; its lengths add up to its size; its body matches bodyCRC; a `__CRC32#` property, if it has
one, matches; and where it ends a record or a BLANK begins, or nothing is written. If the bytes
after it are none of these, because they are damaged too, a CRC must cover it (of a body, or
`__CRC32#`). A record that proves itself may still be stale, left from before the log was cut;
`tolerant` decides that by what the log has before it.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.faults import Fault
from reput.store_format.kernels.crc import PrefixCrc, Read, shift
from reput.store_format.log import records
from reput.store_format.log.properties import CRC_PROPERTY_NAME

NOT_FOUND = -1
_WINDOW_BYTES = 1 << 20
_HEAD, _MIDDLE, _BLANK = (
    layouts.as_struct(layouts.RECORD_HEAD),
    layouts.as_struct(layouts.RECORD_MIDDLE),
    layouts.as_struct(layouts.BLANK),
)
_MAGIC, _PLACE = map((layouts.RECORD_HEAD.names or ()).index, ("magic", "physicalOffset"))
_HOST_FLAGS = layouts.SYS_BORN_HOST_V6 | layouts.SYS_STORE_HOST_V6
_CRC_START, _CRC_END = b"__CRC32#\x01", b"\x02"


class Parts(NamedTuple):
    """A record whose lengths add up to its size: where its body and properties are.

    In a DLedger log, size and place are with the head that stands before the record.
    """

    size: int
    magic: int
    place: int  # where the record starts by its physicalOffset
    body_crc: int
    body_at: int
    body_length: int
    properties_length: int
    store_timestamp: int


class Prover:
    """Looks for records in one segment, [start, end) of the log, without trusting any length.

    read: fills a buffer from a physical offset. start: may be in the middle of the segment.
    As long as each search starts after the one before, each byte is read a bounded number of times,
    however many offsets look like records.
    """

    def __init__(self, read: Read, start: int, end: int, rules: records.RecordRules) -> None:
        self._read, self._end, self._rules = read, end, rules
        self._start = start
        self.head: int = records.head_bytes(end, rules)  # bytes before each record
        self._first_bytes = self.head + layouts.RECORD_HEAD_BYTES  # enough to tell a record
        self._window = np.empty(0, np.uint8)
        self._window_at = 0
        self._crcs: PrefixCrc | None = None
        flags = (0, layouts.SYS_BORN_HOST_V6, layouts.SYS_STORE_HOST_V6, _HOST_FLAGS)
        # A damaged segment may ask a million times, and to call a kernel from Python costs more
        # than this little arithmetic: so the results are kept.
        self._prefixes = {each: int(records.prefix_bytes(each, rules)) for each in flags}
        self._stored = {each: int(records.store_timestamp_at(each, rules)) for each in flags}
        self._topic_bytes = {
            m: int(records.topic_length_bytes(m)) for m in (layouts.MAGIC_V1, layouts.MAGIC_V2)
        }
        self._magics = (
            (layouts.MAGIC_V1, layouts.MAGIC_V2) if rules.long_topics else (layouts.MAGIC_V1,)
        )

    @property
    def hashed(self) -> int:
        """Bytes put through CRC-32 so far."""
        return self._crcs.hashed if self._crcs else 0

    def stand(self, at: int) -> None:
        """Load the bytes at `at`, so that a scan going forward reads each byte once."""
        if self._end - at >= self._first_bytes:
            self._load(at)

    def next_record(self, at: int) -> int:
        """The first offset from `at` on of a record that proves itself, or NOT_FOUND."""
        return self._next(at, self.proves)

    def next_sound(self, at: int, check_body: bool) -> int:
        """The first offset from `at` on of a record that a walk would accept, or NOT_FOUND."""

        def sound(place: int) -> bool:
            parts = self.lengths(place)
            return parts is not None and (not check_body or self._has_body(parts))

        return self._next(at, sound)

    def _next(self, at: int, takes: Callable[[int], bool]) -> int:
        while at + self._first_bytes <= self._end:
            window = self._load(at)
            found = int(records.find_record(window, 0, len(window), at, self._rules))
            if found < 0:
                at += len(window) - self._first_bytes + 1
                continue
            at += found
            if takes(at):
                return at
            at += 1
        return NOT_FOUND

    def next_blank(self, at: int) -> int:
        """The first offset from `at` on of a BLANK as long as the segment's rest, or NOT_FOUND."""
        of_head = self.head > 0
        magic = (layouts.DLEDGER_BLANK if of_head else layouts.MAGIC_BLANK).to_bytes(
            4, "big", signed=True
        )
        before, size_at = (0, 4) if of_head else (4, -4)  # which of the two numbers comes first
        while at + layouts.BLANK_BYTES <= self._end:
            raw = self._load(at).tobytes()
            found = raw.find(magic, before)
            while found >= 0:
                place, size = at + found - before, raw[found + size_at : found + size_at + 4]
                if len(size) == 4 and int.from_bytes(size, "big") == self._end - place:
                    return place
                found = raw.find(magic, found + 1)
            at += len(raw) - layouts.BLANK_BYTES + 1
        return NOT_FOUND

    def proves(self, at: int) -> bool:
        """Whether a record stands at `at` that proves itself."""
        parts = self.lengths(at)
        if parts is None or parts.magic not in self._magics or parts.place != at:
            return False
        chained = self.ends_well(at + parts.size)
        sealed = self._crc_of_all(at, parts)
        if sealed is False or not (chained or sealed or parts.body_length):
            return False
        return self._has_body(parts)

    def _has_body(self, parts: Parts) -> bool:
        body = parts.body_at, parts.body_at + parts.body_length
        return not parts.body_length or self._crc(*body) == parts.body_crc

    def lengths(self, at: int) -> Parts | None:
        """The parts of the record at `at` if its lengths add up, whatever its physicalOffset."""
        start, at = at, at + self.head
        head = self._peek(at, layouts.RECORD_PREFIX_MAX).tobytes()
        if len(head) < layouts.RECORD_FIXED_BYTES:
            return None
        size, magic, crc, _, _, _, place, flags, _ = _HEAD.unpack_from(head)
        prefix = self._prefixes[flags & _HOST_FLAGS]
        topic_bytes = self._topic_bytes.get(magic, self._topic_bytes[layouts.MAGIC_V1])
        least = prefix + topic_bytes + layouts.PROPERTIES_LENGTH
        if not least <= size <= self._end - at or prefix > len(head):
            return None
        *_, body = _MIDDLE.unpack_from(head, prefix - _MIDDLE.size)
        body = max(body, 0)
        left = size - least - body
        if left < 0:
            return None
        topic = _signed(self._peek(at + prefix + body, topic_bytes).tobytes())
        if not 0 <= topic <= left:
            return None
        after_topic = at + prefix + body + topic_bytes + topic
        properties = max(_signed(self._peek(after_topic, layouts.PROPERTIES_LENGTH).tobytes()), 0)
        if properties != left - topic:
            return None
        stored = self._stored[flags & _HOST_FLAGS]
        timestamp = _signed(head[stored : stored + layouts.TIMESTAMP_BYTES])
        return Parts(
            at + size - start, magic, place - self.head, crc, at + prefix, body, properties,
            timestamp,
        )  # fmt: skip

    def ends_well(self, at: int) -> bool:
        """Whether a record, a BLANK, zeros or the segment's end are at `at`."""
        if at == self._end:
            return True
        head = self._peek(at, layouts.RECORD_HEAD_BYTES)
        if len(head) < layouts.BLANK_BYTES:
            return False
        if not head[: layouts.BLANK_BYTES].any() or self.starts_surely(at):
            return True
        if self.head:
            entry = self._fields(at, layouts.DLEDGER_HEAD)
            return bool(entry["magic"] == layouts.DLEDGER_NORMAL or entry["pos"] == at)
        first = self._fields(at, layouts.RECORD_HEAD)
        whole = len(head) == layouts.RECORD_HEAD_BYTES
        return first["magic"] in self._magics or (whole and int(first["physicalOffset"]) == at)

    def starts_surely(self, at: int) -> bool:
        """Whether a magic number and the right physicalOffset, or a fitting BLANK, is at `at`."""
        if self.is_blank(at):
            return True
        if self.head:
            entry = self._fields(at, layouts.DLEDGER_HEAD)
            return bool(entry["magic"] == layouts.DLEDGER_NORMAL and entry["pos"] == at)
        head = self._peek(at, layouts.RECORD_HEAD_BYTES).tobytes()
        if len(head) < layouts.RECORD_HEAD_BYTES:
            return False
        fields = _HEAD.unpack(head)
        return fields[_MAGIC] in self._magics and fields[_PLACE] == at

    def is_blank(self, at: int) -> bool:
        """Whether a BLANK as long as the segment's rest is at `at`."""
        head = self._peek(at, layouts.BLANK_BYTES).tobytes()
        if len(head) < layouts.BLANK_BYTES:
            return False
        size, magic = _BLANK.unpack(head)
        if self.head:
            # the other way round
            return bool(size == layouts.DLEDGER_BLANK and magic == self._end - at)
        return bool(magic == layouts.MAGIC_BLANK and size == self._end - at)

    def _fields(self, at: int, layout: np.dtype[Any]) -> Any:
        """The fields of a head at `at`; what is past the segment's end reads as zeros."""
        raw = self._peek(at, layout.itemsize).tobytes()
        return np.frombuffer(raw.ljust(layout.itemsize, b"\0"), layout)[0]

    def frame(self, at: int) -> int:
        """Where the broken record ends that surely begins at `at`, by its totalSize; -1 for none.

        -1 too if by its other lengths it ends where a record surely starts: totalSize is wrong.
        """
        if not self.starts_surely(at) or self.is_blank(at):
            return NOT_FOUND
        start = at + self.head
        head = self._peek(start, layouts.RECORD_PREFIX_MAX).tobytes()
        size, magic, _, _, _, _, _, flags, _ = _HEAD.unpack_from(head)
        prefix = self._prefixes[flags & _HOST_FLAGS]
        if not layouts.RECORD_FIXED_BYTES <= size <= self._end - start or prefix > len(head):
            return NOT_FOUND
        after = start + prefix + max(_MIDDLE.unpack_from(head, prefix - _MIDDLE.size)[-1], 0)
        for length in (self._topic_bytes[magic], layouts.PROPERTIES_LENGTH):
            after += length + max(_signed(self._peek(after, length).tobytes()), 0)
        return NOT_FOUND if after < start + size and self.starts_surely(after) else start + size

    def property_crc(self, at: int, parts: Parts) -> bool | None:
        """Whether a `__CRC32#` at the record's end is right; None where there is none."""
        return self._crc_of_all(at, parts)

    def bytes_at(self, at: int, length: int) -> bytes:
        """At most `length` bytes: fewer where the segment ends."""
        return self._peek(at, length).tobytes()

    def crc_of(self, at: int, end: int) -> int:
        """CRC-32 of the bytes at [at, end) without its highest bit, as RocketMQ stores it."""
        return self._crc(at, end)

    def crc_of_changed(self, at: int, end: int, head: bytes) -> int:
        """The CRC-32 of [at, end) with `head` in place of the first bytes, without its top bit."""
        rest = PrefixCrc(self._read, self._start, self._end) if self._crcs is None else self._crcs
        self._crcs = rest
        length = end - at - len(head)
        return (shift(zlib.crc32(head), length) ^ rest.crc(end - length, end)) & 0x7FFFFFFF

    def _crc_of_all(self, at: int, parts: Parts) -> bool | None:
        if parts.properties_length < layouts.CRC_PROPERTY_BYTES:
            return None
        end = at + parts.size - layouts.CRC_PROPERTY_BYTES
        at += self.head
        raw = self._peek(end, layouts.CRC_PROPERTY_BYTES).tobytes()
        if not (raw.startswith(_CRC_START) and raw.endswith(_CRC_END)):
            return None
        digits = raw[len(_CRC_START) : -len(_CRC_END)][::-1]
        return digits.isdigit() and int(digits) == self._crc(at, end)

    def _crc(self, at: int, end: int) -> int:
        if self._crcs is None:
            self._crcs = PrefixCrc(self._read, self._start, self._end)
        return self._crcs.crc(at, end) & 0x7FFFFFFF

    def _load(self, at: int) -> records.Bytes:
        """Bytes from `at` on: at least a record's first fields, unless the segment ends."""
        within = at - self._window_at
        wanted = min(self._first_bytes, self._end - at)
        if not 0 <= within <= len(self._window) - wanted:
            self._window = np.empty(min(_WINDOW_BYTES, self._end - at), np.uint8)
            self._read(at, self._window)
            self._window_at, within = at, 0
        return self._window[within:]

    def _peek(self, at: int, length: int) -> records.Bytes:
        """At most `length` bytes at `at`: fewer where the segment ends."""
        within, length = at - self._window_at, max(min(length, self._end - at), 0)
        if within >= 0 and within + length <= len(self._window):
            return self._window[within : within + length]
        buffer = np.empty(length, np.uint8)
        if length:
            self._read(at, buffer)
        return buffer


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


# ---
# Has the record right before damage lost its own end? Its lengths and its body do not tell.
#
# A page that was never written, or was overwritten, seldom ends where a record does: the last
# properties of the record before it are gone then, and with them a `__CRC32#`.

_SEPARATORS = b"\x01\x02"
_CONTROL = bytes(range(0x20))


def lost_its_end(window: records.Bytes, rows: records.Rows, ends_log: bool) -> Fault:
    """The fault of the last record, after which damage begins; NONE where the record is whole.

    ends_log: only zeros follow, as after every log's end. A torn record ends in zeros itself.
    PROPERTY_CRC: the record before has a `__CRC32#`, and the last record has none.
    TEXT: the properties hold a control character, or bytes that are no UTF-8.
    """
    text = _properties(window, rows[-1])
    if ends_log:
        return Fault.TEXT if text.endswith(b"\0") else Fault.NONE
    if len(rows) > 1 and not _is_sealed(text) and _is_sealed(_properties(window, rows[-2])):
        return Fault.PROPERTY_CRC
    try:
        text.decode()
    except UnicodeDecodeError:
        return Fault.TEXT
    plain = text.translate(None, _SEPARATORS)
    return Fault.TEXT if len(plain.translate(None, _CONTROL)) < len(plain) else Fault.NONE


def _properties(window: records.Bytes, row: Any) -> bytes:
    at = int(row["propertiesAt"])
    return window[at : at + int(row["propertiesLength"])].tobytes()


def _is_sealed(properties: bytes) -> bool:
    return CRC_PROPERTY_NAME in properties[-layouts.CRC_PROPERTY_BYTES :]
