"""Several stores as one: in which order, and what becomes of what meets and what both have."""

import heapq
from dataclasses import replace
from itertools import accumulate, count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.jobs.compare import compare
from reput.store_format.faults import StoreError
from reput.store_format.release.setting_table import SettingError
from tests import converted
from tests.in_process import STORE, Session
from tests.jobs.comparing.pairs import MASTER, SLAVE, message, store
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage

Stores = list[list[Message]]


def merged(
    storage: MemoryStorage, many: int, meet: str = "refuse", splits: int = 1, **more: Any
) -> Any:
    return converted.joined(storage, many, splits, meet=meet, **more)


def in_order(stores: Stores) -> list[tuple[int, Message]]:
    """(store, message) by store time, each store's own order kept."""
    feeds = []
    for number, messages in enumerate(stores):
        latest = accumulate((m.store_timestamp for m in messages), max)
        feeds.append([(at, number, m) for at, m in zip(latest, messages, strict=True)])
    return [(n, m) for _, n, m in heapq.merge(*feeds, key=lambda each: each[:2])]


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(st.tuples(st.integers(-3, 5), st.integers(0, 300)), max_size=30),
             min_size=1, max_size=3),
    st.sampled_from([1, 4, 30]), st.sampled_from(["1000", "2048", "30000"]),
)  # fmt: skip
def test_each_store_keeps_its_order_and_time_decides_between_them(drawn, splits, segment) -> None:
    stores = []
    for number, steps in enumerate(drawn):
        time, messages = converted.START, []
        for n, (step, size) in enumerate(steps):
            time += step
            messages.append(Message(f"T{number}", n % 2, n // 2, b"x" * size, store_timestamp=time))
        stores.append(messages)
    if len(stores) == 1:
        stores.append([])
    storage = converted.stores_of(stores, apart=True)
    merged(storage, len(stores), splits=splits, to_settings={"mappedFileSizeCommitLog": segment})
    old = converted.records(build_log([m for _, m in in_order(stores)], 1 << 20))
    start = -(-converted.SEGMENT * (len(stores) - 1) // int(segment)) * int(segment)
    assert converted.log_of(storage) == converted.written(old, start, int(segment))


def feed(
    topic: str, queues: int, first: int, mark: str, at: list[int], text: bytes = b""
) -> list[Message]:
    """Messages at these times, by turns in so many queues."""
    return [
        Message(topic, n % queues, first + n // queues, f"{mark}{n}".encode(), text,
                store_timestamp=t)
        for n, t in enumerate(at)
    ]  # fmt: skip


def two(topic: str = "T") -> Stores:
    return [feed(topic, 2, 5, "a", times(0, 8, 10)), feed(topic, 2, 100, "b", times(15, 6, 10))]


def test_queues_that_meet_and_one_store_twice_are_refused() -> None:
    storage = converted.stores_of(two(), apart=True)
    before = dict(storage.files)
    with pytest.raises(StoreError, match="queue 0 of topic 'T' is in store0 too: --meet apart"):
        merged(storage, 2)
    with pytest.raises(SettingError, match="each message would be there twice"):
        converted.joined(storage, 2, merge=[f"{STORE}1", f"{STORE}0"])
    assert storage.files == before


def configs(queues: int, group: str, **offsets: Any) -> dict[str, Any]:
    topic = {"topicName": "T", "readQueueNums": queues, "writeQueueNums": queues}
    table = {f"T@{name}": at for name, at in offsets.items()}
    return {
        "topics": {"topicConfigTable": {"T": topic}}, "consumerOffset": {"offsetTable": table},
        "subscriptionGroup": {"subscriptionGroupTable": {group: {}}},
    }  # fmt: skip


CONFIGS = [
    configs(4, "g", g={"0": 7, "1": 9}, own={"0": 6}), configs(2, "h", g={"0": 102, "1": 101}),
]  # fmt: skip


@pytest.mark.parametrize("splits", [1, 9])
def test_queues_of_later_stores_get_ids_above(splits: int) -> None:
    stores = two()
    storage = converted.stores_of(stores, CONFIGS, apart=True)
    merged(storage, 2, "apart", splits)
    messages = [replace(m, queue_id=m.queue_id + 4 * of) for of, m in in_order(stores)]
    assert converted.records_of(storage) == _bytes(messages)
    topic = {"topicName": "T", "readQueueNums": 6, "writeQueueNums": 6}
    assert converted.config(storage, "topics", "topicConfigTable")["T"] == topic
    assert converted.config(storage, "consumerOffset") == {
        "T@g": {"0": 7, "1": 9, "4": 102, "5": 101}, "T@own": {"0": 6},
    }  # fmt: skip
    assert converted.config(storage, "subscriptionGroup", "subscriptionGroupTable") == {
        "g": {},
        "h": {},
    }


def _bytes(messages: list[Message]) -> list[bytes]:
    log = converted.records(build_log(messages, 1 << 20, first_offset=converted.SEGMENT))
    return [
        record
        for _, record in converted.records(
            converted.written(log, converted.SEGMENT, converted.SEGMENT)
        )
    ]


@pytest.mark.parametrize("splits", [1, 9])
def test_queues_numbered_anew_lose_nothing_that_a_group_has_not_read(splits: int) -> None:
    stores = two()
    storage = converted.stores_of(stores, CONFIGS, apart=True)
    merged(storage, 2, "renumber", splits)
    numbers = {queue_id: count(5) for queue_id in (0, 1)}
    messages, new = [], {}
    for of, m in in_order(stores):
        messages.append(replace(m, queue_offset=next(numbers[m.queue_id])))
        new[of, m.queue_id, m.queue_offset] = messages[-1].queue_offset
    assert converted.records_of(storage) == _bytes(messages)
    assert converted.config(storage, "consumerOffset") == {
        # queue 1: the first store's messages are all read, the second's up to 101
        "T@g": {"0": min(new[0, 0, 7], new[1, 0, 102]), "1": new[1, 1, 101]},
        "T@own": {"0": new[1, 0, 100]},  # of the second store it has read nothing
    }  # fmt: skip
    assert [next(each) for each in numbers.values()] == [12, 12]


DELAYED = "SCHEDULE_TOPIC_XXXX"


def late(first: int, mark: str) -> list[Message]:
    return [replace(m, queue_id=2) for m in feed(DELAYED, 1, 0, mark, times(first, 6, 10))]


def test_what_is_delivered_already_is_not_delivered_again() -> None:
    levels = [{"delayOffset": {"offsetTable": {"3": at}}} for at in (4, 5)]
    storage = converted.stores_of([late(0, ""), late(1, "1")], levels, apart=True)
    merged(storage, 2)
    assert [converted.position(r) for r in converted.records_of(storage)] == [0, 1, 2]
    assert [converted.body(r) for r in converted.records_of(storage)] == [b"4", b"5", b"15"]
    assert converted.config(storage, "delayOffset") == {"3": 0}


@pytest.mark.parametrize("at", [(4, None), (None, 4)])
def test_what_waits_in_a_store_without_delay_offsets_is_delivered(at) -> None:
    # one store's messages are all older than the other's
    stores = [late(100 * (each is not None), "") for each in at]
    known = [{"delayOffset": {"offsetTable": {"3": each}}} if each else {} for each in at]
    storage = converted.stores_of(stores, known, apart=True)
    merged(storage, 2)
    assert len(converted.records_of(storage)) == 6 + 2
    assert converted.config(storage, "delayOffset") == {"3": 0}


@pytest.mark.parametrize("knows", [0, 1])
@pytest.mark.parametrize(
    ("topic", "group"), [("%RETRY%g", "g"), ("RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS")]
)
def test_what_waits_for_a_group_that_one_store_does_not_know_lies_before_no_position(
    topic: str, group: str, knows: int
) -> None:
    real = properties(("REAL_TOPIC", "T"), ("REAL_QID", "0"))
    waits = [  # all of the store that knows the group is newer
        feed(topic, 1, 0, "x", times(100 * (of == knows), 3, 10), real) for of in (0, 1)
    ]
    offsets = {"consumerOffset": {"offsetTable": {f"{topic}@{group}": {"0": 1}}}}
    storage = converted.stores_of(
        waits, [offsets if of == knows else {} for of in (0, 1)], apart=True
    )
    merged(storage, 2, "renumber")
    assert converted.config(storage, "consumerOffset") == {f"{topic}@{group}": {"0": 0}}


# --- A diverged pair merged: what both have is there once, and what one has alone is there too.
COMMON = [message(n) for n in range(20)]
OURS = [message(n, sender="B") for n in range(20, 25)]
THEIRS = [message(n, sender="C", store_timestamp=1_700_000_000_500 + 1000 * n)
          for n in range(20, 27)]  # fmt: skip


def pair(
    ours: list[Message], theirs: list[Message], offsets: Any = ({}, {}), first: int = 0
) -> MemoryStorage:
    files = {}
    for name, messages, own in ((MASTER, ours, offsets[0]), (SLAVE, theirs, offsets[1])):
        config = {"consumerOffset.json": {"offsetTable": own}}
        files.update(store(name, messages, converted.SEGMENT, first, config))
    return MemoryStorage(files)


def reunited(storage: MemoryStorage, splits: int = 1, meet: str = "renumber") -> Any:
    return converted.joined(storage, 2, splits, store=MASTER, merge=[SLAVE], meet=meet)


def times(first: int, count: int, step: int) -> list[int]:
    return [converted.START + first + n * step for n in range(count)]


def keys(messages: list[Message]) -> list[bytes]:
    return [m.properties[len("UNIQ_KEY") + 1 :][:9] for m in messages]


def keys_in(storage: MemoryStorage) -> list[bytes]:
    return [r.partition(b"UNIQ_KEY\x01")[2][:9] for r in converted.records_of(storage)]


@pytest.mark.parametrize("splits", [1, 7])
def test_what_both_have_is_taken_once_and_nothing_is_lost(splits: int) -> None:
    storage = pair([*COMMON, *OURS], [*COMMON, *THEIRS])
    summary = reunited(storage, splits)
    wanted = sorted([*COMMON, *OURS, *THEIRS], key=lambda m: m.store_timestamp)
    assert keys_in(storage) == keys(wanted)
    assert len(summary.topics) == 2
    assert summary.shared == [0, 20]
    assert "20 records of slave are in a store before it too: taken once" in summary.text()


def test_one_that_is_only_behind_adds_nothing_and_moves_nothing() -> None:
    storage = pair([*COMMON, *OURS], COMMON)
    reunited(storage, meet="refuse")
    assert keys_in(storage) == keys([*COMMON, *OURS])
    other = pair(COMMON, [*COMMON, *THEIRS])
    with pytest.raises(StoreError, match="--meet renumber"):
        reunited(other, meet="refuse")
    reunited(other)
    assert keys_in(other) == keys([*COMMON, *THEIRS])


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 20), st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 5]))
def test_a_drawn_pair_has_each_message_once(common, ours, theirs, splits) -> None:
    one = [*COMMON[:common], *(message(n, sender="B") for n in range(common, common + ours))]
    other = [*COMMON[:common], *(message(n, sender="C") for n in range(common, common + theirs))]
    storage = pair(one, other)
    reunited(storage, splits)
    assert sorted(keys_in(storage)) == sorted({*keys(one), *keys(other)})
    numbers = [converted.position(r) for r in converted.records_of(storage)]
    assert numbers == list(range(len(numbers)))


