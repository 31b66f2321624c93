"""What a conversion says of its topics, for people, as JSON, and in the new store's manifest."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source
from reput.jobs.converting.report import ConvertSummary, TopicFate, topic_fates
from reput.jobs.opening.plan import make_plan
from reput.jobs.opening.questions import open_store
from reput.jobs.outputs.report import OutputFile
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import discover, store_at
from reput.store_format.fate.rows import ENDED
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from reput.udfs.staging import Staging
from tests.converted import converted, log_of, plain, records
from tests.in_process import OUTPUT, STORE, Session, storage_of
from tests.logs.encoder import Message, properties
from tests.store_format.fate.stores import IN_ROCKSDB, LIVED, unpack


def fate(**more: Any) -> TopicFate:
    known: dict[str, Any] = {"store": "s", "topic": "A", "becomes": "A", "queues": 2}
    known |= {"messages": 1500, "taken": 1500, "bytes": 9, "least": 7, "greatest": 1006}
    return TopicFate(**known | more)


@pytest.mark.parametrize(("changed", "line"), [
    ({}, "A: 1,500 records in 2 queues, queueOffsets 7 to 1,006"),
    ({"becomes": "B"}, "A -> B: 1,500 records in 2 queues, queueOffsets 7 to 1,006"),
    ({"taken": 1, "queues": 1}, "A: 1 record of 1,500 in 1 queue, queueOffsets 7 to 1,006"),
    ({"taken": 0, "becomes": ""}, "A: left out, 1,500 records"),
    ({"least": 5, "greatest": 5}, "A: 1,500 records in 2 queues, queueOffsets 5 to 5"),
    ({"least": (1 << 63) - 1, "greatest": -1}, "A: 1,500 records in 2 queues"),
])  # fmt: skip
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
        "converted /a, /b -> /out (RocketMQ 5.3.3)", "  log       0 to 5,000",
        "  log       10 to 6,000", "  becomes   4,096 to 9,000, 1 record",
        "  shared    3 records of /b are in a store before it too: taken once",
        f"  topic     {fate().line()}", "  warning   w",
        "  cleaned   /old, left by a run that ended early",
        "  made      1 segment, 0 derived files, 1.5 s", "  next      start a broker on /out",
    ]  # fmt: skip


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


# --- Transactions, delayed messages and timers of a converted store stand as they stood before.
LEVELS = {"messageDelayLevel": "1s 2s 30s 1h"}  # of the broker that wrote these (fates.py)


def without_places(rows: Any) -> list[dict[str, Any]]:
    shown = (row._asdict() for row in rows)
    return [{n: v for n, v in row.items() if "physical" not in n} for row in shown]


@pytest.mark.parametrize("name", LIVED)
def test_a_broker_that_lived_is_told_the_same(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    version = name.partition("_")[2]
    made = tmp_path / "made"
    convert(
        Session(), str(store), str(made), rocketmq=version, settings=LEVELS,
        to_settings={"mappedFileSizeCommitLog": "9000"},
    )  # fmt: skip
    with (
        open_store(str(store), rocketmq=version) as one,
        open_store(str(made), rocketmq=version) as other,
    ):
        told = without_places(one.transactions(everything=True))
        assert told
        assert without_places(other.transactions(everything=True)) == told
        delayed = without_places(one.delayed(everything=True))
        assert without_places(other.delayed(everything=True)) == delayed


def test_transactions_in_rocksdb_tell_of_places(tmp_path: Path) -> None:
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    with pytest.raises(StoreError, match="RMQ_SYS_ROCKSDB_TRANS_"):
        convert(Session(), str(store), str(tmp_path / "made"), rocketmq="5.5.0")
    assert not (tmp_path / "made").exists()


HALF, OP, TIMER = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer"


def half(topic: str, n: int, body: bytes = b"half") -> Message:
    text = properties(("REAL_TOPIC", topic), ("REAL_QID", "0"), ("UNIQ_KEY", f"u{n}{topic}"))
    return Message(HALF, 0, n, body, text, store_timestamp=1_700_000_000_000 + n)


def op(n: int, offset: int) -> Message:
    return Message(OP, 0, n, b"%d," % offset, properties(("TAGS", "d")),
                   store_timestamp=1_700_000_000_000 + offset)  # fmt: skip


def test_of_chosen_topics_pending_half_messages_are_taken_and_no_others() -> None:
    halves = [half("AB"[n % 2], n, b"half of %d" % n) for n in range(8)]
    log = plain([Message("A"), Message("B"), *halves, op(0, 2), op(1, 5)])
    offsets = {"offsetTable": {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 1},
                               f"{OP}@CID_RMQ_SYS_TRANS": {"0": 2}}}  # fmt: skip
    for splits in (1, 9):
        storage = storage_of(log)
        storage.files[f"{STORE}/config/consumerOffset.json"] = json.dumps(offsets).encode()
        _, made = converted(log, storage, splits=splits, topics=["A"])
        found = records(log_of(made))
        assert _bodies(found) == [b"", b"half of 4", b"half of 6"]
        assert [struct.unpack_from(">q", r, 20)[0] for _, r in found[1:]] == [0, 1]
        told = json.loads(made.files[f"{OUTPUT}/config/consumerOffset.json"])["offsetTable"]
        assert told == {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 0}}
    _, made = converted(log, topics=["A"], rename={"A": "New"})
    assert all(b"REAL_TOPIC\x01New\x02" in r for _, r in records(log_of(made))[1:])


def _bodies(found: list[tuple[int, bytes]]) -> list[bytes]:
    return [r[88 : 88 + int.from_bytes(r[84:88])] for _, r in found]


@pytest.mark.parametrize("name", LIVED)
def test_what_waits_of_one_topic_waits_in_its_store_alone(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    version = name.partition("_")[2]

    def waits(path: Path) -> list[Any]:
        with open_store(str(path), rocketmq=version) as of:
            transactions = [(r.state, r.topic, r.unique_key) for r in of.transactions()
                            if r.state == "pending"]  # fmt: skip
            delayed = [(r.by, r.topic, r.unique_key, r.due) for r in of.delayed()
                       if r.state not in ENDED]  # fmt: skip
            return sorted([*transactions, *delayed], key=str)

    whole = waits(store)
    for topic in ("Live0", "Live1", "Live2"):
        made = tmp_path / topic
        convert(
            Session(), str(store), str(made), rocketmq=version, settings=LEVELS, topics=[topic],
        )  # fmt: skip
        wanted = [row for row in whole if row[1] == topic]
        assert wanted
        assert waits(made) == wanted
        assert not (made / "timerlog").exists()


def test_pending_transactions_of_rocksdb_are_refused_where_topics_are_chosen(tmp_path) -> None:
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    with open_store(str(store), rocketmq="5.5.0") as one:
        topics = {str(row.topic) for row in one.transactions() if row.state == "pending"}
    # `resolve-transactions` refuses these too (resolve._known_by_rocksdb)
    with pytest.raises(StoreError, match=r"pending transaction.*only their broker or producer"):
        convert(
            Session(), str(store), str(tmp_path / "made"), rocketmq="5.5.0", topics=sorted(topics)
        )
    assert not (tmp_path / "made").exists()
