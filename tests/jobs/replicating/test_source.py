"""A log that is copied: the pace, its segments up to the first hole, and pieces up to a limit."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reput.jobs.replicating import source
from reput.store_format.faults import Fault, StoreError
from reput.store_format.log.records import RecordRules
from reput.store_format.log.rules import Checks
from tests.logs.encoder import Message, build_log
from tests.memory_storage import MemoryStorage


class Seconds:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_copy_waits_until_its_bytes_are_due() -> None:
    clock = Seconds()
    pace = source.RateLimit(100.0, clock)
    assert pace.wait_for(50) == 0.5
    clock.now += 0.5
    assert pace.wait_for(0) == 0.0
    assert pace.wait_for(200) == 2.0  # 250 bytes take 2.5 seconds, of which 0.5 are gone
    clock = Seconds()
    pace = source.RateLimit(100.0, clock)
    clock.now += 1.0
    assert pace.wait_for(100) == 0.0
    assert pace.wait_for(100) == 1.0
    clock.now += 60.0
    assert pace.wait_for(100) == 0.0  # the pause is over: counted anew
    assert pace.wait_for(100) == 1.0
    assert source.RateLimit(None, Seconds()).wait_for(1 << 40) == 0.0


SEGMENT, SIZE, T0 = 2048, 192, 1_700_000_000_000  # SIZE: 91, a topic of 1, a body of 100
RULES = RecordRules(True, True)


def source_log_of(count: int, start: int = 0) -> dict[int, bytes]:
    """Ten records of 192 bytes are in a segment, and a BLANK of 128."""
    messages = [
        Message(queue_offset=n, body=b"x" * 100, store_timestamp=T0 + n) for n in range(count)
    ]
    return build_log(messages, SEGMENT, start)


def source_of(segments: dict[int, bytes]) -> source.SourceLog:
    files = {f"s/commitlog/{start:020d}": raw for start, raw in segments.items()}
    return source.SourceLog(MemoryStorage(files), ["s/commitlog"], SEGMENT)


def read_all(
    there: source.SourceLog, wanted: source.LogLimit = source.ALL_WANTED, start: int = 0
) -> tuple[Any, ...]:
    """(the bytes, where their records end, how many, the fault) of all pieces."""
    raw, whole, records, fault = b"", start, 0, Fault.NONE
    for piece in source.pieces(there, start, wanted, RULES, Checks(body=True)):
        assert piece.at == start + len(raw)
        raw += piece.data.tobytes()
        whole, records, fault = max(whole, piece.whole), records + piece.records, piece.fault
    return raw, whole, records, fault


def test_the_log_ends_at_the_first_hole_or_short_segment() -> None:
    whole = {start: bytes(SEGMENT) for start in (2048, 4096, 8192)}
    there = source_of(whole)
    assert (there.start, there.stop, sorted(there.segments)) == (2048, 6144, [2048, 4096])
    assert [each.start for each in there.behind] == [8192]
    short = source_of({0: bytes(SEGMENT), 2048: bytes(100), 4096: bytes(SEGMENT)})
    assert (short.stop, sorted(short.segments)) == (2148, [0, 2048])
    with pytest.raises(StoreError, match="2049 bytes, but mappedFileSizeCommitLog is 2048"):
        source_of({0: bytes(SEGMENT + 1)})
    with pytest.raises(StoreError, match="no segments"):
        source.SourceLog(MemoryStorage({"s/commitlog/readme": b""}), ["s/commitlog"], SEGMENT)


def test_past_a_short_segments_end_zeros_are_read_and_before_the_log_nothing() -> None:
    there, buffer = source_of({2048: b"\7" * 100}), np.full(6, 9, np.uint8)
    there.read(2048 + 97, buffer)
    assert buffer.tolist() == [7, 7, 7, 0, 0, 0]
    with pytest.raises(
        source.SourceCleaned, match="has nothing at 0; its log is from 2048 to 2148"
    ):
        there.read(0, buffer)
    assert there.written() == [2048]
    assert source_of({0: bytes(SEGMENT)}).written() == []


@pytest.mark.parametrize(
    ("wanted", "end", "records"),
    [
        (source.LogLimit(3 * SIZE), 3 * SIZE, 3),
        (source.LogLimit(4 * SIZE - 1), 3 * SIZE, 3),
        (source.LogLimit(SEGMENT), SEGMENT, 10),
        (source.LogLimit(SEGMENT - 1), 10 * SIZE, 10),  # its BLANK would end behind that
    ],
)
def test_a_limit_ends_the_pieces_at_a_record(wanted, end, records) -> None:
    raw, whole, count, fault = read_all(source_of(source_log_of(13)), wanted)
    assert (len(raw), whole, count, fault) == (end, end, records, Fault.NONE)


def test_reading_ahead_gives_the_same_pieces_and_then_the_error() -> None:
    made = [source.LogPiece(n, np.zeros(0, np.uint8), n, -1, 0, 0) for n in range(9)]

    def produced() -> Iterator[source.LogPiece]:
        yield from made
        raise StoreError("gone")

    found = source.read_ahead(produced())
    assert [next(found).at for _ in range(9)] == list(range(9))
    with pytest.raises(StoreError, match="gone"):
        next(found)
    assert list(source.read_ahead(iter(made))) == made
