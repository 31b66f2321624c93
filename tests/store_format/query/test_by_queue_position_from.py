"""Where a queue's messages from a time on begin, when the log lacks some that the queue names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.query.by_queue import position_from
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import SEGMENT, Derived

START = 1_700_000_000_000
COUNT = 40


def made(times: tuple[int, ...], version: str = "5.3.3") -> Derived:
    """A queue with a message at each of these times, three or more segments of them."""
    body = b"b" * (3 * SEGMENT // len(times))
    return Derived(
        [Message("T", 0, n, body, properties(("TAGS", "A")), START + time)
         for n, time in enumerate(times)], version,
    )  # fmt: skip


def found(store: Derived, time: int) -> int:
    with store.open() as opened:
        return position_from(opened.queue("T", 0, False), START + time, opened.log)


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=20, max_size=COUNT).map(sorted), st.integers(-1, 31))
def test_the_first_message_that_is_not_older(times: list[int], time: int) -> None:
    older = sum(each < time for each in times)
    assert found(made(tuple(times)), time) == older


@pytest.mark.parametrize("lost", [(0,), (-1,), (0, -1), (1,)], ids=str)
@pytest.mark.parametrize("time", [-1, *range(0, 400, 30), 391])
def test_what_the_log_lacks_is_old_before_it_and_new_behind_it(
    lost: tuple[int, ...], time: int
) -> None:
    store = made(tuple(range(0, 400, 10)))
    segments = store.paths("commitlog")
    at = {segments[number]: number for number in lost}
    for path in at:
        del store.storage.files[path]
    kept = [int(path.rpartition("/")[2]) for path in store.paths("commitlog")]
    there = [n for n, place in enumerate(store.places) if place - place % SEGMENT in kept]
    position = found(store, time)
    newer = [n for n in there if n * 10 >= time]
    if newer:  # none that the log has is passed over, nor one that is older begun with
        assert max((n for n in there if n * 10 < time), default=-1) < position <= newer[0]
    else:
        assert there[-1] < position <= COUNT


def test_a_bad_entry_that_the_search_meets_counts_as_newer() -> None:
    store = made(tuple(range(0, 400, 10)))
    path = store.paths("consumequeue")[2]  # entries 20 to 29; the search begins in the middle
    content = bytearray(store.storage.files[path])
    content[:8] = b"\xff" * 8
    store.storage.files[path] = bytes(content)
    assert found(store, 350) == 20
    assert found(store, 50) == 5


def test_a_queue_of_no_messages_begins_at_0() -> None:
    store = made(tuple(range(20)))
    for path in store.paths("consumequeue"):
        store.storage.files[path] = bytes(len(store.storage.files[path]))
    assert found(store, 5) == 0
