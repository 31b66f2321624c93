"""Batch queues compared by their entries: what counts, and what a difference is."""

import numpy as np
import pytest

from reput.jobs.judging.report import MISSING_AT_END, ONE_TOO_MANY, Difference
from reput.jobs.judging.verdict import BatchEntryAt, batch_entries, first_difference
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, BATCH_QUEUE_ENTRY_BYTES

LOG_START = 1000
WANTED = (1000, 1200, 1400)


def entries(*places: int, size: int = 200) -> list[BatchEntryAt]:
    rows = np.zeros(len(places), BATCH_QUEUE_ENTRY)
    rows["physicalOffset"], rows["size"], rows["batchSize"] = places, size, 2
    rows["baseOffset"] = np.arange(len(places)) * 2
    return [("q/0", at * BATCH_QUEUE_ENTRY_BYTES, row) for at, row in enumerate(rows)]


def moved(found: list[BatchEntryAt], by: int) -> list[BatchEntryAt]:
    return [(path, at + by, entry) for path, at, entry in found]


def test_the_same_entries_at_other_places_are_no_difference() -> None:
    there = [*entries(600, 800), *moved(entries(*WANTED), 92), *entries(0, size=0)]
    assert first_difference(entries(*WANTED), there, "q/0", LOG_START) is None


@pytest.mark.parametrize(
    ("there", "difference", "place"),
    [
        (entries(*WANTED[:2]), Difference("q/last", 0, MISSING_AT_END, None, None), 1400),
        ([], Difference("q/last", 0, MISSING_AT_END, None, None), 1000),
        (entries(*WANTED, 1600), Difference("q/0", 138, ONE_TOO_MANY, 1600, 0), 1600),
        (entries(1000, 1300, 1400), Difference("q/0", 46, "physicalOffset", 1300, 1200), 1200),
        (entries(*WANTED, size=199), Difference("q/0", 0, "size", 199, 200), 1000),
    ],
)
def test_the_first_difference(
    there: list[BatchEntryAt], difference: Difference, place: int
) -> None:
    assert first_difference(entries(*WANTED), there, "q/last", LOG_START) == (difference, place)


def test_entries_are_read_as_far_as_they_are_used(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = str(tmp_path / "00000000000000000000")
    rows = np.zeros(3, BATCH_QUEUE_ENTRY)
    rows["physicalOffset"] = WANTED
    rows.tofile(path)
    read = list(batch_entries(LocalStorage(), [(path, 2 * BATCH_QUEUE_ENTRY_BYTES)]))
    assert [(name, at, int(entry["physicalOffset"])) for name, at, entry in read] == [
        (path, 0, 1000),
        (path, BATCH_QUEUE_ENTRY_BYTES, 1200),
    ]
