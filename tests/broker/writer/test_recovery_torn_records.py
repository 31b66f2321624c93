"""A record that lost a sector: a NUL where a sector, the topic or the properties end."""

import numpy as np
import pytest

from reput.broker.writer.recovery import first_torn
from reput.store_format.log.records import RECORD_ROW, RecordRules
from reput.store_format.log.walk import Checks, Walk, most_rows
from tests.logs.encoder import Message, encode

START = 1_700_000_000_000
SEGMENT = 1 << 20  # the log's second segment
TOPIC, PROPERTIES = 91 - 2 + 10, 91 + 10 + 20  # where they begin: a body of 10 bytes, 20 of topic


def record(at: int, length: int = 40, **more: object) -> bytes:
    made = Message(b"t" * 20, body=b"b" * 10, properties=b"p" * length, store_timestamp=START)
    return encode(made, SEGMENT + at)


def torn(raw: bytes, at: int, durable: int = 0) -> int:
    """What is found in the records of `raw`, which is at offset `at` of its segment."""
    window = np.frombuffer(raw, np.uint8).copy()

    def read(place: int, buffer: np.ndarray) -> None:
        start = place - SEGMENT - at
        buffer[:] = window[start : start + len(buffer)]

    end = SEGMENT + at + len(raw)
    rows = np.zeros(most_rows(len(raw)), RECORD_ROW)
    walk = Walk(read, end, RecordRules(True, True), Checks(), np.empty(len(raw), np.uint8), rows)
    (step,) = walk.steps(SEGMENT + at, end)
    return int(first_torn(step.window, step.rows, SEGMENT, durable))


def zeroed(raw: bytes, *places: int) -> bytes:
    return bytes(0 if n in places else byte for n, byte in enumerate(raw))


def test_a_whole_record_is_not_torn() -> None:
    assert torn(record(0), 0) == 1
    assert torn(record(0, 0), 0) == 1
    two = record(0) + record(len(record(0)))
    assert torn(two, 0) == 2


@pytest.mark.parametrize(
    ("place", "number"),
    [
        (TOPIC + 19, 0),  # the topic's last byte
        (TOPIC + 5, 1),  # inside it, where no sector ends
        (PROPERTIES + 39, 0), (PROPERTIES + 38, 1), (PROPERTIES, 1),
        (90, 1),  # the body has a CRC
    ],
)  # fmt: skip
def test_a_nul_shows_it_at_the_end_of_topic_or_properties(place: int, number: int) -> None:
    assert torn(zeroed(record(0), place), 0) == number


@pytest.mark.parametrize(
    ("place", "number"),
    [(TOPIC + 5, 0), (PROPERTIES + 7, 0), (PROPERTIES - 2, 1), (95, 1)],
)
@pytest.mark.parametrize("sector", [512, 512 * 7])
def test_a_nul_shows_it_where_a_sector_ends_within_them(
    place: int, number: int, sector: int
) -> None:
    """The byte at `place` is the last one of a sector; a length's bytes may be 0."""
    at = sector - 1 - place
    assert torn(zeroed(record(at), place), at) == number
    assert torn(zeroed(record(at - 1), place), at - 1) == 1  # the sector ends a byte later


def test_the_first_of_several_is_found_and_what_was_durable_is_not_looked_at() -> None:
    size = len(record(0))
    three = b"".join(record(size * n) for n in range(3))
    bad = zeroed(three, 2 * size - 1, 3 * size - 1)
    assert torn(bad, 0) == 1
    assert torn(bad, 0, START) == 1
    assert torn(bad, 0, START + 1) == 3
