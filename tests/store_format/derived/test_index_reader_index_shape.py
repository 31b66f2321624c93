"""The shape of an index file, by docs/formats/indexfile.md."""

import pytest

from reput.store_format.derived.index_reader import capacity, file_bytes


@pytest.mark.parametrize(
    ("slots", "entries", "length"),
    [
        (5_000_000, 20_000_000, 420_000_040),  # RocketMQ's own numbers
        (7, 50, 40 + 7 * 4 + 50 * 20),
        (1, 1, 40 + 4 + 20),
        (1 << 31, 1 << 31, 40 + (1 << 33) + 20 * (1 << 31)),
    ],
)
def test_a_file_has_a_header_slots_and_entries(slots: int, entries: int, length: int) -> None:
    assert file_bytes(slots, entries) == length


@pytest.mark.parametrize(("number", "messages"), [(20_000_000, 19_999_999), (2, 1), (1, 0)])
def test_the_room_of_entry_nought_is_never_used(number: int, messages: int) -> None:
    assert capacity(number) == messages
