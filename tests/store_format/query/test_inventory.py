"""What `topics`, `queues` and `groups` say; the judge is the slow reference."""

import json
import shutil
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.query.by_queue import by_time
from reput.store_format.query.inventory import kind_of, queues, rates, unread_since
from tests.built import T0, Built
from tests.logs import Message as Made
from tests.reference.log import Message
from tests.store_format.query.asked import NAMES, Asked
from tests.store_format.query.derived_stores import Derived
from tests.store_format.query.stores import asked


@pytest.fixture
def small(tmp_path: Path) -> Asked:
    return Asked("small_all_5.3.3", tmp_path)


def by_topic(messages: list[Message]) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        if message.transaction in (0, 8):
            found[message.topic].append(message)
    return found


def wanted_row(messages: list[Message]) -> dict[str, Any]:
    times = [each.store_timestamp for each in messages]
    return {"topic": messages[0].topic,
            "queues": len({each.queue_id for each in messages}),
            "messages": len(messages), "minTimestamp": min(times),
            "maxTimestamp": max(times), "bytes": sum(each.size for each in messages)}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if "lmq" not in name])
def test_topics_add_up_what_the_log_has(name: str, tmp_path: Path, capsys: Any) -> None:
    store = Asked(name, tmp_path)
    wanted = [wanted_row(each) for _, each in sorted(by_topic(store.messages).items())]
    names = list(wanted[0])
    code, rows, said = asked(capsys, "topics", str(store.path), "--scan")
    assert (code, said) == (0, "")
    assert [{name: row[name] for name in names} for row in rows] == wanted
    assert list(rows[0]) == [*names, "kind", "configured"]
    code, rows, said = asked(capsys, "topics", str(store.path))
    assert (code, said) == (0, "")
    if "expired" not in name:  # there queues hold less: some were cleaned with the log
        found = [{name: row[name] for name in names} for row in rows]
        # messages whose queueOffset a queue has already are in no queue (mixed times)
        assert [row["topic"] for row in found] == [row["topic"] for row in wanted]
        assert all(a["messages"] <= b["messages"] for a, b in zip(found, wanted, strict=True))


def test_a_deleted_topic_is_found_in_the_log(small: Asked, capsys: Any) -> None:
    topic = small.messages[0].topic
    shutil.rmtree(small.path / "consumequeue" / topic)
    (small.path / "config").mkdir(exist_ok=True)
    topics = {name: {} for name in by_topic(small.messages) if name != topic}
    (small.path / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": {**topics, "%DLQ%g": {}}})
    )
    _, rows, _ = asked(capsys, "topics", str(small.path))
    assert topic not in [row["topic"] for row in rows]
    assert all(row["configured"] for row in rows)
    _, rows, _ = asked(capsys, "topics", str(small.path), "--scan", "--all")
    found = {row["topic"]: row for row in rows}
    assert found[topic]["configured"] is False
    assert found[topic]["messages"] == len(by_topic(small.messages)[topic])
    assert (found["%DLQ%g"]["kind"], found["%DLQ%g"]["messages"]) == ("dlq", 0)


def test_rates_count_each_message_once(tmp_path: Path, capsys: Any) -> None:
    store = Asked("small_all_4.9.7", tmp_path)
    with store.open() as opened:
        topics = {row.topic: row for row in opened.topics()}
        messages = {name: [m.store_timestamp for m in opened.messages(name)] for name in topics}
    _, rows, _ = asked(capsys, "topics", str(store.path), "--rates", "5")
    assert {row["topic"] for row in rows} == set(topics)
    for row in rows:
        times = messages[row["topic"]]
        assert sum(row["messages"]) == len(times)
        if times == sorted(times):
            edges = [row["begin"] + row["width"] * n for n in range(6)]
            assert row["messages"] == [
                sum(a <= time < b for time in times) for a, b in pairwise(edges)
            ]


def test_an_inner_batch_takes_as_many_positions_in_the_log_as_in_its_queue(
    tmp_path: Path, capsys: Any
) -> None:
    store = str(Asked("small_lmq_batch_5.5.0", tmp_path).path)
    for scan in ([], ["--scan"]):
        rows = asked(capsys, "queues", store, "--topic", "BatchTopic", *scan)[1]
        names = ("queueId", "messages", "maxOffset", "batch")
        assert [tuple(row[name] for name in names) for row in rows] == [
            (0, 1, 1, True), (1, 19, 19, True),
        ]  # fmt: skip
    for folder in ("consumequeue", "batchconsumequeue"):
        shutil.rmtree(Path(store) / folder)
    rows = asked(capsys, "topics", store, "--rates", "1")[1]
    assert [row["messages"] for row in rows if row["topic"] == "BatchTopic"] == [[20]]


