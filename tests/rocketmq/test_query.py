"""A store is asked by a real client through its broker, and by us from its files: one answer."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.questions import Store, open_store
from reput.store_format.query.reader import StoredMessage
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import QUEUES, SETTINGS, TOPICS, living, messages, replace_derived
from tests.rocketmq.puts import SIZES

pytestmark = pytest.mark.rocketmq

SENT = 600
MOST = 64  # a broker answers no more for a key
FAR = 1 << 42


def _reported(message: StoredMessage) -> list[Any]:
    """As Consumers.told has a message."""
    record = message.record
    body = hashlib.sha1(message.body()).hexdigest()
    return [record.topic, record.queue_id, record.queue_offset, message.unique_key,
            record.physical_offset, body, str(message.tags),
            message.properties.get("KEYS", "null")]  # fmt: skip


def _all(found: Iterable[StoredMessage]) -> list[list[Any]]:
    return [_reported(message) for message in found]


def _life(version: str, store: Path, client: Driver) -> dict[str, Any]:
    """A broker's life, and what its client was reported of each question."""
    with living(version, store, driver=client) as (_, asking):
        sent = asking.send(messages(SENT))
        keys = [["Live0", "key0"], ["Live1", "key1"], ["Live2", "all2"], ["Live0", "no such key"]]
        keys += [[TOPICS[n % 3], f"key{n}"] for n in range(0, SENT, 29)]
        ids = [[message[0], message[4]] for message in sent[::17]]
        ids += [[message[0], message[3]] for message in sent[::23]]
        with open_store(str(store), rocketmq=version) as opened:  # while the broker has it
            stamps = sorted({each.store_timestamp for each in opened.messages(scan=True)})
        around = [stamp + more for stamp in stamps[:: len(stamps) // 4] for more in (-1, 0, 1)]
        times = [[topic, queue, time] for topic in TOPICS[:2] for queue in range(QUEUES)
                 for time in (0, *around, FAR)]  # fmt: skip
        reported = asking.ask("find", keys=keys, ids=ids, times=times)
    return {"keys": keys, "ids": ids, "times": times, **reported}


def _compare(life: dict[str, Any], opened: Store) -> None:
    for (topic, key), theirs in zip(life["keys"], life["by_key"], strict=True):
        assert _all(opened.query(topic, key, as_rocketmq=True)) == theirs
        everything = opened.query(topic, key)
        ours = _all(everything)
        assert ours[-MOST:] == theirs
        assert not everything.notes
        if len(theirs) == MOST:
            assert len(ours) == SENT // len(TOPICS)
            few = opened.query(topic, key, as_rocketmq=True, most=3)
            assert (_all(few), few.cut) == (theirs[-3:], True)
    for (topic, message_id), theirs in zip(life["ids"], life["by_id"], strict=True):
        assert _all(opened.by_message_id(message_id)) == [theirs]
        assert _all(opened.by_message_id(message_id, topic)) == [theirs]
    for (topic, queue, time), theirs in zip(life["times"], life["by_time"], strict=True):
        found = opened.messages(topic, queue, begin=time, as_rocketmq=True)
        first = next((each.queue_offset for each in found), None)
        end = {(row.topic, row.queue_id): row.max_offset for row in opened.queues()}[topic, queue]
        assert first == theirs or (first is None and theirs >= end), (topic, queue, time)
    rows = {row.topic: row for row in opened.topics()}
    assert [rows[topic].messages for topic in TOPICS] == [SENT // len(TOPICS)] * len(TOPICS)


@pytest.mark.long
@pytest.mark.parametrize(("reput", "version"), [("local", "4.9.7"), ("local", "5.5.0")],
                         indirect=["reput"])  # fmt: skip
def test_files_of_the_broker_and_ours_answer_as_they_did(version, folder, reput) -> None:
    store = folder / "store"
    with Driver(version) as client:
        life = _life(version, store, client)
    with open_store(str(store), rocketmq=version) as opened:
        _compare(life, opened)
    replace_derived(reput, version, store, folder / "ours", SETTINGS)
    with open_store(str(store), rocketmq=version) as opened:
        _compare(life, opened)


# --- What `reput stats` counts in a log is what StoreStatsService counted as it was written.


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3",
        pytest.param("5.5.0", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_puts_by_topic(version: str, tmp_path: Path) -> None:
    """Plain, delayed and half messages, and batches."""
    messages = [
        {"t": f"T{n % 3}", "q": n % 2, "b": n * 31 % 500, "bs": n, "born": 1,
         "p": {"UNIQ_KEY": f"U{n}", "DELAY": str(n % 4 + 1)} if n % 5 == 0 else {"KEYS": f"k{n}"}}
        for n in range(200)
    ]  # fmt: skip
    messages += [
        {
            "t": "B", "q": 0,
            "batch": [{"b": 10 + i, "bs": i, "p": {"KEYS": f"b{i}"}} for i in range(n)],
        }
        for n in (1, 3, 7)
    ]  # fmt: skip
    store = tmp_path / "store"
    with Driver(version) as driver:
        answer = driver.ask("put", store=str(store), settings=SIZES, messages=messages,
                            as_broker=True)  # fmt: skip
    assert set(answer["statuses"]) == {"PUT_OK"}
    with open_store(str(store), settings={n: str(v) for n, v in SIZES.items()}) as opened:
        rows = opened.stats(("topic",))
    assert {row.topic: row.messages for row in rows} == answer["times"]
    assert {row.topic: row.bytes for row in rows} == answer["sizes"]
