"""The log itself, read for messages: by bytes in their records, by a filter, and over damage."""

import pytest

from reput.store_format.filter.filters import tag_filter
from reput.store_format.query.log_scan import needle_of, scan
from tests.logs import Message, properties
from tests.store_format.query.derived_stores import SEGMENT, Derived

MESSAGES = [
    Message(f"T{n % 2}", 0, n // 2, b"b" * (n % 5), properties(("TAGS", "AAB"[n % 3])))
    for n in range(50)
]
IN_FIRST = 20  # the first segment has messages 0 to 19


@pytest.fixture
def store() -> Derived:
    made = Derived(MESSAGES)
    assert sum(place < SEGMENT for place in made.places) == IN_FIRST
    return made


def found(
    store: Derived, needle: bytes = b"", start: int = 0, stop: int = 1 << 40, tags: str = "*"
) -> list[int]:
    chosen = None if tags == "*" else tag_filter(tags)
    with store.open() as opened:
        return store.numbers(list(scan(opened, start, stop, needle, store.notes, chosen)))


def test_messages_of_a_part_of_the_log_in_its_order(store: Derived) -> None:
    at = store.places
    assert found(store) == list(range(50))
    assert found(store, start=at[7], stop=at[25]) == list(range(7, 25))
    assert found(store, start=at[7], stop=at[7] + 1) == [7]
    assert found(store, start=at[7], stop=at[7]) == found(store, start=1 << 30) == []


@pytest.mark.parametrize("needle", [b"T1", b"\x01B\x02", b"TAGS", b"none"])
def test_of_a_needle_the_records_that_have_it(store: Derived, needle: bytes) -> None:
    numbers = {b"T1": range(1, 50, 2), b"\x01B\x02": range(2, 50, 3), b"TAGS": range(50)}
    assert found(store, needle) == list(numbers.get(needle, []))


def test_a_filter_and_a_needle_together(store: Derived) -> None:
    assert found(store, tags="B") == list(range(2, 50, 3))
    assert found(store, b"T1", tags="B") == [n for n in range(50) if n % 2 == 1 and n % 3 == 2]
    assert found(store, tags="C") == []


@pytest.mark.parametrize("tags", ["*", "B || A"])
def test_after_damage_it_goes_on_in_the_next_segment(store: Derived, tags: str) -> None:
    store.put(store.places[5], b"\xff" * 4)
    assert found(store, tags=tags) == [0, 1, 2, 3, 4, *range(IN_FIRST, 50)]
    (line,) = store.notes.lines
    assert f"physical {store.places[5]}" in line
    assert "what follows in this segment is not read" in line


def test_where_it_starts_within_a_record_the_segment_is_not_read(store: Derived) -> None:
    assert found(store, start=store.places[3] + 1) == list(range(IN_FIRST, 50))
    assert len(store.notes.lines) == 1


def test_progress_is_told_in_bytes_of_the_log(store: Derived) -> None:
    found(store, start=store.places[3], stop=store.places[13])
    found(store, start=store.places[13], stop=store.places[12])
    wanted = store.places[13] - store.places[3]
    assert (store.notes.scanned, store.notes.to_scan) == (wanted, wanted)


@pytest.mark.parametrize(
    ("text", "needle"), [("T", b"T"), ("\xe9", b"\xc3\xa9"), ("a\ufffdb", b""), ("", b"")]
)
def test_a_text_that_java_may_decode_from_other_bytes_has_no_needle(
    text: str, needle: bytes
) -> None:
    assert needle_of(text) == needle
