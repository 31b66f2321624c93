"""Which queues and which index keys one message goes to, by release and settings."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.dispatch.dispatch import firsts, key_hashes, unpacked
from reput.store_format.layouts import INDEX_MESSAGE, INDEX_PUT
from reput.udfs.rebuild import index
from reput.udfs.rebuild.index import IndexFiles
from reput.udfs.staging import HASHES, MESSAGES, Staging
from tests.memory_storage import MemoryStorage

# --- Index puts in staging: packed and unpacked, and read from any one to any other.
HASH = st.one_of(st.sampled_from([0, 1, (1 << 31) - 1]), st.integers(0, (1 << 31) - 1))
TIME = st.one_of(st.sampled_from([0, -1, -(1 << 63)]), st.integers(0, 1 << 42))
# messages: store time and the hashes of their keys
MESSAGES_OF_A_RUN = st.lists(st.tuples(TIME, st.lists(HASH, min_size=1, max_size=5)), max_size=12)


def puts_of(messages: list[tuple[int, list[int]]], start: int = 0) -> np.ndarray:
    return np.array([(start + 100 * number, time, key)
        for number, (time, keys) in enumerate(messages) for key in keys], INDEX_PUT)  # fmt: skip


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
@given(st.lists(MESSAGES_OF_A_RUN, min_size=1, max_size=4), st.integers(0, 60), st.integers(0, 60),
    st.sampled_from([1, 2, 3, 1 << 16]))  # fmt: skip
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
