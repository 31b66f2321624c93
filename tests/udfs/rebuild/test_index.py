"""Index files from puts in staging, byte for byte as docs/formats/indexfile.md says."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.derived.index_header import NO_HEADER, IndexHeader
from reput.store_format.layouts import INDEX_MESSAGE
from reput.udfs.rebuild.index import BuildWhole, ChainRanges, IndexFiles, MergeRanges
from reput.udfs.staging import BUILT, CHAINED, HASHES, MESSAGES, Staging
from tests.logs.index_bytes import pack_index
from tests.memory_storage import MemoryStorage

SLOTS, ROOM = 4, 5  # so a file has four entries
NEWEST, EVERY = 0, 1 << 62
Message = tuple[int, int, list[int]]  # place, time, hashes of its keys
TWO = [(100, 10_000, [5, 9]), (200, 12_999, [4])]
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


def test_a_file_has_header_slots_and_chained_entries() -> None:
    row, raw = built(index(TWO))
    header = (10_000, 12_999, 100, 200, 2, 4)
    entries = [(5, 100, 0, 0), (9, 100, 0, 1), (4, 200, 2, 0)]
    assert raw == pack_index(header, [3, 2, 0, 0], entries, ROOM)
    told = {name: row[name] for name in ("folder", "number", "length", "used", "entries")}
    assert told == {"folder": "index", "number": 0, "length": 156, "used": 136, "entries": 3}
    assert (row["begin"], row["end"]) == (10_000, 12_999)


def test_a_message_s_keys_go_on_in_the_next_file_from_the_end_of_the_one_before() -> None:
    files = index(FIVE[:2], FIVE[2:])
    first, second = (built(files, number)[1] for number in (0, 1))
    assert first == pack_index(
        (10_000, 11_000, 100, 200, 3, 5), [0, 4, 2, 3],
        [(1, 100, 0, 0), (2, 100, 0, 0), (3, 200, 1, 0), (5, 200, 1, 1)], ROOM,
    )  # fmt: skip
    assert second == pack_index(
        (11_000, 11_500, 200, 300, 2, 3), [0, 1, 0, 2], [(5, 200, 0, 0), (7, 300, 0, 0)], ROOM
    )


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


@pytest.mark.parametrize(
    ("times", "diffs"),
    [
        ((5_000, 9_000, 11_500), (4, 2)),  # the first against the end of the file before
        ((5_000, 4_999, 3_000), (0, 0)),
        ((5_000, 5_999, 6_998), (0, 0)),
        ((0, 9_000, 11_000), (0, 2)),  # no begin yet
        ((-5, -3, 11_000), (0, 0)),
        ((1, (1 << 31) * 1000 + 1, 0), (0x7FFFFFFF, 0)),
    ],
)
def test_the_time_of_an_entry_is_in_whole_seconds_after_begin(times, diffs) -> None:
    before, first, second = times
    log = [(100, before, [1, 2, 3, 4]), (200, first, [5]), (300, second, [6])]
    _, raw = built(index(log), 1)
    entries = np.frombuffer(raw, ">i4", offset=40 + 4 * SLOTS + 20).reshape(-1, 5)
    assert tuple(entries[:2, 3].tolist()) == diffs
    assert int.from_bytes(raw[:8], "big", signed=True) == first


@pytest.mark.parametrize(
    ("every", "count"), [(NEWEST, 2), (200, 2), (201, 4), (300, 4), (301, 5), (EVERY, 5)]
)
def test_releases_up_to_4_7_0_count_a_slot_with_every_put(every: int, count: int) -> None:
    log = [(100, 1_000, [1]), (200, 1_000, [5, 9]), (300, 1_000, [1, 2])]
    _, raw = built(index(log[:2], log[2:], every=every, room=9))
    assert int.from_bytes(raw[32:36], "big") == count


@pytest.mark.parametrize("empty", [0, 1])
def test_a_file_without_entries_keeps_the_end_of_the_one_before(empty: int) -> None:
    row, raw = built(index([(100, 10_000, [1, 2, 3]), (200, 9_000, [4])], empty=empty), 1)
    assert raw == pack_index((9_000, 9_000, 200, 200, 0, empty), [0] * SLOTS, [], ROOM)
    assert (row["entries"], row["begin"], row["end"]) == (0, 9_000, 9_000)
    _, raw = built(index(empty=empty))
    assert raw == pack_index((0, 0, 0, 0, 0, empty), [0] * SLOTS, [], ROOM)


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
