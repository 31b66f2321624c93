"""What a query reports besides its messages: each line once, in order, and never too many."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reput.store_format.notes import Notes

MORE = "more was skipped; only the first 100 places are named"


def test_a_line_is_said_as_it_comes_and_only_once() -> None:
    said: list[str] = []
    notes = Notes(said.append)
    for text in ("b", "a", "b"):
        notes.note(text)
        assert said == notes.lines
    assert notes.lines == ["b", "a"]


@pytest.mark.parametrize(
    ("places", "more"), [(0, []), (1, []), (100, []), (101, [MORE]), (5000, [MORE])]
)
def test_a_hundred_skipped_places_are_named(places: int, more: list[str]) -> None:
    notes = Notes()
    for place in range(places):
        notes.skip(f"skipped {place}")
    assert notes.lines == [f"skipped {place}" for place in range(min(places, 100))] + more


def test_a_place_skipped_again_counts_once_and_a_note_takes_no_place_s_room() -> None:
    notes = Notes()
    for _ in range(200):
        notes.skip("skipped 0")
    for place in range(100):
        notes.skip(f"skipped {place}")
    assert len(notes.lines) == 100
    assert MORE not in notes.lines
    notes = Notes()
    for number in range(150):
        notes.note(f"note {number}")
    notes.skip("skipped")
    assert len(notes.lines) == 151


def test_a_scan_is_watched_with_the_notes_that_count_it() -> None:
    seen: list[tuple[int, int]] = []

    @contextmanager
    def watch(notes: Notes) -> Iterator[None]:
        yield
        seen.append((notes.scanned, notes.to_scan))

    notes = Notes(watch=watch)
    with notes.watching():
        notes.to_scan = 10
        notes.scanned = 7
    assert seen == [(7, 10)]
    with Notes().watching():
        pass
    assert (Notes().cut, Notes().scanned, Notes().to_scan) == (False, 0, 0)
