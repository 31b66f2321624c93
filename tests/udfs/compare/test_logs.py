"""Ranges of logs compared byte by byte: the first byte that differs, window after window."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.files.protocol import FileState
from reput.store_format.log.prints import PRINT
from reput.store_format.log.segments import Segment
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.compare import logs as module
from reput.udfs.staging import Staging, read_range
from reput.udfs.table.log_parts import LogParts
from tests.memory_storage import MemoryStorage

START, SIZE, WINDOW = 1000, 1000, 64
RULES = scan_rules(profile("5.3.3"), settings_from({}), ())
SAME = bytes(range(250)) * 4


def changed(*places: int) -> bytes:
    raw = bytearray(SAME)
    for place in places:
        raw[place - START] ^= 0x80
    return bytes(raw)


def log(raw: bytes) -> LogParts:
    """A log of one segment, read in windows of 64 bytes."""
    storage = MemoryStorage({"log/x": raw})
    storage.window_bytes = WINDOW
    return LogParts(storage, (Segment("log/x", START, FileState(len(raw), 0, 0)),), RULES)


def unlike(
    logs: Sequence[bytes], *pieces: tuple[int, int], groups: Sequence[int] = (0,)
) -> list[tuple[int, int, int, int]]:
    """(log, start, first, last) of what is found in the pieces."""
    compared = tuple(module.ComparedPiece(*piece, tuple(range(1, len(logs)))) for piece in pieces)
    task = module.CompareRanges(tuple(map(log, logs)), compared, tuple(groups))
    ids = pa.RecordBatch.from_pydict({"id": list(range(len(groups)))})
    return [tuple(row.values()) for batch in task(iter([ids])) for row in batch.to_pylist()]


@pytest.mark.parametrize(("place", "piece", "last"), [
    (1000, (1000, 2000), 1064), (1063, (1000, 2000), 1064), (1064, (1000, 2000), 1128),
    (1999, (1000, 2000), 2000), (1500, (1500, 1501), 1501),
])  # fmt: skip
def test_the_first_byte_and_the_end_of_its_window(place, piece, last) -> None:
    assert unlike([SAME, changed(place)], piece) == [(1, piece[0], place, last)]


@pytest.mark.parametrize("piece", [(1000, 1500), (1501, 2000), (1500, 1500)])
def test_bytes_beside_a_piece_do_not_count(piece: tuple[int, int]) -> None:
    assert unlike([SAME, changed(1500)], piece) == []


def test_each_log_that_differs_has_a_row_and_a_group_s_pieces_go_up_to_the_next() -> None:
    logs = [SAME, changed(1700, 1100), SAME, changed(1300)]
    assert unlike(logs, (1000, 2000)) == [(1, 1000, 1100, 1704), (3, 1000, 1300, 1320)]
    pieces = [(1000 + 100 * n, 1100 + 100 * n) for n in range(5)]
    places = [1050 + 100 * n for n in range(5)]
    found = unlike([SAME, changed(*places)], *pieces, groups=(0, 3))
    assert [(start, first) for _, start, first, _ in found] == [
        (piece[0], place) for piece, place in zip(pieces, places, strict=True)
    ]
    assert len(module.UNLIKE) == 4


# --- What one log has of the other's messages, by their fingerprints.
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
    batch = pa.RecordBatch.from_pylist(rows, module.LISTED)
    found: dict[int, Any] = {0: (0, []), 1: (0, [])}
    for out in module.MatchPrints(staging, (0, 1))(iter([batch])):
        for row in out.to_pylist():
            size = row["count"] * module.FOUND_PLACE.itemsize
            places: Any = read_range(staging, row["name"], 0, size).view(module.FOUND_PLACE)
            found[row["log"]] = row["same"], [tuple(each) for each in places.tolist()]
    return [found[0], found[1]]


@pytest.mark.parametrize(("ours", "theirs", "found"), [
    ([], [], [(0, []), (0, [])]), ([WHOLE], [WHOLE], [(1, []), (1, [])]),
    ([WHOLE], [], [(0, [(100, module.ONLY)]), (0, [])]),
    ([WHOLE], [(2, 20, False)], [(0, [(100, module.ONLY)]), (0, [(100, module.ONLY)])]),
    ([WHOLE], [(1, 11, False)], [(0, [(100, module.AGAIN)]), (0, [(100, module.AGAIN)])]),
    ([(1, 10, True)], [WHOLE], [(0, [(100, module.DAMAGED)]), (1, [])]),
    ([(1, 10, True)], [(1, 10, True)], [(1, []), (1, [])]),
    ([(1, 10, True)], [], [(0, [(100, module.ONLY)]), (0, [])]),
    ([WHOLE, WHOLE], [WHOLE], [(2, []), (1, [])]),
    ([(2, 20, False), WHOLE, (3, 30, False)], [WHOLE],
     [(1, [(100, module.ONLY), (102, module.ONLY)]), (1, [])]),
])  # fmt: skip
def test_a_record_is_the_same_again_damaged_or_only_here(ours, theirs, found) -> None:
    assert matched(ours, theirs) == found
    assert matched(theirs, ours) == found[::-1]
