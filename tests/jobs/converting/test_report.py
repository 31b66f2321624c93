"""What a conversion says of its topics, for people, as JSON, and in the new store's manifest."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.converting.report import ConvertSummary, TopicFate, topic_fates
from reput.jobs.opening.questions import open_store
from reput.jobs.outputs.report import OutputFile
from reput.store_format.fate.rows import ENDED
from reput.store_format.faults import StoreError
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from tests.converted import body, config, converted, plain, position, records_of, source_of
from tests.in_process import STORE, Session, storage_of
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
    queues = {
        ("Z", 0): Tally(records=4, taken=3, bytes=30, positions=4, least=8, greatest=11),
        ("A", 0): Tally(records=2),
        ("Z", 5): Tally(records=1, taken=1, bytes=5, positions=1, least=2, greatest=2),
        ("Z", 6): Tally(records=1, taken=1, bytes=5),  # without a position
    }
    source = source_of(queues, Changes(renames=(("Z", "Y"),)))
    left_out, renamed = topic_fates(source)
    assert (left_out.topic, left_out.becomes, left_out.messages) == ("A", "", 2)
    assert renamed == TopicFate(source.job.plan.store, "Z", "Y", 3, 6, 5, 40, 2, 11)


def summary(**more: Any) -> ConvertSummary:
    known: dict[str, Any] = {"stores": ["/a"], "output": "/out", "rocketmq": "5.3.3"}
    known |= {"read_as": "4.9.3", "settings": {}, "old_starts": [0], "old_ends": [5000]}
    known |= {"log_start": 4096, "log_end": 9000, "shared": [0], "messages": 1}
    return ConvertSummary(**known | more)


@pytest.mark.parametrize(("topics", "more"), [(40, 0), (41, 1)])
def test_json_and_the_manifest_have_all_and_people_see_forty_topics(topics: int, more: int) -> None:
    made = summary(segments=[OutputFile("commitlog/0", 1, "")], seconds=2.0, cleaned=["/old"])
    assert (made.as_json()["segments"], made.as_json()["derived"]) == (1, 0)
    manifest = made.manifest()
    assert manifest["segments"][0]["path"] == "commitlog/0"
    assert manifest["format"].startswith("reput-convert-")
    assert not manifest.keys() & {"seconds", "output", "cleaned", "dry_run"}
    many = summary(topics=[fate(topic=f"T{n}") for n in range(topics)])
    lines = [line for line in many.text().splitlines() if line.startswith("  topic ")]
    assert len(lines) == 40 + more
    if more:
        assert lines[-1] == "  topic     ... and 1 more; --json has all"
    assert [line for line in many.details() if line.startswith("  topic ")] == [
        f"  topic     {each.line()}" for each in many.topics[40:]
    ]


# --- Transactions, delayed messages and timers of a converted store stand as they stood before.
LEVELS = {"messageDelayLevel": "1s 2s 30s 1h"}  # of the broker that wrote these (fates.py)


@pytest.mark.parametrize("name", LIVED)
def test_a_broker_that_lived_is_told_the_same_and_what_waits_waits(name, tmp_path) -> None:
    store, _ = unpack(name, tmp_path)
    version = name.partition("_")[2]
    made = tmp_path / "made"
    convert(
        Session(), str(store), str(made), rocketmq=version, settings=LEVELS,
        to_settings={"mappedFileSizeCommitLog": "9000"},
    )  # fmt: skip
    told = []
    for path in (store, made):
        with open_store(str(path), rocketmq=version) as of:
            for rows in (of.transactions(everything=True), of.delayed(everything=True)):
                shown = (row._asdict() for row in rows)
                told.append([{n: v for n, v in r.items() if "physical" not in n} for r in shown])
    assert told[0]
    assert told[:2] == told[2:]
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


def test_transactions_in_rocksdb_are_refused_as_they_tell_of_places(tmp_path: Path) -> None:
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    with open_store(str(store), rocketmq="5.5.0") as one:
        topics = {str(row.topic) for row in one.transactions() if row.state == "pending"}
    # `resolve-transactions` refuses pending ones too (resolve._known_by_rocksdb)
    for chosen, why in [
        ([], "RMQ_SYS_ROCKSDB_TRANS_"),
        (sorted(topics), r"pending transaction.*only their broker or producer"),
    ]:
        with pytest.raises(StoreError, match=why):
            convert(Session(), str(store), str(tmp_path / "n"), rocketmq="5.5.0", topics=chosen)
        assert not (tmp_path / "n").exists()


HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def of_topic(topic: str, n: int, raw: bytes, *pairs: tuple[str, str]) -> Message:
    text = properties(*pairs)
    return Message(topic, 0, n, raw, text, store_timestamp=1_700_000_000_000 + n)


def test_of_chosen_topics_pending_half_messages_are_taken_and_no_others() -> None:
    halves = [
        of_topic(HALF, n, b"half of %d" % n, ("REAL_TOPIC", "AB"[n % 2]), ("REAL_QID", "0"),
                 ("UNIQ_KEY", f"u{n}"))
        for n in range(8)
    ]  # fmt: skip
    ops = [of_topic(OP, n, b"%d," % at, ("TAGS", "d")) for n, at in enumerate((2, 5))]
    log = plain([Message("A"), Message("B"), *halves, *ops])
    offsets = {"offsetTable": {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 1},
                               f"{OP}@CID_RMQ_SYS_TRANS": {"0": 2}}}  # fmt: skip
    for splits in (1, 9):
        storage = storage_of(log)
        storage.files[f"{STORE}/config/consumerOffset.json"] = json.dumps(offsets).encode()
        _, made = converted(log, storage, splits=splits, topics=["A"])
        found = records_of(made)
        assert [body(r) for r in found] == [b"", b"half of 4", b"half of 6"]
        assert [position(r) for r in found[1:]] == [0, 1]
        assert config(made, "consumerOffset") == {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 0}}
    _, made = converted(log, topics=["A"], rename={"A": "New"})
    assert all(b"REAL_TOPIC\x01New\x02" in r for r in records_of(made)[1:])
