"""Messages of queues by position and time; what queues lack comes from the log, and is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.filter.filters import tag_filter
from reput.store_format.query.by_queue import as_client, by_offset, by_time, position_from
from tests.logs import Message, properties
from tests.store_format.derived.made_files import ENTRY
from tests.store_format.query.derived_stores import SEGMENT, Derived

START = 1_700_000_000_000
# Queue 0 of T has the even ones, queue 1 the odd ones, ten to a file; 7 is prepared, in no queue.
MESSAGES = [
    Message("T", n % 2, n // 2 - (n > 7 and n % 2), b"b", properties(("TAGS", "AB"[n // 2 % 2])),
            START + 10 * n, 4 if n == 7 else 0) for n in range(40)
]  # fmt: skip
EVEN, ODD = [*range(0, 40, 2)], [n for n in range(1, 40, 2) if n != 7]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def at(
    store: Derived, first: int, stop: int | None, queue: int = 0, scan: bool = False
) -> list[int]:
    with store.open() as opened:
        messages = by_offset(opened, "T", queue, first, stop, scan, store.notes)
        return store.numbers(list(messages))


def timed(
    store: Derived, begin: int | None, end: int | None, queue: int | None = None, tags: str = "*"
) -> list[int]:
    times = tuple(None if each is None else START + each for each in (begin, end))
    chosen = None if tags == "*" else tag_filter(tags)
    with store.open() as opened:
        messages = by_time(opened, "T", queue, times, False, store.notes, chosen)  # type: ignore[arg-type]
        return store.numbers(list(messages))


@pytest.mark.parametrize("scan", [False, True])
def test_positions_from_first_to_before_stop(store: Derived, scan: bool) -> None:
    assert at(store, 0, None, 0, scan) == EVEN
    assert at(store, 0, None, 1, scan) == ODD
    assert at(store, 9, 11, 0, scan) == [18, 20]
    assert at(store, 9, 9, 0, scan) == at(store, 20, None, 0, scan) == []
    assert store.notes.lines == []


@pytest.mark.parametrize(("begin", "end", "first", "stop"), [
    (None, None, 0, 40), (100, 200, 10, 21), (101, 199, 11, 20), (390, None, 39, 40),
    (391, None, 40, 40), (None, -1, 0, 0), (None, 0, 0, 1), (200, 100, 0, 0),
])  # fmt: skip
def test_times_of_all_queues_in_the_logs_order(store, begin, end, first, stop) -> None:
    wanted = [n for n in range(first, stop) if n != 7]
    assert timed(store, begin, end) == wanted
    assert timed(store, begin, end, queue=1) == [n for n in wanted if n % 2]
    of_tag = [n for n in wanted if n // 2 % 2]
    assert timed(store, begin, end, tags="B") == of_tag


@pytest.mark.parametrize("n", [0, 1, 8, 21, 39])
def test_a_message_stored_exactly_then_is_within_both_ends(store: Derived, n: int) -> None:
    for tags in ("*", "AB"[n // 2 % 2]):
        assert timed(store, 10 * n, 10 * n, tags=tags) == [n]
        assert timed(store, 10 * n, 10 * n, queue=n % 2, tags=tags) == [n]
        assert n in timed(store, None, 10 * n, tags=tags)
        assert n not in timed(store, None, 10 * n - 1, tags=tags)


def test_what_queues_lack_at_their_end_comes_from_the_log(store: Derived) -> None:
    for queue in (0, 1):
        del store.storage.files[store.paths(f"consumequeue/T/{queue}")[-1]]
    assert (at(store, 0, None), at(store, 0, None, 1)) == (EVEN, ODD)
    assert timed(store, 200, None, queue=0) == EVEN[10:]
    assert len(store.notes.lines) == 2
    assert all("it is read there" in line for line in store.notes.lines)


@pytest.mark.parametrize("queues", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("file", [0, -1])
def test_what_one_queue_lacks_comes_from_the_log_beside_what_others_have(
    store: Derived, file: int, queues: tuple[int, ...]
) -> None:
    for queue in queues:
        del store.storage.files[store.paths(f"consumequeue/T/{queue}")[file]]
    assert timed(store, None, None) == sorted(EVEN + ODD)
    assert timed(store, None, None, tags="B") == [n for n in sorted(EVEN + ODD) if n // 2 % 2]
    assert len(store.notes.lines) == 1
    assert at(store, 4, 14) == EVEN[4:14]


@pytest.mark.parametrize(("remove", "line"), [
    ("consumequeue", "the store has no queues; the log is read instead"),
    ("consumequeue/T/0",
     "the store has no such queue; `query --scan` looks for its messages in the log"),
])  # fmt: skip
def test_a_store_without_queues_is_read_and_without_this_one_not(store, remove, line) -> None:
    store.remove(remove)
    assert at(store, 0, None) == (EVEN if remove == "consumequeue" else [])
    assert store.notes.lines[0] == line


def test_a_client_pulls_between_two_offsets_and_a_queue_file_that_was_cut_is_not_used(
    store,
) -> None:
    path = store.paths("consumequeue/T/0")[-1]
    store.storage.files[path] = store.storage.files[path][:60]
    assert at(store, 0, None) == EVEN
    assert "was cut: others have 200; the log is read instead" in store.notes.lines[0]

    def pulled(begin: int | None, end: int | None) -> list[int]:
        with store.open() as opened:
            first, stop = (None if each is None else START + each for each in (begin, end))
            return store.numbers(list(as_client(opened, "T", 0, first, stop, store.notes)))

    assert pulled(None, None) == EVEN
    assert pulled(40, 80) == [4, 6]  # without the one at the end
    assert pulled(41, 81) == [6, 8]
    assert pulled(81, 40) == []


@pytest.mark.parametrize(("place", "size", "line"), [
    (-2, 100, "position 3: a message of another queue"), (1, 100, "position 3: no message there"),
    (1 << 40, 100, "position 3: the log has no such place"), (-1, -1, "--scan reads the log"),
])  # fmt: skip
def test_an_entry_that_leads_elsewhere_is_left_out(store, place, size, line) -> None:
    place = store.places[5] if place == -2 else place
    path = store.paths("consumequeue/T/0")[0]
    raw = store.storage.files[path]
    store.storage.files[path] = raw[:60] + ENTRY.pack(place, size, 0) + raw[80:]
    wanted = [n for n in EVEN if n != 6] if size > 0 else [0, 2, 4]
    assert at(store, 0, None) == wanted
    assert len(store.notes.lines) == 1
    assert line in store.notes.lines[0]


def test_what_has_expired_is_told_once(store: Derived) -> None:
    live = [n for n in EVEN if store.places[n] >= 2048]
    store.remove("commitlog/00000000000000000000")
    assert at(store, 0, None) == live
    assert store.notes.lines == ["s/consumequeue/T/0: its first messages have expired from the log"]


# --- Where a queue's messages from a time on begin, when the log lacks some that the queue names.
COUNT = 40


def made(times: tuple[int, ...], version: str = "5.3.3") -> Derived:
    """A queue with a message at each of these times, three or more segments of them."""
    body = b"b" * (3 * SEGMENT // len(times))
    return Derived([Message("T", 0, n, body, properties(("TAGS", "A")), START + time)
                    for n, time in enumerate(times)], version)  # fmt: skip


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
def test_what_the_log_lacks_is_old_before_it_and_new_behind_it(lost, time) -> None:
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


def test_a_bad_entry_that_the_search_meets_counts_as_newer_and_no_messages_begin_at_0() -> None:
    store = made(tuple(range(0, 400, 10)))
    path = store.paths("consumequeue")[2]  # entries 20 to 29; the search begins in the middle
    content = bytearray(store.storage.files[path])
    content[:8] = b"\xff" * 8
    store.storage.files[path] = bytes(content)
    assert found(store, 350) == 20
    assert found(store, 50) == 5
    store = made(tuple(range(20)))
    for path in store.paths("consumequeue"):
        store.storage.files[path] = bytes(len(store.storage.files[path]))
    assert found(store, 5) == 0
