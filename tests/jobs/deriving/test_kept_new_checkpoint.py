"""The checkpoint of a set tells of the last record, of the last entry, and of every index file."""

import struct
from collections.abc import Sequence
from typing import Any

import pytest

from reput.jobs.deriving.kept import new_checkpoint
from reput.jobs.pipeline.link import Linked
from tests.damaged import damaged
from tests.jobs.found import found

FIELDS = struct.Struct(">6q")  # docs/formats/checkpoint.md


def fields(
    rows: list[dict[str, int]], built: Sequence[dict[str, Any]] = (), release: str = "5.5.0"
) -> tuple[int, ...]:
    log = damaged()
    log.version = release
    raw = new_checkpoint(found(log.log).plan, Linked(list(rows)), list(built))
    assert len(raw) == 4096
    assert not any(raw[FIELDS.size :])
    return FIELDS.unpack_from(raw)


def split(records: int, time: int, dispatched: int, last: int) -> dict[str, int]:
    return {"records": records, "last_timestamp": time, "last_dispatched": dispatched,
            "last_record": last}  # fmt: skip


def test_an_empty_log_has_an_empty_checkpoint() -> None:
    assert fields([]) == (0,) * 6
    assert fields([split(0, 99, 99, 99)]) == (0,) * 6


def test_the_last_split_with_records_counts_even_if_its_time_is_earlier() -> None:
    rows = [split(2, 70, 70, 100), split(1, 50, 50, 300), split(0, -1, -1, -1)]
    assert fields(rows) == (50, 50, 0, 0, 300, 300)


def test_records_without_a_queue_entry_leave_the_time_of_the_last_entry() -> None:
    rows = [split(2, 40, 40, 100), split(1, 50, -1, 300)]
    assert fields(rows)[:2] == (50, 40)
    assert fields(rows[1:])[:2] == (50, 0)
    assert fields([split(1, 0, 0, 0)])[:2] == (0, 0)


def test_no_time_is_below_zero() -> None:
    assert fields([split(1, -5, -1, 0)])[:3] == (0, 0, 0)


def test_the_greatest_end_of_the_index_files_keeps_all_of_them() -> None:
    index = [{"folder": "index", "end": end} for end in (7, 9, 8)]
    queue = {"folder": "consumequeue/T/0", "end": 100}
    assert fields([], [*index, queue])[2] == 9
    assert fields([], [queue])[2] == 0


@pytest.mark.parametrize(
    ("release", "places"),
    [("4.9.7", (0, 0)), ("5.1.0", (0, 0)), ("5.1.1", (300, 0)), ("5.4.0", (300, 0)),
     ("5.5.0", (300, 300))],
)  # fmt: skip
def test_places_are_written_from_the_release_on_that_knows_them(
    release: str, places: tuple[int, int]
) -> None:
    assert fields([split(1, 50, 50, 300)], release=release)[4:] == places
