"""Which queues and which index keys one message goes to, by release and settings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
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
from tests.logs import Message, encode
from tests.memory_storage import MemoryStorage

DEFAULTS: dict[str, str] = {}


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
