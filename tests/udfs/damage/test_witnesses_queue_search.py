"""What queues lost, and how the findings of all tasks become one: the first are listed."""

import json
from typing import Any

import pyarrow as pa
import pytest

from reput.store_format.damage.queue_ends import Losses, SegmentLoss
from reput.store_format.damage.queue_findings import Gap, Renumbering, UnexplainedGap
from reput.udfs.damage.witnesses import FINDINGS, SearchQueues, joined
from reput.udfs.staging import RUN
from tests.store_format.damage.staged import SIZE, staged

Row = dict[str, Any]


def lost(*ranges: tuple[int, int]) -> Losses:
    total = sum(length for _, length in ranges)
    return Losses((SegmentLoss(0, 1 << 40, "", ranges, total),) if ranges else (), True)


# each queue misses its offset 2, between records at these places
AROUND = [(5000, 6000), (1000, 2000), (3000, 4000)]
LOST = lost(*((after + SIZE, 1000 - SIZE) for after, _ in sorted(AROUND)))


def search(losses: Losses, most: int = 100, **more: Any) -> tuple[list[Row], SearchQueues]:
    runs = [[(0, after - SIZE), (1, after), (3, before), (4, before + SIZE)]
            for after, before in AROUND]  # fmt: skip
    files, rows = staged(*runs)
    made = [{**row, "queue_id": number, "part": 0} for number, row in enumerate(rows)]
    task = SearchQueues(files, losses, most, **more)
    batches = list(task(iter(pa.Table.from_pylist(made, RUN).to_batches(2))))
    assert all(batch.schema == FINDINGS for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()], task


def gap(queue: int) -> Gap:
    return Gap("T", queue, False, 2, 1, *AROUND[queue])


def test_a_position_that_the_log_lost_bytes_for_is_a_gap_of_its_queue() -> None:
    (row,), _ = search(LOST)
    assert joined([row]).of(Gap) == [gap(1), gap(2), gap(0)]  # by place
    assert (row["gaps_unlisted"], row["positions_unlisted"], row["lines"]) == (0, 0, "")


def test_a_gap_without_lost_bytes_is_not_explained() -> None:
    (row,), _ = search(lost((5000 + SIZE, 900)))
    assert [each["queue_id"] for each in row["Gap"]] == [0]
    assert [each["queue_id"] for each in row[UnexplainedGap.__name__]] == [1, 2]


@pytest.mark.parametrize(
    ("most", "listed", "unlisted"), [(1, [1], 2), (2, [1, 2], 1), (3, [1, 2, 0], 0)]
)
def test_the_first_gaps_by_offset_are_listed_and_all_are_counted(
    most: int, listed: list[int], unlisted: int
) -> None:
    rows, _ = search(LOST, most)
    found = joined(rows)
    assert found.of(Gap) == [gap(queue) for queue in listed]
    assert (rows[0]["gaps_unlisted"], rows[0]["positions_unlisted"]) == (unlisted, unlisted)


@pytest.mark.parametrize(("most", "unlisted"), [(1, 1), (2, 0)])
def test_records_with_another_queue_offset_are_listed_and_counted_too(
    most: int, unlisted: int
) -> None:
    """Those that follow contradict the first one, which counts as the one before them."""
    runs = [[(9, at), *((5 + n, at + SIZE * (1 + n)) for n in range(4))] for at in (5000, 1000)]
    files, rows = staged(*runs)
    made = [{**row, "queue_id": number} for number, row in enumerate(rows)]
    given = pa.Table.from_pylist(made, RUN).to_batches()
    (row,) = [row for batch in SearchQueues(files, lost(), most)(iter(given))
              for row in batch.to_pylist()]  # fmt: skip
    wanted = [Renumbering("T", n, 4, 1, at, 9, True) for n, at in ((1, 1000), (0, 5000))]
    assert joined([row]).of(Renumbering) == wanted[:most]
    assert (row["gaps_unlisted"], row["positions_unlisted"]) == (unlisted, 0)


def test_all_gaps_are_lines_of_a_file_if_that_is_wanted() -> None:
    (row,), task = search(LOST, most=1, lines=True)
    raw = task.files.staging.storage.read_bytes(f"staging/{row['lines']}")
    lines = [json.loads(line) for line in raw.splitlines()]
    assert [line["queue_id"] for line in lines] == [0, 1, 2]
    assert lines[0] == {"type": "missing", **vars(gap(0))}
    assert joined([row, {**row, "lines": ""}]).gap_lines == (row["lines"],)


def test_a_task_that_finds_nothing_has_no_row_and_no_file() -> None:
    files, rows = staged([(0, 0), (1, SIZE)])
    given = pa.RecordBatch.from_pylist([dict(row) for row in rows], RUN)
    assert list(SearchQueues(files, LOST, 9, lines=True)(iter([given]))) == []
    assert len(files.staging.storage.files) == 1  # type: ignore[attr-defined]
    assert joined([]).of(Gap) == []


def test_findings_of_several_tasks_are_joined() -> None:
    (row,), _ = search(LOST, most=1)
    both = joined([row, row])
    assert both.of(Gap) == [gap(1), gap(1)]
    assert (both.gaps_unlisted, both.positions_unlisted) == (4, 4)
