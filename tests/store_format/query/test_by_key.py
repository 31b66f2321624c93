"""Messages by a key: through the index or the log, by times, and as a broker answers."""

from typing import Any

import pytest

from reput.store_format.derived.index_reader import key_hash
from reput.store_format.query.by_key import as_broker, by_key, newest, note_if_wrong, read
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import Derived

START = 1_700_000_000_000
# Every third message has the key `x`, each its own; number 9 is rolled back, 12 of another topic.
MESSAGES = [
    Message(
        "U" if n == 12 else "T", 0, n, b"b",
        properties(("KEYS", f"k{n:02}" + (" x" if n % 3 == 0 else ""))), START + 1000 * n,
        0xC if n == 9 else 0,
    )
    for n in range(40)
]  # fmt: skip
OF_X = [n for n in range(0, 40, 3) if n not in (9, 12)]


@pytest.fixture
def store() -> Derived:
    return Derived(MESSAGES)


def found(store: Derived, key: str = "x", from_log: bool = False, **asked: Any) -> list[int]:
    topics = asked.pop("topics", ["T"])
    with store.open() as opened:
        messages = by_key(
            opened, topics, key, lambda each: each.topic in topics and each.has_key(key),
            from_log, store.notes, **asked,
        )  # fmt: skip
        return store.numbers(list(messages))


@pytest.mark.parametrize("from_log", [False, True])
def test_all_messages_of_a_key_in_the_logs_order(store: Derived, from_log: bool) -> None:
    assert found(store, from_log=from_log) == OF_X
    assert found(store, "k07", from_log) == [7]
    assert found(store, "k09", from_log) == []  # rolled back
    assert found(store, "none", from_log) == []
    assert found(store, topics=["T", "U"], from_log=from_log) == sorted([*OF_X, 12])
    assert store.notes.lines == []


@pytest.mark.parametrize(
    ("begin", "end", "first", "last"),
    [(6000, None, 6, 39), (6001, None, 15, 39), (None, 6000, 0, 6), (None, 5999, 0, 3),
     (6000, 6000, 6, 6), (6001, 14_999, 99, 99)],
)  # fmt: skip
def test_times_are_exact_and_both_included(
    store: Derived, begin: int | None, end: int | None, first: int, last: int
) -> None:
    times = tuple(None if each is None else START + each for each in (begin, end))
    wanted = [n for n in OF_X if first <= n <= last]
    assert found(store, times=times) == wanted
    assert found(store, from_log=True, times=times) == wanted


def test_where_the_index_ends_the_log_goes_on(store: Derived) -> None:
    for path in store.paths("index")[-3:]:
        del store.storage.files[path]
    assert found(store) == OF_X
    assert len(store.notes.lines) == 1
    store.remove("index")
    assert found(store) == OF_X


def test_a_place_without_a_message_is_noted_and_left_out(store: Derived) -> None:
    places = [store.places[3], store.places[4] + 1, 1 << 40]
    with store.open() as opened:
        assert store.numbers(list(read(opened, places, store.notes))) == [3]
    assert [each.split(":")[0] for each in store.notes.lines] == [
        "the index has a message there, and the log has none",
        f"the index has a message at {1 << 40}, where the log has none",
    ]


def test_what_has_expired_is_noted_once(store: Derived) -> None:
    store.remove("commitlog/00000000000000000000")
    assert found(store) == [n for n in OF_X if store.places[n] >= 2048]
    assert store.notes.lines == ["some messages that the index still has have expired from the log"]


def test_an_index_that_leads_to_another_message_is_noted(store: Derived) -> None:
    with store.open() as opened:
        message = opened.message(opened.log.record_at(store.places[3]))
        for hashes, lines in (({key_hash("T", "x")}, 0), ({key_hash("T", "y")}, 1)):
            note_if_wrong(message, hashes, store.notes)
            assert len(store.notes.lines) == lines


@pytest.mark.parametrize(("most", "count", "cut"), [(64, 12, False), (13, 12, False), (5, 5, True)])
def test_a_broker_gives_the_newest_with_the_hash(
    store: Derived, most: int, count: int, cut: bool
) -> None:
    with store.open() as opened:
        messages = list(as_broker(opened, "T", "x", None, None, most, store.notes))
    assert store.numbers(messages) == OF_X[-count:]
    assert (store.notes.cut, len(store.notes.lines)) == (cut, int(cut))


@pytest.mark.parametrize(("most", "kept", "cut"), [(2, [3, 4], True), (5, [0, 1, 2, 3, 4], False)])
def test_of_many_the_newest_are_kept_and_it_is_said(
    store: Derived, most: int, kept: list[int], cut: bool
) -> None:
    with store.open() as opened:
        some = (opened.message(opened.log.record_at(place)) for place in store.places[:5])
        assert store.numbers(list(newest(some, most, store.notes))) == kept
    assert store.notes.lines == (["cut: the newest 2 of 5"] if cut else [])
