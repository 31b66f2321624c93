"""A queue's runs in staging: read, and numbered as docs/formats/consumequeue.md says."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.damage.queue_ends import GAP_COUNT, all_offsets, place_of
from reput.store_format.dispatch.scan import place_rules
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, QUEUE_ENTRY
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild.runs import LAST_LIFE, ListRuns, Lives
from reput.udfs.staging import RUN, RUNS, Staging
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.staged import staged

MOST = (1 << 63) - 1
Numbers = list[int]


def places(offsets: Numbers) -> list[tuple[int, int]]:
    """Records of 100 bytes with these queueOffsets, one behind the other."""
    return [(offset, 1000 + 100 * number) for number, offset in enumerate(offsets)]


@pytest.mark.parametrize(
    ("offsets", "gaps", "copies", "after", "skipped", "at_end"),
    [
        ([7, 8, 9], [], None, 10, 0, False),
        ([9], [], None, 8, 0, False),  # the next position, whatever its queueOffset is
        ([0], [], None, 8, 0, False),
        ([6, 7, 8], [], [0, 1, 1], 9, 1, False),
        ([7, 3, 8], [], [1, 0, 1], 9, 1, False),
        ([7, 8, 8], [], [1, 1, 0], 9, 1, True),
        ([5, 6], [], [0, 0], 7, 2, True),
        ([7, 0, 1], [], [1, 1, 0], 9, 1, True),
        ([7, 10], [(1, 2)], [1, 3], 11, 0, False),
        ([9], [(0, 2)], [3], 10, 0, False),
        ([9, 7, 12], [(0, 2), (2, 2)], [3, 0, 3], 13, 1, False),
    ],
)  # fmt: skip
def test_entries_go_to_the_next_position_unless_their_offset_is_lower(
    offsets: Numbers, gaps: Numbers, copies: Numbers | None, after: int, skipped: int, at_end: bool
) -> None:
    files, (row,) = staged(places(offsets))
    found = files.number(row, 7, np.array(gaps, GAP_COUNT))
    assert (None if found.copies is None else found.copies.tolist()) == copies
    assert (found.after, found.skipped, found.skips_at_end) == (after, skipped, at_end)


def test_a_message_that_the_queue_has_already_is_left_out_but_not_skipped() -> None:
    files, (row,) = staged([(7, 1000), (9, 1000), (10, 1100)])
    found = files.number(row, 7, np.array([], GAP_COUNT))
    assert found.copies is not None
    assert (found.copies.tolist(), found.after, found.skipped) == ([1, 0, 1], 9, 0)


def test_before_4_2_0_a_lower_offset_is_appended() -> None:
    files, (row,) = staged(places([7, 3, 8]))
    old = replace(files, rules=place_rules(profile("4.1.0")))
    assert old.number(row, 7, np.array([], GAP_COUNT))[:4] == (None, 10, 0, False)


def test_a_batch_queue_takes_every_entry() -> None:
    files, (row,) = staged(places([7, 3, 3]), batch=5)
    assert files.number(row, 1, np.array([], GAP_COUNT))[:4] == (None, 4, 0, False)
    entries = files.entries(row, 1, 3).view(BATCH_QUEUE_ENTRY)
    assert entries["baseOffset"].tolist() == [3, 3]
    assert (files.entries_a_file(True), files.file_bytes(True)) == (1, 46)


@pytest.mark.parametrize(
    ("offsets", "decided", "found"),
    [
        ([3, 4, 5], (0, 0), []),  # each is the one before plus 1
        ([3, 4, 5], (2, 9), [9, 10, 5]),
        ([3, 7], (0, 0), [3, 7]),
        ([3, 7], (1, 6), [6, 7]),
        ([MOST, MOST], (0, 0), [MOST, MOST]),
        ([-1, 0], (1, 5), [5, 0]),
    ],
)
def test_decided_offsets_stand_before_the_log_s_own(offsets, decided, found) -> None:
    files, (row,) = staged(places(offsets))
    told = {**row, "decided": decided[0], "decided_from": decided[1]}
    assert files.offsets(told).tolist() == found


def test_offsets_wrap_as_java_s_longs_do() -> None:
    files, (row,) = staged(places([0, 1, 2]))
    wrapping = {**row, "first": MOST, "decided": 1, "decided_from": 4}
    assert files.offsets(wrapping).tolist() == [4, -MOST - 1, -MOST]


def test_a_part_of_a_run_s_entries_and_the_size_of_a_file() -> None:
    files, (_, row) = staged(places([0, 1]), places([2, 3, 4]))
    assert files.entries(row, 1, 3).view(QUEUE_ENTRY)["physicalOffset"].tolist() == [1100, 1200]
    assert files.entries(row, 2, 2).size == 0
    assert [replace(files, queue_file_bytes=size).entries_a_file(False)
            for size in (100, 101, 119, 120, 121)] == [5, 6, 6, 6, 7]  # fmt: skip


def test_runs_are_listed_of_the_splits_that_have_some() -> None:
    row = {**dict.fromkeys(RUN.names, 0), "topic": "T", "batch": False}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, RUN) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([row, {**row, "part": 1}], RUN))
    storage = MemoryStorage({f"s/a{RUNS}": sink.getvalue().to_pybytes()})
    ids = pa.RecordBatch.from_pydict({"id": [1, 3]})
    (batch,) = ListRuns(Staging(storage, "s"), {3: "a"})(iter([ids]))
    assert batch.schema.equals(RUN, check_metadata=True)
    assert batch["part"].to_pylist() == [0, 1]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("cut", [(1, 4), (3, 6), (2, 5)])
def test_runs_begin_where_the_last_life_of_a_topic_does(batch: int, cut: tuple[int, int]) -> None:
    whole = places([0, 1, 2, 0, 1, 2])
    runs = [whole[: cut[0]], whole[cut[0] : cut[1]], whole[cut[1] :]]
    files, rows = staged(*(run for run in runs if run), batch=batch)
    kept, ended = files.living(rows)
    assert (kept, ended) == (rows, 0)
    files = replace(files, lives=Lives(remade=LAST_LIFE))
    kept, ended = files.living(rows)
    assert (sum(row["count"] for row in kept), ended, kept[0]["first"]) == (3, 3, 0)
    assert [place_of(files, row, n) for row in kept for n in range(row["count"])] == [
        1300, 1400, 1500
    ]  # fmt: skip
    if not batch:
        assert [n for row in kept for n in all_offsets(files, row).tolist()] == [0, 1, 2]


def test_a_queue_that_begins_within_its_life_has_one() -> None:
    files, rows = staged(places([4, 5, 6]), places([7, 8]))
    files = replace(files, lives=Lives(remade=LAST_LIFE))
    assert files.living(rows) == (rows, 0)


def test_what_is_skipped_or_shifted_is_noted_with_its_places() -> None:
    files, (row,) = staged(places([7, 8, 8, 11, 12, 0]))
    found = files.number(row, 7, np.array([], GAP_COUNT))
    assert found.odd == (8, -1, 1200, 11, 9, 1300, 0, 11, 1500)
    assert found.shift == -11
    later, (row,) = staged(places([12, 13]))
    assert later.number(row, 10, np.array([], GAP_COUNT), shift=2).odd == ()
    assert later.number(row, 10, np.array([], GAP_COUNT), shift=1).odd == (12, 10, 1000)
