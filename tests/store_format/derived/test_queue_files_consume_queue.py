"""Sizes of queue files, and the entries before a queue's first."""

import pytest

from reput.store_format.derived.queue_files import entry_bytes, pre_blank, segment_bytes


def test_entries_have_20_bytes_and_those_of_batches_46() -> None:
    assert (entry_bytes(False), entry_bytes(True)) == (20, 46)


@pytest.mark.parametrize(
    ("configured", "batch", "size"),
    [
        (6_000_000, False, 6_000_000), (20, False, 20), (21, False, 40), (19, False, 20),
        (1, False, 20), (13_800_000, True, 13_800_000), (46, True, 46), (47, True, 92),
    ],
)  # fmt: skip
def test_a_configured_size_is_rounded_up_to_whole_entries(
    configured: int, batch: bool, size: int
) -> None:
    assert segment_bytes(configured, batch) == size


def test_a_pre_blank_is_the_entry_of_the_formats_page() -> None:
    assert pre_blank(2).hex() == ("00" * 8 + "7fffffff" + "00" * 8) * 2
    assert pre_blank(0) == b""