def test_a_group_reads_on_where_nothing_is_that_it_has_not_consumed() -> None:
    # behind the 20 that both have, ours and theirs by turns: B20 C20 B21 C21 ... C25 C26
    offsets = (
        {"T@both": {"0": 23}, "T@ours": {"0": 10}, "T@all": {"0": 25}},
        {"T@both": {"0": 15}, "T@theirs": {"0": 24}, "T@all": {"0": 27}, "T@early": {"0": 7}},
    )
    storage = pair([*COMMON, *OURS], [*COMMON, *THEIRS], offsets)
    reunited(storage)
    assert converted.config(storage, "consumerOffset") == {
        "T@both": {"0": 21},  # C20 is the first that it has not read: of ours it has read three
        "T@ours": {"0": 10},
        "T@theirs": {"0": 20},  # B20
        "T@all": {"0": 32},
        "T@early": {"0": 7},
    }


def test_what_compare_says_is_lost_by_either_choice_is_in_the_merged_store() -> None:
    storage = pair([*COMMON, *OURS], [*COMMON, *THEIRS])
    storage.folders.add("staging")
    report = compare(
        Session(), MASTER, [SLAVE], storage=storage, staging_folder="staging", rocketmq="5.3.3",
        settings={"mappedFileSizeCommitLog": str(converted.SEGMENT)},
    )  # fmt: skip
    only = [found.count("only") for found in report.pairs[0].found]
    assert only == [len(OURS), len(THEIRS)]
    reunited(storage, meet="apart")
    assert len(keys_in(storage)) == len(COMMON) + sum(only)
