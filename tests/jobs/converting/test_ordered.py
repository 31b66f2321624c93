"""Queues whose numbers stand in properties: batch queues, and LMQs beside a message's own queue."""

import json
import re
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source, complete_groups, renumbered
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from tests.converted import (
    BATCHES,
    LMQ,
    PLAIN,
    START,
    batch,
    config,
    derived_of,
    encoded,
    joined,
    light,
    log_of,
    position,
    records,
    records_of,
    source_of,
    stores_of,
)
from tests.in_process import STORE
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

WITH_LMQ = {**PLAIN, "enableLmq": "true", "enableMultiDispatch": "true"}
Stores = list[list[Message]]


def made_of(
    stores: Stores, splits: int, settings: Any = PLAIN, config: Any = (), **options: Any
) -> MemoryStorage:
    """The storage after a conversion of these stores. config: of each store, file -> content."""
    storage = stores_of(stores, config)
    joined(storage, len(stores), splits, settings, **options)
    return storage


def numbers_of(storage: MemoryStorage, name: str) -> list[int]:
    """The numbers that a property has in the new log, in its order."""
    found = [re.search(rb"%s\x01([\d,]+)" % name.encode(), r) for r in records_of(storage)]
    return [int(number) for each in found if each for number in each[1].split(b",")]


def entries(storage: MemoryStorage, folder: str, form: str) -> list[tuple[int, ...]]:
    """The entries of a queue in the new store."""
    made = derived_of(storage)
    raw = b"".join(made[path] for path in made if path.startswith(folder))
    return [each for each in struct.iter_unpack(form, raw) if each[1]]  # its size


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
    assert records_of(made) == encoded(wanted)


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


def test_an_lmq_of_two_stores_is_refused_unless_it_is_said_how_and_a_whole_one_stays() -> None:
    with pytest.raises(StoreError, match="topic '%LMQ%dev' is in store0 too: --meet renumber or"):
        made_of(two_light(), 1, WITH_LMQ)
    messages = [*[light("A", n, n, n) for n in range(3)], Message("X", store_timestamp=START)]
    assert records_of(made_of([messages], 1, WITH_LMQ, topics=["A"])) == encoded(messages[:3])


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
    assert [position(r) for r in records_of(made)] == new
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


# --- Which queues are numbered anew, and from where: those that lose or gain records.
NO_RECORD = Tally()


def tally(positions: int, counted: int, least: int) -> Tally:
    return Tally(positions=positions, counted=counted, least=least, greatest=least + positions - 1)


def test_a_queue_of_which_all_records_are_one_store_s_keeps_its_numbers() -> None:
    whole = {("A", 0): tally(9, 9, 5)}
    for stores, wanted in [
        ([], {}), ([whole], {}),
        ([{("A", 0): tally(9, 8, 5), ("A", 1): tally(9, 9, 5)}], {("A", 0): 5}),
        ([{("A", 0): tally(9, 0, 5)}], {}), ([{("A", 0): NO_RECORD}], {}),
        ([whole, {("A", 0): tally(1, 1, 3)}], {("A", 0): 3}),
        ([whole, {("A", 0): tally(1, 1, 7)}], {("A", 0): 5}),
        ([whole, {("A", 0): tally(4, 0, 3)}], {}), ([whole, {("A", 1): tally(4, 4, 3)}], {}),
    ]:  # fmt: skip
        assert renumbered([source_of(queues) for queues in stores]) == wanted


def test_stores_meet_by_the_new_names_and_ids_and_positions_stay() -> None:
    one = source_of({("A", 0): tally(9, 9, 5)}, Changes(renames=(("A", "B"),)))
    other = source_of({("B", 0): tally(4, 4, 7)})
    assert renumbered([one, other]) == {("B", 0): 5}
    apart = source_of({("B", 0): tally(4, 4, 7)}, Changes(shifts=(("B", 4),)))
    assert apart.new_queue(QueueKey("B", 0)) == ("B", 4)
    assert renumbered([one, apart]) == {}
    one.new_marks = {("A", 0, 7): 3, ("A", 1, 7): None}  # worked out anew
    assert [one.offset("A", 0, 7), one.offset("A", 1, 7), one.offset("A", 0, 8)] == [3, None, 8]


# --- Which positions a store gets of groups that only another one knows.
NONE_TAKEN = Tally(records=5, positions=5, least=3)


def of_queue(least: int, shared_end: int = 0) -> Tally:
    return Tally(records=9, taken=9, positions=9, counted=9, least=least, shared_end=shared_end)


def store(seen: Tally | None, offset: int | None, shift: int = 0) -> Source:
    """A store whose log has queue 0 of topic T, and in which group g has an offset there."""
    table = {} if offset is None else {"T@g": {"0": offset}}
    raw = json.dumps({"offsetTable": table}).encode()
    storage = MemoryStorage({f"{STORE}/config/consumerOffset.json": raw})
    job: Any = SimpleNamespace(plan=SimpleNamespace(folder=Folder(storage, STORE)))
    changes = Changes(merges=True, shifts=(("T", shift),) if shift else ())
    queues = {} if seen is None else {QueueKey("T", 0): seen}
    return Source(job, changes, MeasuredLog([], 0, 0, queues, []))


@pytest.mark.parametrize(
    ("sources", "given"),
    [
        ([store(of_queue(2), 7), store(of_queue(3), None)], [None, 3]),
        ([store(of_queue(2), None), store(of_queue(3), 7)], [2, None]),
        ([store(of_queue(2), 7), store(of_queue(3), 5)], [None, None]),
        ([store(None, 7), store(of_queue(3), None)], [None, 3]),
        # without records that are taken nothing waits
        ([store(of_queue(2), 7), store(NONE_TAKEN, None)], [None, None]),
        ([store(of_queue(2), 7), store(None, None)], [None, None]),
        # queues of their own
        ([store(of_queue(2), 7), store(of_queue(3), None, shift=4)], [None, None]),
        # what is shared with the first store is known, whatever the third one has
        ([store(of_queue(2), 7), store(of_queue(3, shared_end=9), None)], [None, 7]),
        ([store(of_queue(2), 7), store(of_queue(3, shared_end=6), None)], [None, 6]),
        ([store(of_queue(2), 7), store(of_queue(3, 6), None), store(of_queue(1), None)],
         [None, 6, 1]),
    ],
)  # fmt: skip
def test_a_group_that_a_store_does_not_know_has_consumed_only_what_is_shared(
    sources: list[Source], given: list[int | None]
) -> None:
    complete_groups(sources)
    assert [each.groups for each in sources] == [
        {} if offset is None else {("T", "g"): {0: offset}} for offset in given
    ]
