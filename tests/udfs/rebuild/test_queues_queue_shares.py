"""Where there are few runs, each task builds its share of the queues: no row is shuffled."""

from typing import Any

import pyarrow as pa
import pytest

from reput.jobs.pipeline import pipeline
from reput.jobs.pipeline.pipeline import Cut
from reput.udfs.rebuild.queues import _shares
from reput.udfs.staging import RUN, InTurn, ids_of
from tests.against_reference import difference
from tests.in_process import Session, rebuild_log
from tests.logs import Log
from tests.logs.encoder import Message, build_log, properties
from tests.reference import derive

SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 16384, "mappedFileSizeConsumeQueue": 100, "maxHashSlotNum": 7,
    "maxIndexNum": 9,
}  # fmt: skip
LIMITS = ("_LISTS_READ_BY_ALL", "_ENTRIES_OF_A_TASK")


def a_log() -> Log:
    messages = [
        Message(
            topic=f"T{n % 3}", queue_id=n % 2, queue_offset=n // 6,
            properties=properties(("KEYS", str(n))),
        )
        for n in range(60)
    ]  # fmt: skip
    return Log(build_log(messages, 16384), SETTINGS, "5.3.3", {})


def shuffled(cut: Cut) -> int:
    """Rows that went through Spark between tasks, in a rebuild whose bytes are right."""
    session, wanted = Session(), derive(*a_log())
    assert difference(rebuild_log(a_log(), cut, session), wanted) is None
    splits = -(-16384 // (cut.split_bytes or 16384))
    rows = splits + 1 + len(wanted.files)  # 1: what stands behind the end; no file twice
    assert session.rows_collected == rows
    return session.rows_shuffled


def test_no_row_is_shuffled_where_there_are_few_runs() -> None:
    assert shuffled(Cut(split_bytes=1000)) == 0


@pytest.mark.parametrize("limit", LIMITS)
def test_many_runs_are_shared_out_by_spark(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(pipeline, limit, 3)
    assert shuffled(Cut(split_bytes=1000)) > 0


@pytest.mark.parametrize(
    ("a_task", "together", "few"),
    [(1 << 20, 1 << 20, True), (3, 1 << 20, False), (1 << 20, 3, False), (1 << 20, 9_000, False)],
)
def test_lists_are_read_by_all_as_far_as_that_is_little(
    monkeypatch: pytest.MonkeyPatch, a_task: int, together: int, few: bool
) -> None:
    """The lists of this log count as 4,608 bytes; there are two cores."""
    monkeypatch.setattr(pipeline, "_LIST_BYTES_READ_BY_ALL", 3)
    monkeypatch.setattr(pipeline, "_MOST_LIST_BYTES_OF_A_TASK", a_task)
    monkeypatch.setattr(pipeline, "_LIST_BYTES_OF_ALL", together)
    assert (shuffled(Cut(split_bytes=1000)) == 0) == few


def test_an_index_file_of_many_puts_is_built_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    chained = pipeline.ChainRanges
    monkeypatch.setattr(pipeline, "ChainRanges", lambda index: made.append(index) or chained(index))
    one_file = {**SETTINGS, "maxIndexNum": 1000}
    log = a_log()._replace(settings=one_file)
    rebuild_log(log)
    assert made == []
    monkeypatch.setattr(pipeline, "_PUTS_OF_A_TASK", 3)
    assert difference(rebuild_log(log), derive(*log)) is None
    assert [index.ranges for index in made] == [2]


@pytest.mark.parametrize(("messages_a_share", "shares"), [(60, 2), (20, 3), (1, 4)])
def test_large_queues_are_built_in_more_shares_than_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, messages_a_share: int, shares: int
) -> None:
    made = []
    build = pipeline.BuildShares
    monkeypatch.setattr(
        pipeline, "BuildShares", lambda *words: made.append(words[1]) or build(*words)
    )
    monkeypatch.setattr(pipeline, "_ENTRIES_OF_A_SHARE", messages_a_share)
    assert difference(rebuild_log(a_log()), derive(*a_log())) is None
    assert made == [shares]


def test_each_queue_is_in_one_share_and_a_topic_s_queues_are_in_turn() -> None:
    row = {**dict.fromkeys(RUN.names, 0), "batch": False}
    queues = [(f"topic {n}", number) for n in range(5) for number in (-1, 0, 1, 2)]
    rows = [{**row, "topic": topic, "queue_id": number} for topic, number in queues]
    shares = _shares(pa.RecordBatch.from_pylist(rows + rows, RUN), 2).tolist()
    assert shares[: len(rows)] == shares[len(rows) :]
    for at in range(0, len(rows), 4):
        assert shares[at : at + 4] in ([0, 1, 0, 1], [1, 0, 1, 0])


def test_tasks_in_turn_count_each_from_0() -> None:
    kind = pa.schema([("task", pa.string()), ("id", pa.int64())])

    def task(name: str) -> Any:
        return lambda batches: (
            pa.RecordBatch.from_pylist([{"task": name, "id": number}], kind)
            for number in ids_of(batches)
        )

    both = InTurn(((2, task("a")), (0, task("none")), (3, task("b"))))
    assert both.total == 5
    given = pa.RecordBatch.from_pydict({"id": [4, 0, 1, 2, 3]})
    made = [row for batch in both(iter([given])) for row in batch.to_pylist()]
    wanted = [("b", 2), ("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert [(row["task"], row["id"]) for row in made] == wanted