def test_rates_leave_out_entries_beyond_the_log_and_a_topic_is_known_by_its_name(
    small, capsys
) -> None:
    _, before, _ = asked(capsys, "queues", str(small.path))
    max(small.path.glob("commitlog/*")).unlink()
    _, rows, _ = asked(capsys, "topics", str(small.path), "--rates", "5")
    _, after, _ = asked(capsys, "queues", str(small.path))
    assert sum(row["messages"] for row in before) > sum(row["messages"] for row in after)
    assert sum(sum(row["messages"]) for row in rows) == sum(r["messages"] for r in after)
    names = {
        "Orders": "normal", "%RETRY%g": "retry", "%DLQ%g": "dlq", "%LMQ%x": "lmq",
        "rmq_sys_wheel_timer": "system", "SCHEDULE_TOPIC_XXXX": "system", "TBW102": "system",
    }  # fmt: skip
    assert {name: kind_of(name) for name in names} == names


@pytest.mark.parametrize("lost", [0, 1, 2, -1])
def test_what_a_segment_had_is_not_counted_once_it_is_gone(lost: int) -> None:
    store = Derived([Made("T", n % 2, n // 2, bytes(200), b"", 10 * n) for n in range(1, 41)])
    del store.storage.files[store.paths("commitlog")[lost]]
    with store.open() as opened:
        found, scanned = (queues(opened, from_log, store.notes) for from_log in (False, True))
        assert found == scanned
        (row,) = rates(opened, 4, store.notes)
        messages = [
            m.store_timestamp for m in by_time(opened, "T", None, (None, None), True, store.notes)
        ]
        spans = [(time - row.begin) // row.width for time in messages]
        assert list(row.messages) == [spans.count(n) for n in range(4)]


def test_names_that_no_broker_gives_are_no_queues_and_groups_have_their_lag(small, capsys) -> None:
    with small.open() as opened:
        row = max(opened.queues(), key=lambda each: each.messages)
    (small.path / "config").mkdir(exist_ok=True)
    table = f'{{"offsetTable":{{"{row.topic}@G":{{{row.queue_id}:1,7:0}},"odd":{{}}}}}}'
    (small.path / "config" / "consumerOffset.json").write_text(table)  # as fastjson writes it
    code, rows, said = asked(capsys, "groups", str(small.path))
    assert (code, said) == (0, "")
    names = ("group", "topic", "queueId", "consumerOffset", "maxOffset", "lag")
    end = row.max_offset
    assert [tuple(each[name] for name in names) for each in rows] == [
        ("G", row.topic, row.queue_id, 1, end, end - 1), ("G", row.topic, 7, 0, 0, 0),
    ]  # fmt: skip
    table = f'{{"offsetTable":{{"{row.topic}@G":{{{row.queue_id}:{end + 3}}},"T@H":{{0:-3}}}}}}'
    (small.path / "config" / "consumerOffset.json").write_text(table)
    code, rows, said = asked(capsys, "groups", str(small.path))
    assert [each["lag"] for each in rows] == [-3, 0]
    assert f"group 'G', topic {row.topic!r}, queue {row.queue_id} at {end + 3}" in said
    assert "is set back to the end" in said
    assert "group 'H' has offset -3" in said
    (small.path / "config" / "consumerOffset.json").write_text("{no json")
    code, rows, said = asked(capsys, "groups", str(small.path))
    assert (code, rows) == (1, [])
    assert "consumerOffset.json: is not JSON" in said
    _, whole, _ = asked(capsys, "queues", str(small.path))
    folder = small.path / "consumequeue" / whole[0]["topic"]
    for name in ("\u00b2", "007", "+1", "9" * 200, "x"):
        (folder / name).mkdir()
    (folder / "99").write_bytes(b"")
    (small.path / "consumequeue" / "stray").write_bytes(b"")
    _, rows, said = asked(capsys, "queues", str(small.path))
    assert (rows, said) == (whole, "")
    (small.path / "config").mkdir(exist_ok=True)
    table = {"offsetTable": {"T@G": {"\u00b2": 1, "9" * 5000: 2, "0": "x"}, "T": {"0": 1}}}
    (small.path / "config" / "consumerOffset.json").write_text(json.dumps(table))
    assert asked(capsys, "groups", str(small.path))[:2] == (0, [])


@pytest.mark.parametrize("lost", [0, 2])
def test_a_group_reads_next_what_the_log_still_has(lost: int, tmp_path: Path) -> None:
    built = Built().put("T", count=60)
    store = built.derive().write(tmp_path / "store")
    for name in sorted((store / "commitlog").iterdir())[:lost]:
        name.unlink()
    first = next(n for n, place in enumerate(built.places()) if place >= lost * 2048)
    with open_store(str(store), settings=built.given()) as opened:
        queue, log = opened._opened.queue("T", 0, False), opened._opened.log
        found = [unread_since(queue, log, offset) for offset in (-1, 0, first, 59, 60, 99)]
        newest = max(row.max_timestamp for row in opened.queues())
    seconds = [-1 if each < 0 else (newest - each) // 1000 for each in found]
    assert seconds == [59 - first, 59 - first, 59 - first, 0, -1, -1]
    assert newest == T0 + 59_000
    assert bool(first) == bool(lost)
