"""Index files from puts in staging, byte for byte as docs/formats/indexfile.md says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.derived.index_header import NO_HEADER, IndexHeader
from reput.store_format.layouts import INDEX_MESSAGE
from reput.udfs.rebuild.index import (
    BuildWhole,
    ChainRanges,
    IndexFiles,
    MergeRanges,
    _entries,
    _write_behind,
    chain_range,
)
from reput.udfs.staging import BUILT, CHAINED, HASHES, MESSAGES, Staging
from tests.memory_storage import MemoryStorage

SLOTS, ROOM = 4, 5  # so a file has four entries
NEWEST, EVERY = 0, 1 << 62
Message = tuple[int, int, list[int]]  # place, time, hashes of its keys
FIVE = [(100, 10_000, [1, 2]), (200, 11_000, [3, 5, 5]), (300, 11_500, [7])]


def index(
    *runs: list[Message], ranges: int = 1, every: int = NEWEST, empty: int = 1, room: int = ROOM
) -> IndexFiles:
    storage, ends = MemoryStorage(), [0]
    for number, messages in enumerate(runs):
        hashes = [h if n else ~h for *_, keys in messages for n, h in enumerate(keys)]
        storage.files[f"s/{number}{HASHES}"] = np.array(hashes, np.int32).tobytes()
        places = np.array([each[:2] for each in messages], INDEX_MESSAGE)
        storage.files[f"s/{number}{MESSAGES}"] = places.tobytes()
        ends.append(ends[-1] + len(hashes))
    names = tuple(map(str, range(len(runs))))
    return IndexFiles(
        Staging(storage, "s"), names, tuple(ends[1:]), SLOTS, room, ranges, every, empty
    )


def rows_of(task: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made = list(task(iter([pa.RecordBatch.from_pylist(rows)])))
    assert {batch.schema for batch in made} <= {BUILT, CHAINED}
    return [row for batch in made for row in batch.to_pylist()]


def built(files: IndexFiles, number: int = 0) -> tuple[dict[str, Any], bytes]:
    (row,) = rows_of(BuildWhole(files), [{"id": number}])
    return row, files.staging.storage.read_bytes(f"s/{row['name']}")


def head(begin: int, end: int, entries: int) -> IndexHeader:
    return IndexHeader(0, 0, begin, end, 0, entries + 1)


@pytest.mark.parametrize(
    ("heads", "begins"),
    [
        ([head(100, 200, 4), head(200, 300, 2)], {}),  # full
        ([head(100, 100, 2), head(200, 300, 4)], {1: 2}),
        ([head(100, 100, 2), head(200, 200, 3), head(300, 300, 1)], {1: 2, 2: 5}),
        ([head(100, 100, 2), NO_HEADER], {}),  # no file follows
        ([head(100, 200, 3), head(200, 300, 3)], {}),  # a message's keys are never apart so
        ([head(100, 100, 1), head(200, 300, 4)], {}),  # a put is in neither file
        ([head(100, 100, 3), head(200, 300, 4)], {}),  # the count says another put than the end
        ([head(100, 200, 2), head(300, 300, 1)], {}),
        ([head(100, 100, 2), head(300, 300, 1)], {}),  # a whole message is in neither
        ([head(100, 300, 6), head(400, 400, 1)], {}),  # the log does not go on
    ],
)
def test_a_file_begins_early_where_both_headers_and_the_log_say_so(heads, begins) -> None:
    files = index(FIVE[:1], FIVE[1:], room=9 if heads[0].entries == 6 else ROOM)
    assert files.begins_early(heads) == begins


def test_early_files_are_cut_there_and_the_rest_by_their_room() -> None:
    files = replace(index(FIVE, FIVE, room=4), begins={1: 2, 3: 7})
    assert [files.bounds(n) for n in range(6)] == [
        (0, 2), (2, 5), (5, 7), (7, 10), (10, 12), (13, 13),
    ]  # fmt: skip


@pytest.mark.parametrize("ranges", [1, 2, 3, 4, 7])
def test_the_bytes_are_the_same_for_any_number_of_ranges(ranges: int) -> None:
    files = index(FIVE[:1], [], FIVE[1:], ranges=ranges)
    chained = rows_of(ChainRanges(files), [{"id": each} for each in range(2 * ranges)])
    assert [row["file"] for row in chained] == [0] * ranges + [1] * ranges
    assert sum(row["puts"] for row in chained) == 6
    for row in rows_of(MergeRanges(files), chained):
        whole, raw = built(index(FIVE[:1], [], FIVE[1:]), row["number"])
        assert files.staging.storage.read_bytes(f"s/{row['name']}") == raw
        assert {**row, "name": ""} == {**whole, "name": ""}


def test_a_piece_stays_as_it_is_while_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reput.udfs.rebuild.index._PUTS_A_READ", 1)
    files = index(FIVE)
    pieces = _entries(files, [chain_range(files, 0, 0)], 0, 4, 0, 0)
    before = next(pieces)
    kept = before.tobytes()
    for piece in pieces:
        assert before.tobytes() == kept != piece.tobytes()
        before, kept = piece, piece.tobytes()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_piece_that_cannot_be_written_fails_the_task(failing: int) -> None:
    class Full:
        def write(self, piece: int) -> None:
            if piece == failing:
                raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        _write_behind(Full(), range(3))  # type: ignore[arg-type]
