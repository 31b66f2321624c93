"""Several stores as one: in which order, and what becomes of queues and positions that meet."""

import heapq
import json
import struct
from itertools import groupby
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.jobs.convert import convert
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import StoreError
from reput.store_format.release.setting_table import SettingError
from tests.converted import PLAIN, SEGMENT, log_of, records, stores_of, written
from tests.in_process import OUTPUT, STORE, Session, as_text
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage

START = 1_700_000_000_000
Stores = list[list[Message]]


def merged(
    storage: MemoryStorage, many: int, meet: str = "refuse", splits: int = 1, **more: Any
) -> Any:
    return convert(
        Session(), f"{STORE}0", OUTPUT, merge=[f"{STORE}{n}" for n in range(1, many)], meet=meet,
        rocketmq="5.3.3", settings=as_text(PLAIN), storage=storage,
        cut=Cut(-(-SEGMENT // splits), 2, 2), **more,
    )  # fmt: skip


def times(first: int, count: int, step: int) -> list[int]:
    return [START + first + n * step for n in range(count)]


def in_order(stores: Stores) -> list[tuple[int, Message]]:
    """(store, message) by store time, each store's own order kept."""
    feeds = []
    for number, messages in enumerate(stores):
        latest, feed = -(1 << 62), []
        for message in messages:
            latest = max(latest, message.store_timestamp)
            feed.append((latest, number, message))
        feeds.append(feed)
    return [(n, m) for _, n, m in heapq.merge(*feeds, key=lambda each: each[:2])]


def _change(message: Message, **more: Any) -> Message:
    return Message(**{**vars(message), **more})


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(st.tuples(st.integers(-3, 5), st.integers(0, 300)), max_size=30),
             min_size=1, max_size=3),
    st.sampled_from([1, 4, 30]), st.sampled_from(["1000", "2048", "30000"]),
)  # fmt: skip
def test_each_store_keeps_its_order_and_time_decides_between_them(drawn, splits, size) -> None:
    stores = []
    for number, steps in enumerate(drawn):
        time, messages = START, []
        for n, (step, body) in enumerate(steps):
            time += step
            messages.append(Message(f"T{number}", n % 2, n // 2, b"x" * body, store_timestamp=time))
        stores.append(messages)
    if len(stores) == 1:
        stores.append([])
    storage = stores_of(stores, apart=True)
    merged(storage, len(stores), splits=splits, to_settings={"mappedFileSizeCommitLog": size})
    old = [record for _, record in records(build_log([m for _, m in in_order(stores)], 1 << 20))]
    start = -(-SEGMENT * (len(stores) - 1) // int(size)) * int(size)
    wanted = written([(0, record) for record in old], start, int(size))
    assert log_of(storage) == wanted


def two(topic: str = "T") -> Stores:
    return [
        [Message(topic, n % 2, 5 + n // 2, b"a%d" % n, store_timestamp=t)
         for n, t in enumerate(times(0, 8, 10))],
        [Message(topic, n % 2, 100 + n // 2, b"b%d" % n, store_timestamp=t)
         for n, t in enumerate(times(15, 6, 10))],
    ]  # fmt: skip


def test_queues_that_meet_are_refused() -> None:
    storage = stores_of(two(), apart=True)
    before = dict(storage.files)
    with pytest.raises(StoreError, match="queue 0 of topic 'T' is in store0 too: --meet apart"):
        merged(storage, 2)
    assert storage.files == before


def test_one_store_twice_is_refused() -> None:
    storage = stores_of(two(), apart=True)
    with pytest.raises(SettingError, match="each message would be there twice"):
        convert(
            Session(), f"{STORE}0", OUTPUT, merge=[f"{STORE}1", f"{STORE}0"], storage=storage,
            rocketmq="5.3.3", settings=as_text(PLAIN),
        )  # fmt: skip


CONFIGS = [
    {"topics": {"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 4,
                                           "writeQueueNums": 4}}},
     "consumerOffset": {"offsetTable": {"T@g": {"0": 7, "1": 9}, "T@own": {"0": 6}}},
     "subscriptionGroup": {"subscriptionGroupTable": {"g": {}}}},
    {"topics": {"topicConfigTable": {"T": {"topicName": "T", "readQueueNums": 2,
                                           "writeQueueNums": 2}}},
     "consumerOffset": {"offsetTable": {"T@g": {"0": 102, "1": 101}}},
     "subscriptionGroup": {"subscriptionGroupTable": {"h": {}}}},
]  # fmt: skip


def config(storage: MemoryStorage, name: str, table: str) -> Any:
    return json.loads(storage.files[f"{OUTPUT}/config/{name}.json"])[table]


@pytest.mark.parametrize("splits", [1, 9])
def test_queues_of_later_stores_get_ids_above(splits: int) -> None:
    stores = two()
    storage = stores_of(stores, CONFIGS, apart=True)
    merged(storage, 2, "apart", splits)
    messages = [
        _change(m, queue_id=m.queue_id + 4) if store else m for store, m in in_order(stores)
    ]
    assert [r for _, r in records(log_of(storage))] == _bytes(messages)
    assert config(storage, "topics", "topicConfigTable")["T"] == {
        "topicName": "T", "readQueueNums": 6, "writeQueueNums": 6,
    }  # fmt: skip
    assert config(storage, "consumerOffset", "offsetTable") == {
        "T@g": {"0": 7, "1": 9, "4": 102, "5": 101}, "T@own": {"0": 6},
    }  # fmt: skip
    assert config(storage, "subscriptionGroup", "subscriptionGroupTable") == {"g": {}, "h": {}}


def _bytes(messages: list[Message]) -> list[bytes]:
    size = 1 << 20
    log = build_log(messages, size, first_offset=SEGMENT)
    again = written([(0, r) for _, r in records(log)], SEGMENT, SEGMENT)
    return [record for _, record in records(again)]


@pytest.mark.parametrize("splits", [1, 9])
def test_queues_numbered_anew_lose_nothing_that_a_group_has_not_read(splits: int) -> None:
    stores = two()
    storage = stores_of(stores, CONFIGS, apart=True)
    merged(storage, 2, "renumber", splits)
    counts = {0: 5, 1: 5}
    messages, new = [], {}
    for store, message in in_order(stores):
        number = counts[message.queue_id]
        counts[message.queue_id] += 1
        new[store, message.queue_id, message.queue_offset] = number
        messages.append(_change(message, queue_offset=number))
    assert [r for _, r in records(log_of(storage))] == _bytes(messages)
    assert config(storage, "consumerOffset", "offsetTable") == {
        # queue 1: the first store's messages are all read, the second's up to 101
        "T@g": {"0": min(new[0, 0, 7], new[1, 0, 102]), "1": new[1, 1, 101]},
        "T@own": {"0": new[1, 0, 100]},  # of the second store it has read nothing
    }  # fmt: skip
    queues = groupby(sorted((m.queue_id, m.queue_offset) for m in messages), lambda each: each[0])
    assert {q: [n for _, n in each] for q, each in queues} == {
        q: list(range(5, 12)) for q in (0, 1)
    }


def test_what_is_delivered_already_is_not_delivered_again() -> None:
    late = [
        [Message("SCHEDULE_TOPIC_XXXX", 2, n, b"%d" % (store * 10 + n), store_timestamp=t)
         for n, t in enumerate(times(store, 6, 10))]
        for store in (0, 1)
    ]  # fmt: skip
    configs = [{"delayOffset": {"offsetTable": {"3": at}}} for at in (4, 5)]
    storage = stores_of(late, configs, apart=True)
    merged(storage, 2)
    found = records(log_of(storage))
    assert [struct.unpack_from(">q", r, 20)[0] for _, r in found] == [0, 1, 2]
    bodies = [r[88 : 88 + int.from_bytes(r[84:88])] for _, r in found]
    assert bodies == [b"4", b"5", b"15"]
    assert config(storage, "delayOffset", "offsetTable") == {"3": 0}


@pytest.mark.parametrize("at", [(4, None), (None, 4)])
def test_what_waits_in_a_store_without_delay_offsets_is_delivered(at) -> None:
    # one store's messages are all older than the other's
    late = [
        [Message("SCHEDULE_TOPIC_XXXX", 2, n, b"%d" % (store * 10 + n), store_timestamp=t)
         for n, t in enumerate(times(100 * first, 6, 10))]
        for store, first in enumerate([at[0] is not None, at[1] is not None])
    ]  # fmt: skip
    known = [{"delayOffset": {"offsetTable": {"3": each}}} if each else {} for each in at]
    storage = stores_of(late, known, apart=True)
    merged(storage, 2)
    assert len(records(log_of(storage))) == 6 + 2
    assert config(storage, "delayOffset", "offsetTable") == {"3": 0}


@pytest.mark.parametrize("knows", [0, 1])
@pytest.mark.parametrize(
    ("topic", "group"), [("%RETRY%g", "g"), ("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS")]
)
def test_what_waits_for_a_group_that_one_store_does_not_know_lies_before_no_position(
    topic: str, group: str, knows: int
) -> None:
    real = properties(("REAL_TOPIC", "T"), ("REAL_QID", "0"))
    waits = [  # all of the store that knows the group is newer
        [Message(topic, 0, n, b"x", real, store_timestamp=t)
         for n, t in enumerate(times(100 * (store == knows), 3, 10))]
        for store in (0, 1)
    ]  # fmt: skip
    offsets = {"consumerOffset": {"offsetTable": {f"{topic}@{group}": {"0": 1}}}}
    storage = stores_of(waits, [offsets if store == knows else {} for store in (0, 1)], apart=True)
    merged(storage, 2, "renumber")
    assert config(storage, "consumerOffset", "offsetTable") == {f"{topic}@{group}": {"0": 0}}
