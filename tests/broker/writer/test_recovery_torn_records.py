"""A record that lost a sector: it is zeros from a sector's start to its end, and all behind it."""

import numpy as np
import pytest

from reput.broker.writer.recovery import first_torn, written_in_part
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.folder import Folder
from reput.store_format.log.records import RECORD_ROW, RecordRules
from reput.store_format.log.walk import Checks, Walk, most_rows
from tests.faults.memory_files import MemoryFiles
from tests.logs.encoder import Message, encode

START = 1_700_000_000_000
SEGMENT = 1 << 20  # the log's second segment
TOPIC, PROPERTIES = 91 - 2 + 10, 91 + 10 + 20  # where they begin: a body of 10 bytes, 20 of topic


def record(at: int, length: int = 40, **more: object) -> bytes:
    made = Message(b"t" * 20, body=b"b" * 10, properties=b"p" * length, store_timestamp=START)
    return encode(made, SEGMENT + at)


def torn(raw: bytes, at: int, durable: int = 0, behind: bytes = b"") -> int:
    """What is found in the records of `raw`, which is at offset `at` of its segment."""
    window = np.frombuffer(raw + behind.ljust(1024, b"\0"), np.uint8).copy()

    def read(place: int, buffer: np.ndarray) -> None:
        start = place - SEGMENT - at
        buffer[:] = window[start : start + len(buffer)]

    end = SEGMENT + at + len(raw)
    rows = np.zeros(most_rows(len(raw)), RECORD_ROW)
    walk = Walk(read, end, RecordRules(True, True), Checks(), np.empty(len(raw), np.uint8), rows)
    (step,) = walk.steps(SEGMENT + at, end)
    return first_torn(step.window, step.rows, SEGMENT, 2 * SEGMENT, durable, read)


def zeroed(raw: bytes, start: int, end: int | None = None) -> bytes:
    end = len(raw) if end is None else end
    return raw[:start] + bytes(end - start) + raw[end:]


def test_a_whole_record_is_not_torn() -> None:
    assert torn(record(0), 0) == 1
    assert torn(record(0, 0), 0) == 1
    two = record(0) + record(len(record(0)))
    assert torn(two, 0) == 2


@pytest.mark.parametrize("place", [TOPIC, TOPIC + 10, PROPERTIES, PROPERTIES + 7, PROPERTIES + 39])
@pytest.mark.parametrize("sector", [512, 512 * 7])
def test_zeros_from_a_sectors_start_to_its_end_show_it(place: int, sector: int) -> None:
    """The byte at `place` is the first one of a sector; nothing follows the record."""
    length = 0 if place < PROPERTIES else 40  # a lost topic has no properties behind it
    for moved, number in ((0, 0), (1, 1), (-1, 1)):
        at = sector - place + moved
        assert torn(zeroed(record(at, length), place), at) == number, moved
    raw = zeroed(record(sector - place, length), place)
    left = 512 - (len(raw) - place)  # bytes of the sector behind the record
    for gap, number in ((0, 1), (left - 1, 1), (left, 0)):
        assert torn(raw, sector - place, behind=bytes(gap) + b"\x01") == number, gap


def test_nuls_that_begin_before_a_sector_were_written_so() -> None:
    """As 5.2.0 leaves them after the properties of an LMQ message, or a producer may send them."""
    for nuls in range(2, 40):
        at = 512 - (PROPERTIES + 40) + nuls - 1  # all but the first are in the next sector
        assert torn(zeroed(record(at), PROPERTIES + 40 - nuls), at) == 1


@pytest.mark.parametrize("left", range(6))
def test_an_intact_record_behind_it_shows_that_no_sector_is_lost(left: int) -> None:
    """The first record ends so many bytes before its sector does, and its last sector is zeros."""
    at = 512 - PROPERTIES
    first = zeroed(record(at, 512 - left), PROPERTIES)
    two = first + record(at + len(first))
    # the upper three bytes of a totalSize are 0: such a sector may be lost
    assert torn(two, at) == (0 if left < 4 else 2)


def test_a_sector_within_the_properties_is_lost_whatever_follows() -> None:
    raw = record(0, 1600)
    assert torn(zeroed(raw, 512, 1024), 0, behind=b"next") == 0
    assert torn(zeroed(raw, 512, 1023), 0) == 1
    assert torn(zeroed(raw, 500, 1024), 0) == 1


def test_the_first_of_several_is_found_and_what_was_durable_is_not_looked_at() -> None:
    size = len(record(0, 1200))
    three = b"".join(record(size * n, 1200) for n in range(3))
    lost = [(size * n + 600) // 512 * 512 for n in (1, 2)]
    bad = zeroed(zeroed(three, lost[0], lost[0] + 512), lost[1], lost[1] + 512)
    assert torn(bad, 0) == 1
    assert torn(bad, 0, START) == 1
    assert torn(bad, 0, START + 1) == 3


@pytest.mark.parametrize(
    ("text", "partial"),
    [
        (b"a\1b\2", False), (b"a\1b\2" + bytes(20), True), (b"a\1b\0", True),
        (b"INNER_MULTI_DISPATCH\1%LMQ%u\2" + bytes(20), False),
        (b"INNER_MULTI_DISPATCH\1%LMQ%u\2" + bytes(19), True),
        (b"INNER_MULTI_DISPATCH\1%LMQ%u" + bytes(20), True),
    ],
)  # fmt: skip
def test_room_that_a_release_leaves_is_not_what_a_kill_left(text: bytes, partial: bool) -> None:
    """5.2.0 with enableLmq: crc32ReservedLength bytes that nobody writes (#8350)."""
    raw = np.frombuffer(encode(Message(b"t", properties=text), 0), np.uint8)
    rows = np.zeros(1, RECORD_ROW)
    buffer = np.empty(len(raw), np.uint8)

    def read(place: int, into: np.ndarray) -> None:
        into[:] = raw[place : place + len(into)]

    walk = Walk(read, len(raw), RecordRules(True, True), Checks(), buffer, rows)
    (step,) = walk.steps(0, len(raw))
    found = written_in_part(
        Folder(FilesRead(MemoryFiles()), ""), Checkpoint(), step.window, step.rows[0]
    )
    assert found is partial
