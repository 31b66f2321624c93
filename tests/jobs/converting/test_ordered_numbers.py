"""Queues whose numbers stand in properties: batch queues, and LMQs beside a message's own queue."""

import json
import struct
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import StoreError
from tests.converted import (
    BATCHES,
    LMQ,
    PLAIN,
    SEGMENT,
    START,
    batch,
    derived_of,
    light,
    log_of,
    records,
    stores_of,
)
from tests.in_process import OUTPUT, STORE, Session, as_text
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage

WITH_LMQ = {**PLAIN, "enableLmq": "true", "enableMultiDispatch": "true"}
Stores = list[list[Message]]


def made_of(
    stores: Stores, splits: int, settings: Any = PLAIN, config: Any = (), **options: Any
) -> MemoryStorage:
    """The storage after a conversion of these stores. config: of each store, file -> content."""
    storage = stores_of(stores, config)
    convert(
        Session(), f"{STORE}0", OUTPUT, rocketmq="5.3.3", settings=as_text(settings),
        merge=[f"{STORE}{n}" for n in range(1, len(stores))], storage=storage,
        cut=Cut(-(-SEGMENT // splits), 2, 2), **options,
    )  # fmt: skip
    return storage


def numbers_of(storage: MemoryStorage, name: str) -> list[int]:
    """The numbers that a property has in the new log, in its order."""
    found = []
    for _, record in records(log_of(storage)):
        for pair in record.split(b"\x02"):
            before, _, value = pair.partition(b"\x01")
            if before.endswith(name.encode()):
                found += [int(each) for each in value.split(b",")]
    return found


def entries(storage: MemoryStorage, folder: str, form: str) -> list[tuple[int, ...]]:
    """The entries of a queue in the new store."""
    raw = b"".join(
        content for path, content in derived_of(storage).items() if path.startswith(folder)
    )
    every = struct.iter_unpack(form, raw)
    return [each for each in every if each[1]]  # its size


def config(storage: MemoryStorage, name: str, table: str) -> Any:
    return json.loads(storage.files[f"{OUTPUT}/config/{name}.json"])[table]


@pytest.mark.parametrize("splits", [1, 9])
def test_an_lmq_of_one_topic_of_several_has_no_gaps(splits: int) -> None:
    messages = [light("AB"[n % 2], n // 2, 8 + n, n) for n in range(9)]
    offsets = {
        "offsetTable": {"A@g": {"0": 1}, "B@g": {"0": 1}, f"{LMQ}@g": {"0": 11}},
        "lmqOffsetTable": {f"{LMQ}@%LMQ%h": 12},
    }
    made = made_of([messages], splits, WITH_LMQ, [{"lmqConsumerOffset": offsets}], topics=["A"])
    assert numbers_of(made, "INNER_MULTI_QUEUE_OFFSET") == [8, 9, 10, 11, 12]
    queue = entries(made, f"consumequeue/{LMQ}/0", ">qiq")
    assert [place for place, *_ in queue][-5:] == [at for at, _ in records(log_of(made))]
    assert config(made, "lmqConsumerOffset", "offsetTable") == {
        "A@g": {"0": 1}, f"{LMQ}@g": {"0": 10},
    }  # fmt: skip
    assert config(made, "lmqConsumerOffset", "lmqOffsetTable") == {f"{LMQ}@%LMQ%h": 10}


def test_a_name_that_no_queue_has_keeps_its_number() -> None:
    def named(n: int, number: int, skipped: str) -> Message:
        pairs = properties(
            ("INNER_MULTI_DISPATCH", f"%LMQ%a/b,{LMQ}"),
            ("INNER_MULTI_QUEUE_OFFSET", f"{skipped},{number}"),
        )
        return Message("AB"[n % 2], 0, n // 2, b"m", pairs)

    made = made_of([[named(n, n, "7") for n in range(6)]], 1, WITH_LMQ, topics=["B"])
    wanted = [named(1, 0, "7"), named(3, 1, "7"), named(5, 2, "7")]
    assert [r for _, r in records(log_of(made))] == [
        r for _, r in records(build_log(wanted, SEGMENT))
    ]


def two_light() -> Stores:
    return [
        [light("AB"[n % 2], n // 2, n, 10 * n, ",no", f",{n}") for n in range(12)],
        [light("C", n, n, 10 * n + 5) for n in range(8)],
    ]


@pytest.mark.parametrize("meet", ["renumber", "apart"])
@pytest.mark.parametrize("splits", [1, 9])
def test_an_lmq_of_two_stores_is_one(splits: int, meet: str) -> None:
    whole = {"lmqOffsetTable": {f"{LMQ}@%LMQ%h": 6}, "offsetTable": {"A@g": {"0": 2}}}
    made = made_of(
        two_light(), splits, WITH_LMQ,
        [{"lmqConsumerOffset": whole}, {"consumerOffset": {"offsetTable": {"C@g": {"0": 3}}}}],
        meet=meet,
    )  # fmt: skip
    queue = entries(made, f"consumequeue/{LMQ}/0", ">qiq")
    assert [place for place, *_ in queue] == [at for at, _ in records(log_of(made))]
    assert len(queue) == 20
    assert config(made, "lmqConsumerOffset", "lmqOffsetTable") == {f"{LMQ}@%LMQ%h": 1}
    assert config(made, "lmqConsumerOffset", "offsetTable") == {"A@g": {"0": 2}, "C@g": {"0": 3}}


def test_an_lmq_that_two_stores_have_is_refused_unless_it_is_said_how() -> None:
    with pytest.raises(StoreError, match="topic '%LMQ%dev' is in store0 too: --meet renumber or"):
        made_of(two_light(), 1, WITH_LMQ)


def test_an_lmq_of_which_all_is_taken_keeps_its_bytes() -> None:
    messages = [*[light("A", n, n, n) for n in range(3)], Message("X", store_timestamp=START)]
    made = made_of([messages], 1, WITH_LMQ, topics=["A"])
    assert [r for _, r in records(log_of(made))] == [
        r for _, r in records(build_log(messages[:3], SEGMENT))
    ]


@pytest.mark.parametrize("splits", [1, 9])
def test_batch_queues_of_two_stores_are_numbered_by_their_messages(splits: int) -> None:
    sizes = [3, 1, 9, 30, 5]
    bases = [sum(sizes[:n]) for n in range(5)]
    stores = [
        [batch(base, size, 10 * n + 5 * store) for n, (base, size) in
         enumerate(zip(bases, sizes, strict=True))]
        for store in (0, 1)
    ]  # fmt: skip
    consumed = [{"consumerOffset": {"offsetTable": {"B@g": {"0": at}}}, "topics": BATCHES}
                for at in (bases[3], bases[2])]  # fmt: skip
    made = made_of(stores, splits, config=consumed, meet="renumber")
    in_order = [size for size in sizes for _ in (0, 1)]
    new = [sum(in_order[:n]) for n in range(10)]
    assert numbers_of(made, "INNER_BASE") == new
    assert [struct.unpack_from(">q", r, 20)[0] for _, r in records(log_of(made))] == new
    queue = entries(made, "batchconsumequeue/B/0", ">qiqqqhii")
    assert [(base, size) for *_, base, size, _, _ in queue] == list(zip(new, in_order, strict=True))
    # read: the first store's first three, the second's first two
    assert config(made, "consumerOffset", "offsetTable") == {"B@g": {"0": new[5]}}


def test_a_position_within_a_batch_stays_within_it() -> None:
    stores = [[batch(0, 5, 0), batch(5, 5, 20)], [batch(0, 7, 10)]]
    consumed = [{"consumerOffset": {"offsetTable": {"B@g": {"0": at}}}, "topics": BATCHES}
                for at in (7, 7)]  # fmt: skip
    made = made_of(stores, 1, config=consumed, meet="renumber")
    assert config(made, "consumerOffset", "offsetTable") == {"B@g": {"0": 5 + 7 + 2}}
