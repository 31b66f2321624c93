"""Messages of queues by position and time; what queues lack comes from the log, and is told."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.filter.filters import tag_filter
from reput.store_format.query.by_key import by_key
from reput.store_format.query.by_queue import as_client, by_offset, by_time, position_from
from reput.store_format.query.inventory import QueueRow, queues, rates
from reput.store_format.query.reader import StoredMessage
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
    assert timed(store, 200, 100) == []
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
    def pulled(begin: int | None, end: int | None) -> list[int]:
        with store.open() as opened:
            first, stop = (None if each is None else START + each for each in (begin, end))
            return store.numbers(list(as_client(opened, "T", 0, first, stop, store.notes)))

    assert pulled(None, None) == EVEN
    assert pulled(40, 80) == [4, 6]  # without the one at the end
    assert pulled(41, 81) == [6, 8]
    assert pulled(81, 40) == []
    path = store.paths("consumequeue/T/0")[-1]
    store.storage.files[path] = store.storage.files[path][:60]
    assert at(store, 0, None) == EVEN
    assert "was cut: others have 200; the log is read instead" in store.notes.lines[0]


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


# --- Whatever files of a store are gone or cut, its queues and index answer as its log does.
START_QUEUES_OR_LOG = 1_700_000_000_000
SPANS = 4


def drawn(draw: random.Random) -> tuple[Derived, int]:
    """A store of two topics with up to three queues each, and the milliseconds that it spans."""
    time, ends, messages = 0, dict[tuple[str, int], int](), list[Message]()
    for _ in range(draw.randint(5, 60)):
        time += draw.choice([0, 1, 10, 10, 200])
        topic, queue_id = draw.choice("TTTU"), draw.randint(0, 2)
        position = ends.get((topic, queue_id), draw.choice([0, 0, 3, 25]))
        prepared = draw.random() < 0.08
        ends[topic, queue_id] = position + (not prepared)
        texts = properties(("TAGS", draw.choice("AB")), ("KEYS", f"k{draw.randint(0, 5)}"))
        body = bytes(draw.choice([1, 50, 300]))
        messages.append(Message(topic, queue_id, position, body, texts,
                                START_QUEUES_OR_LOG + time, 4 if prepared else 0))  # fmt: skip
    return Derived(messages, draw.choice(["4.9.7", "5.1.0", "5.3.3", "5.5.0"])), time


def damage(store: Derived, draw: random.Random) -> list[str]:
    """Up to three files go, or end early: what a query promises to notice (docs/query.md)."""
    hit = []
    for _ in range(draw.randint(0, 3)):
        what = draw.choice(["commitlog", "consumequeue", "index"])
        paths = store.paths(what)
        path = draw.choice([*paths[:1], *paths[-1:], draw.choice(paths)])
        alone = len(store.paths(path[2:].rpartition("/")[0])) == 1
        if what == "consumequeue" and (alone or draw.random() < 0.5):
            store.storage.files[path] = store.storage.files[path][: draw.choice([0, 10, 60, 100])]
        elif not (what == "commitlog" and alone):
            del store.storage.files[path]
        hit.append(path)
        if not store.paths(what):
            break
    return hit


def counts(rows: list[QueueRow]) -> list[QueueRow]:
    """Queues with messages; from where to where they go, a log with holes cannot tell."""
    return [row._replace(min_offset=0, max_offset=0) for row in rows if row.messages]


def twice(ask: Any, store: Derived, *asked: Any, more: Any = ()) -> list[list[StoredMessage]]:
    """A store's answers: through its queues or index, and from its log alone."""
    return [list(ask(*asked, scan, store.notes, *more)) for scan in (False, True)]


@pytest.mark.parametrize("seed", range(80))
def test_queues_and_index_answer_as_the_log_does(seed: int) -> None:
    draw = random.Random(seed)
    store, time = drawn(draw)
    hit = damage(store, draw)
    with store.open() as opened:
        found, wanted = (counts(queues(opened, scan, store.notes)) for scan in (False, True))
        assert found == wanted, hit
        of_topic = {row.topic: row for row in rates(opened, SPANS, store.notes)}
        for topic in "TU":
            for _ in range(3):
                times = tuple(
                    draw.choice([None, START_QUEUES_OR_LOG + draw.randint(0, time + 1)])
                    for _ in range(2)
                )
                tags = draw.choice([None, tag_filter("A")])
                queued, logged = twice(by_time, store, opened, topic, None, times, more=[tags])
                assert places(queued) == places(logged), (hit, times)
            for queue_id in range(3):
                first = draw.randint(0, 8)
                ends = first, first + draw.randint(0, 9)
                queued, logged = twice(by_offset, store, opened, topic, queue_id, *ends)
                assert places(queued) == places(logged), hit
            for key in (f"k{number}" for number in range(6)):

                def wanted_of(one: StoredMessage, topic: str = topic, key: str = key) -> bool:
                    return one.topic == topic and key in one.keys

                indexed, logged = twice(by_key, store, opened, [topic], key, wanted_of)
                assert places(indexed) == places(logged), hit
            _, logged = twice(by_time, store, opened, topic, None, (None, None))
            assert (topic in of_topic) == bool(logged)
            if logged:
                row = of_topic[topic]
                spans = [(each.store_timestamp - row.begin) // row.width for each in logged]
                assert list(row.messages) == [spans.count(n) for n in range(SPANS)], hit


def places(messages: list[StoredMessage]) -> list[int]:
    return [each.physical_offset for each in messages]
