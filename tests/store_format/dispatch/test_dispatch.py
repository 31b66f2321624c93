"""Which queues and which index keys one message goes to, by release and settings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.dispatch.dispatch import (
    Dispatching,
    Puts,
    dispatch,
    firsts,
    key_hashes,
    unpacked,
)
from reput.store_format.dispatch.queue_table import batch_topics, new_table, queues
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault
from reput.store_format.layouts import INDEX_MESSAGE, INDEX_PUT, QUEUE_PUT
from reput.store_format.log.properties import new_spans
from reput.store_format.log.rules import NO_CHECKS
from reput.store_format.log.walk import Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.rebuild import index
from reput.udfs.rebuild.index import IndexFiles
from reput.udfs.staging import HASHES, MESSAGES, Staging
from tests.logs import Message, encode, key_with_hash, properties
from tests.memory_storage import MemoryStorage

DEFAULTS: dict[str, str] = {}
STORED = 1_700_000_000_000
MULTI = {"enableMultiDispatch": "true", "enableLmq": "true"}


class Given(NamedTuple):
    """What one message was dispatched to."""

    puts: list[tuple[str, int, int, int, int]]  # topic, queue id, queueOffset, tagsCode, messages
    keys: list[int]
    fault: Fault


def dispatched(
    message: Message,
    release: str = "5.3.3",
    batch: tuple[str, ...] = (),
    settings: Mapping[str, str] = DEFAULTS,
) -> Given:
    raw = np.frombuffer(encode(message, 0), np.uint8)

    def read(at: int, buffer: Any) -> None:
        buffer[:] = raw[at : at + len(buffer)]

    rules = scan_rules(profile(release), settings_from(settings, release=release), batch)
    (step,) = Walk(read, len(raw), rules.records, NO_CHECKS, np.empty(len(raw), np.uint8)).steps(
        0, 1
    )
    table = new_table(1 << 10, 1 << 14)
    puts = Puts(
        np.zeros(999, QUEUE_PUT), np.zeros(999, np.int32), np.zeros(999, INDEX_MESSAGE),
        np.zeros(3, np.int64),
    )  # fmt: skip
    done, fault = dispatch(
        step.window, step.rows,
        Dispatching(rules.dispatch, np.array(rules.delays), batch_topics(list(batch)), table, puts,
                    new_spans()),
    )  # fmt: skip
    assert done == (fault == Fault.NONE)
    names = [(queue.raw_name.decode(), queue.queue_id) for queue in queues(table)]
    rows = puts.queue[: puts.used[0]]
    return Given(
        [
            (
                *names[row["queue"]], int(row["queueOffset"]), int(row["tagsCode"]),
                int(row["batchSize"]),
            )
            for row in rows
        ],
        [
            int(put["keyHash"])
            for put in unpacked(puts.hashes[: puts.used[1]], puts.messages[: puts.used[2]])
        ],
        Fault(fault),
    )  # fmt: skip


def text(**pairs: str) -> bytes:
    return properties(*pairs.items())


@pytest.mark.parametrize(
    ("sys_flag", "queued", "indexed"),
    [(0, True, True), (4, False, True), (8, True, True), (12, False, False), (3, True, True)],
)
def test_a_transactions_type_decides(sys_flag: int, queued: bool, indexed: bool) -> None:
    found = dispatched(Message(sys_flag=sys_flag, properties=text(KEYS="k")))
    assert (bool(found.puts), bool(found.keys)) == (queued, indexed)


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ("a", 97),
        ("ab", 97 * 31 + 98),
        ("a||b", ((97 * 31 + 124) * 31 + 124) * 31 + 98),
        (key_with_hash("", -5), -5),
        ("", 0),
    ],
)
def test_tags_code_is_the_signed_hash_of_the_whole_text(tags: str, code: int) -> None:
    assert dispatched(Message(properties=text(TAGS=tags))).puts == [("T", 0, 0, code, 1)]


@pytest.mark.parametrize(
    ("delay", "code"),
    [
        ("1", STORED + 1000),
        ("18", STORED + 7_200_000),
        ("99", STORED + 7_200_000),
        ("0", 97),
        ("-1", 97),
    ],
)
def test_on_the_schedule_topic_it_is_the_time_of_delivery(delay: str, code: int) -> None:
    waits = Message(
        "SCHEDULE_TOPIC_XXXX", properties=text(TAGS="a", DELAY=delay), store_timestamp=STORED
    )
    assert dispatched(waits).puts == [("SCHEDULE_TOPIC_XXXX", 0, 0, code, 1)]
    assert dispatched(Message(properties=waits.properties)).puts[0][3] == 97  # on another topic


@pytest.mark.parametrize("delay", ["x", "2147483648", " 1"])
def test_a_delay_that_is_no_int_is_a_fault(delay: str) -> None:
    message = Message("SCHEDULE_TOPIC_XXXX", properties=text(DELAY=delay, KEYS="k"))
    assert dispatched(message) == Given([], [], Fault.DELAY_LEVEL)


def test_keys_are_the_unique_key_then_each_word_then_from_5_4_0_the_tags() -> None:
    message = Message("", properties=text(TAGS="t", KEYS=" k  k ", UNIQ_KEY="u"))
    sharp, one = ord("#"), [ord("#") * 31 + ord(c) for c in "ukk"]
    assert dispatched(message, "5.3.4").keys == one
    tag = ((sharp * 31 + ord("T")) * 31 + sharp) * 31 + ord("t")
    assert dispatched(message, "5.4.0").keys == [*one, tag]
    assert dispatched(message, settings={"messageIndexEnable": "false"}).keys == []


def test_a_hash_is_absolute_and_0_for_the_lowest_int() -> None:
    keys = " ".join(key_with_hash("T#", hashed) for hashed in (-7, 7, -(1 << 31), (1 << 31) - 1))
    assert dispatched(Message(properties=text(KEYS=keys))).keys == [7, 7, 0, (1 << 31) - 1]


@pytest.mark.parametrize(
    ("base", "number", "put"),
    [
        ("7", "3", [("B", 0, 7, 0, 3)]),
        ("-1", "3", []),
        ("7", "-1", []),
        (None, "3", [("B", 0, 5, 0, 1)]),
    ],
)
def test_a_batch_queue_takes_its_numbers_from_the_properties(base, number, put) -> None:
    inner = {"INNER_NUM": number} | ({} if base is None else {"INNER_BASE": base})
    message = Message("B", queue_offset=5, properties=text(**inner))
    assert dispatched(message, batch=("B",)).puts == put
    for said in (dispatched(message), dispatched(message, "4.9.8", ("B",))):
        assert said.puts == [("B", 0, 5, 0, 1)]


@pytest.mark.parametrize(("base", "number"), [("x", "1"), ("1", "32768"), ("1", "")])
def test_batch_numbers_that_are_none_are_a_fault_on_any_topic(base: str, number: str) -> None:
    raw = properties(("INNER_BASE", base), ("INNER_NUM", number))
    fault = Fault.BATCH_NUMBERS if number else Fault.NONE  # an empty value is no property
    assert dispatched(Message(properties=raw)).fault == fault
    assert dispatched(Message(properties=raw), "4.9.8").fault == Fault.NONE


@pytest.mark.parametrize(
    ("names", "offsets", "release", "further"),
    [
        ("%LMQ%a,b", "1,2", "5.3.3", [("%LMQ%a", 0, 1), ("b", 3, 2)]),
        ("%LMQ%a,,b,,", "1,2,3", "5.3.3", [("%LMQ%a", 0, 1), ("", 3, 2), ("b", 3, 3)]),
        ("a,b", "1", "5.3.3", []),
        ("a/b,c", "1,2", "5.1.2", [("c", 3, 2)]),
        ("a/b,c", "1,2", "5.1.1", [("a/b", 3, 1), ("c", 3, 2)]),
        ("a,b,c", "1,x,3", "5.3.3", [("a", 3, 1)]),
        (" ", " ", "5.3.3", []),
        ("a", "1", "4.9.2", []),
    ],
)
def test_further_queues(names: str, offsets: str, release: str, further: list[Any]) -> None:
    lists = text(INNER_MULTI_DISPATCH=names, INNER_MULTI_QUEUE_OFFSET=offsets)
    puts = dispatched(
        Message(queue_id=3, queue_offset=9, properties=lists), release, settings=MULTI
    ).puts
    assert [put[:3] for put in puts] == [("T", 3, 9), *further]


# --- Index puts in staging: packed and unpacked, and read from any one to any other.
HASH = st.one_of(st.sampled_from([0, 1, (1 << 31) - 1]), st.integers(0, (1 << 31) - 1))
TIME = st.one_of(st.sampled_from([0, -1, -(1 << 63)]), st.integers(0, 1 << 42))
# messages: store time and the hashes of their keys
MESSAGES_OF_A_RUN = st.lists(st.tuples(TIME, st.lists(HASH, min_size=1, max_size=5)), max_size=12)


def puts_of(messages: list[tuple[int, list[int]]], start: int = 0) -> np.ndarray:
    return np.array(
        [
            (start + 100 * number, time, key)
            for number, (time, keys) in enumerate(messages)
            for key in keys
        ],
        INDEX_PUT,
    )


def packed(messages: list[tuple[int, list[int]]], start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    hashes = [key if n else ~key for _, keys in messages for n, key in enumerate(keys)]
    places = [(start + 100 * number, time) for number, (time, _) in enumerate(messages)]
    return np.array(hashes, np.int32), np.array(places, INDEX_MESSAGE)


@settings(deadline=None)
@given(MESSAGES_OF_A_RUN)
def test_what_is_packed_can_be_unpacked(messages: list[tuple[int, list[int]]]) -> None:
    puts = puts_of(messages)
    hashes, places = packed(messages)
    assert firsts(hashes) == len(messages)
    assert key_hashes(hashes).tolist() == puts["keyHash"].tolist()
    assert unpacked(hashes, places).tolist() == puts.tolist()


@settings(deadline=None)
@given(
    st.lists(MESSAGES_OF_A_RUN, min_size=1, max_size=4),
    st.integers(0, 60), st.integers(0, 60), st.sampled_from([1, 2, 3, 1 << 16]),
)  # fmt: skip
def test_any_range_of_puts_is_read_from_the_runs_that_have_it(runs, one, other, at_a_time) -> None:
    storage, ends, whole = MemoryStorage(), [], []
    for number, messages in enumerate(runs):
        hashes, places = packed(messages, number << 20)
        storage.files[f"s/{number}{HASHES}"] = hashes.tobytes()
        storage.files[f"s/{number}{MESSAGES}"] = places.tobytes()
        whole += puts_of(messages, number << 20).tolist()
        ends.append(len(whole))
    names = tuple(map(str, range(len(runs))))
    files = IndexFiles(Staging(storage, "s"), names, tuple(ends), 10, 20, 1, 0, 1)
    start, stop = sorted(min(place, len(whole)) for place in (one, other))
    before, index._PUTS_A_READ = index._PUTS_A_READ, at_a_time
    try:
        read = [put for puts in files.puts(start, stop) for put in puts.tolist()]
        keys = [key for hashes in files.hashes(start, stop) for key in hashes.tolist()]
    finally:
        index._PUTS_A_READ = before
    assert read == whole[start:stop]
    assert keys == [key for _, _, key in whole[start:stop]]
