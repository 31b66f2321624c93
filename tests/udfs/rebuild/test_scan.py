"""A split in which no record starts stages no file; it counts as done all the same."""

from typing import Any

import pyarrow as pa
import pytest

from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.link import Linked, link, runs_of
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.jobs.pipeline.stages import Stages
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.names import COMMIT_LOG, segment_name
from reput.store_format.notes import Progress
from reput.udfs.rebuild.scan import ScanSplits
from reput.udfs.staging import RUNS, Staging, Task, split_of
from tests.in_process import Session
from tests.logs.encoder import Message, build_log, encode
from tests.memory_storage import MemoryStorage

SEGMENT_BYTES, SPLIT_BYTES = 1 << 16, 1 << 10
IN_SEGMENT = SEGMENT_BYTES // SPLIT_BYTES
SPLITS = 3 * IN_SEGMENT
MESSAGES = 8 * IN_SEGMENT - 1


def _rows_of(task: Task, number: int) -> list[dict[str, Any]]:
    """What a task yields for one number."""
    batches = task(iter([pa.RecordBatch.from_pydict({"id": [number]})]))
    return [row for batch in batches for row in batch.to_pylist()]


class Scan:
    """A log of one segment of records and two of zeros, scanned in such tasks."""

    def __init__(self, groups: tuple[int, ...]) -> None:
        body = bytes(SPLIT_BYTES // 8 - len(encode(Message(), 0)))
        records = (Message(queue_offset=n, body=body) for n in range(MESSAGES))
        segments = build_log(records, SEGMENT_BYTES, extra_segments=2)
        files = {f"store/{COMMIT_LOG}/{segment_name(at)}": raw for at, raw in segments.items()}
        self.storage = MemoryStorage(files)
        settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
        found = discover(StoreAt(self.storage, "store", "5.3.3", settings), LOOK)
        plan = make_plan(StoreAt(self.storage, "store"), found, LOOK, 2, SPLIT_BYTES)
        staging = Staging(self.storage, "staging")
        job = Pipeline(Session(), plan, staging, Cut(), Progress())
        numbers = range(plan.splits.total)
        task = ScanSplits(self.storage, job.staging, plan.splits, job.rules, numbers, groups, {})
        rows = [row for number in range(len(groups)) for row in _rows_of(task, number)]
        self.records = {row["split"]: row["records"] for row in rows}
        linked = link(plan.splits, {row["split"]: row for row in rows})
        assert isinstance(linked, Linked)
        self.linked = linked
        self.progress = Stages(job.engine, plan, job.staging, Progress())._scanned(numbers, groups)

    @property
    def lists(self) -> list[int]:
        """The splits that have a list of runs."""
        names = (name for name, _ in self.storage.list("staging"))
        return sorted(split_of(name) for name in names if name.endswith(RUNS))


@pytest.mark.parametrize("groups", [(0,), (0, 1, 2), (0, 70, 100), tuple(range(SPLITS))])
def test_only_splits_with_records_and_a_tasks_last_have_a_list_and_progress_counts_all(
    groups,
) -> None:
    scan = Scan(groups)
    assert len(scan.records) == SPLITS
    assert sum(scan.records.values()) == MESSAGES
    filled = {split for split, records in scan.records.items() if records}
    assert filled == set(range(IN_SEGMENT))
    lasts = {start - 1 for start in (*groups[1:], SPLITS)}
    assert scan.lists == sorted(filled | lasts)
    assert set(scan.linked.runs) == filled
    whole = f"{SPLITS * SPLIT_BYTES:,}"
    assert (scan.progress.share, scan.progress.text) == (1.0, f"{whole} of {whole} bytes")


def test_what_is_not_there_is_not_read() -> None:
    rows = [{"split": 0, "run": "a", "records": 1}, {"split": 1, "run": "b", "records": 0}]
    assert runs_of(rows) == {0: "a"}
