"""Where the records of a new log stand: whole in a segment, with room for a BLANK behind."""

import numpy as np
import pytest

from reput.store_format.rewrite.placing import place


@pytest.mark.parametrize(
    ("sizes", "at", "places", "begins", "end"),
    [
        ([], 0, [], [], 0),
        ([30], 0, [0], [0], 30),
        ([30], 40, [40], [], 70),
        ([30, 62], 0, [0, 30], [0], 92),  # exactly the 8 bytes of a BLANK are left
        ([30, 63], 0, [0, 100], [0, 1], 163),
        ([92, 92, 92], 0, [0, 100, 200], [0, 1, 2], 292),
        ([10], 100, [100], [0], 110),
        ([10], 95, [100], [0], 110),
        ([10], 82, [82], [], 92),
        ([10], 83, [100], [0], 110),
    ],
)
def test_records_in_segments_of_100_bytes(
    sizes: list[int], at: int, places: list[int], begins: list[int], end: int
) -> None:
    found, first = np.full(len(sizes), -1), np.full(len(sizes), -1)
    stop, count = place(np.array(sizes, np.uint32), at, 100, found, first)
    assert (found.tolist(), first[:count].tolist(), stop) == (places, begins, end)


def test_places_are_longs() -> None:
    segment, at = 1 << 30, 5 << 40
    found, first = np.zeros(2, np.int64), np.zeros(2, np.int64)
    sizes = np.array([segment - 8, 4], np.uint32)
    assert place(sizes, at, segment, found, first) == (at + segment + 4, 2)
    assert found.tolist() == [at, at + segment]
