"""What one log has of the other's messages, by their fingerprints."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.log.prints import PRINT
from reput.udfs.compare.logs import AGAIN, DAMAGED, FOUND_PLACE, LISTED, ONLY, MatchPrints
from reput.udfs.staging import Staging, read_range
from tests.memory_storage import MemoryStorage

Print = tuple[int, int, bool]  # fingerprints of a message and its record, whether its body is bad
WHOLE = (1, 10, False)


def matched(ours: list[Print], theirs: list[Print]) -> list[tuple[int, list[tuple[int, int]]]]:
    """For each log (records that both have, (place, kind) of the others); places count from 100."""
    staging = Staging(MemoryStorage(), "staging")
    rows = []
    for log, prints in enumerate((ours, theirs)):
        array = np.zeros(len(prints), PRINT)
        for n, (message, record, bad) in enumerate(prints):
            array[n] = ((message, 0), (record, 0), 100 + n, bad)
        if prints:
            output = staging.storage.create(staging.path(f"prints{log}"))
            output.write(array.view(np.uint8))
            output.finish(array.nbytes)
            half = len(prints) // 2
            for at, count in ((0, half), (half, len(prints) - half)):
                rows.append({"share": 0, "log": log, "name": f"prints{log}",
                             "at": at * PRINT.itemsize, "count": count})  # fmt: skip
    batch = pa.RecordBatch.from_pylist(rows, LISTED)
    found: dict[int, Any] = {0: (0, []), 1: (0, [])}
    for out in MatchPrints(staging, (0, 1))(iter([batch])):
        for row in out.to_pylist():
            size = row["count"] * FOUND_PLACE.itemsize
            places: Any = read_range(staging, row["name"], 0, size).view(FOUND_PLACE)
            found[row["log"]] = row["same"], [tuple(each) for each in places.tolist()]
    return [found[0], found[1]]


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ([], [], [(0, []), (0, [])]),
        ([WHOLE], [WHOLE], [(1, []), (1, [])]),
        ([WHOLE], [], [(0, [(100, ONLY)]), (0, [])]),
        ([WHOLE], [(2, 20, False)], [(0, [(100, ONLY)]), (0, [(100, ONLY)])]),
        ([WHOLE], [(1, 11, False)], [(0, [(100, AGAIN)]), (0, [(100, AGAIN)])]),
        ([(1, 10, True)], [WHOLE], [(0, [(100, DAMAGED)]), (1, [])]),
        ([(1, 10, True)], [(1, 10, True)], [(1, []), (1, [])]),
        ([(1, 10, True)], [], [(0, [(100, ONLY)]), (0, [])]),
        ([WHOLE, WHOLE], [WHOLE], [(2, []), (1, [])]),
        ([(2, 20, False), WHOLE, (3, 30, False)], [WHOLE],
         [(1, [(100, ONLY), (102, ONLY)]), (1, [])]),
    ],
)  # fmt: skip
def test_a_record_is_the_same_again_damaged_or_only_here(
    ours: list[Print], theirs: list[Print], found: list[tuple[int, list[tuple[int, int]]]]
) -> None:
    assert matched(ours, theirs) == found
    assert matched(theirs, ours) == found[::-1]
