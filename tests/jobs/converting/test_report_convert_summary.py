"""What a conversion says of its topics, for people, as JSON, and in the new store's manifest."""

from typing import Any

import pytest

from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source
from reput.jobs.converting.report import ConvertSummary, TopicFate, topic_fates
from reput.jobs.opening.plan import make_plan
from reput.jobs.outputs.report import OutputFile
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import discover, store_at
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from reput.udfs.staging import Staging
from tests.converted import plain
from tests.in_process import STORE, Session, storage_of
from tests.logs.encoder import Message


def fate(**more: Any) -> TopicFate:
    known: dict[str, Any] = {"store": "s", "topic": "A", "becomes": "A", "queues": 2}
    known |= {"messages": 1500, "taken": 1500, "bytes": 9, "least": 7, "greatest": 1006}
    return TopicFate(**known | more)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({}, "A: 1,500 records in 2 queues, queueOffsets 7 to 1,006"),
        ({"becomes": "B"}, "A -> B: 1,500 records in 2 queues, queueOffsets 7 to 1,006"),
        ({"taken": 1, "queues": 1}, "A: 1 record of 1,500 in 1 queue, queueOffsets 7 to 1,006"),
        ({"taken": 0, "becomes": ""}, "A: left out, 1,500 records"),
        ({"least": 5, "greatest": 5}, "A: 1,500 records in 2 queues, queueOffsets 5 to 5"),
        ({"least": (1 << 63) - 1, "greatest": -1}, "A: 1,500 records in 2 queues"),
    ],
)
def test_a_topic_s_line_says_what_is_taken(changed: dict[str, Any], line: str) -> None:
    assert fate(**changed).line() == line


def test_a_topic_is_the_sum_of_its_queues_by_its_new_name() -> None:
    storage = storage_of(plain([Message("T")]))
    at = store_at(STORE, "5.3.3", {}, storage)
    plan = make_plan(at, discover(at, CONVERT), CONVERT)
    job = Pipeline(Session(), plan, Staging(storage, "staging"), Cut(), Progress())
    queues = {
        QueueKey("Z", 0): Tally(records=4, taken=3, bytes=30, positions=4, least=8, greatest=11),
        QueueKey("A", 0): Tally(records=2),
        QueueKey("Z", 5): Tally(records=1, taken=1, bytes=5, positions=1, least=2, greatest=2),
        QueueKey("Z", 6): Tally(records=1, taken=1, bytes=5),  # without a position
    }
    source = Source(job, Changes(renames=(("Z", "Y"),)), MeasuredLog([], 0, 0, queues, []))
    left_out, renamed = topic_fates(source)
    assert (left_out.topic, left_out.becomes, left_out.messages) == ("A", "", 2)
    assert renamed == TopicFate(plan.store, "Z", "Y", 3, 6, 5, 40, 2, 11)


def summary(**more: Any) -> ConvertSummary:
    known: dict[str, Any] = {"stores": ["/a"], "output": "/out", "rocketmq": "5.3.3"}
    known |= {"read_as": "4.9.3", "settings": {}, "old_starts": [0], "old_ends": [5000]}
    known |= {"log_start": 4096, "log_end": 9000, "shared": [0], "messages": 1}
    return ConvertSummary(**known | more)


def test_people_are_told_each_store_s_log_and_what_became_of_it() -> None:
    two = summary(
        stores=["/a", "/b"], shared=[0, 3], old_starts=[0, 10], old_ends=[5000, 6000],
        topics=[fate()],
        segments=[OutputFile("commitlog/0", 1, "")], warnings=["w"], cleaned=["/old"], seconds=1.5,
    )  # fmt: skip
    assert two.text().splitlines() == [
        "converted /a, /b -> /out (RocketMQ 5.3.3)",
        "  log       0 to 5,000",
        "  log       10 to 6,000",
        "  becomes   4,096 to 9,000, 1 record",
        "  shared    3 records of /b are in a store before it too: taken once",
        f"  topic     {fate().line()}",
        "  warning   w",
        "  cleaned   /old, left by a run that ended early",
        "  made      1 segment, 0 derived files, 1.5 s",
        "  next      start a broker on /out",
    ]


def test_a_dry_run_made_nothing_and_says_what_would_write_it() -> None:
    lines = summary(dry_run=True, output="").text().splitlines()
    assert lines[0] == "would convert /a (RocketMQ 5.3.3)"
    assert lines[-1] == "  next      the same without --dry-run writes it"
    assert not any(line.startswith("  made") for line in lines)


@pytest.mark.parametrize(("topics", "more"), [(40, 0), (41, 1)])
def test_forty_topics_are_shown_and_the_others_with_v(topics: int, more: int) -> None:
    many = summary(topics=[fate(topic=f"T{n}") for n in range(topics)])
    lines = [line for line in many.text().splitlines() if line.startswith("  topic ")]
    assert len(lines) == 40 + more
    if more:
        assert lines[-1] == "  topic     ... and 1 more; --json has all"
    assert [line for line in many.details() if line.startswith("  topic ")] == [
        f"  topic     {each.line()}" for each in many.topics[40:]
    ]


def test_json_counts_files_that_the_manifest_lists() -> None:
    made = summary(segments=[OutputFile("commitlog/0", 1, "")], seconds=2.0, cleaned=["/old"])
    assert (made.as_json()["segments"], made.as_json()["derived"]) == (1, 0)
    manifest = made.manifest()
    assert manifest["segments"][0]["path"] == "commitlog/0"
    assert manifest["format"].startswith("reput-convert-")
    assert not manifest.keys() & {"seconds", "output", "cleaned", "dry_run"}
