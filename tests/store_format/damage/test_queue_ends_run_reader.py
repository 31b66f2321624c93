"""What runs refer to: queueOffsets that are kept only where they jump, and entries of two sizes."""

import pytest

from reput.store_format.damage.queue_ends import (
    NO_QUEUE_DAMAGE,
    all_entries,
    all_offsets,
    entry_at,
    place_of,
)
from tests.store_format.damage.staged import SIZE, staged

ON_BY_ONE = [(5, 1000), (6, 1300), (7, 1600)]
JUMPING = [(5, 2000), (9, 2300), (8, 2600)]


def test_offsets_that_go_on_by_one_are_counted_from_the_first() -> None:
    files, [run] = staged(ON_BY_ONE)
    assert not len(files.offsets(run))
    assert all_offsets(files, run).tolist() == [5, 6, 7]


def test_offsets_that_jump_are_those_in_the_file() -> None:
    files, [_, run] = staged(ON_BY_ONE, JUMPING)
    assert all_offsets(files, run).tolist() == [5, 9, 8]


def test_offsets_past_an_int_and_of_one_record_are_whole() -> None:
    files, [run] = staged([((1 << 40) + 1, 0)])
    assert all_offsets(files, run).tolist() == [(1 << 40) + 1]


@pytest.mark.parametrize("batch", [0, 4])
def test_a_run_reads_its_own_entries_of_either_layout(batch: int) -> None:
    files, runs = staged(ON_BY_ONE, JUMPING, batch=batch)
    for run, places in zip(runs, ([1000, 1300, 1600], [2000, 2300, 2600]), strict=True):
        entries = all_entries(files, run)
        assert entries["physicalOffset"].tolist() == places
        assert entries["size"].tolist() == [SIZE] * 3
        assert [place_of(files, run, number) for number in range(3)] == places
    assert (all_entries(files, runs[1])["batchSize"] == 4).all() if batch else True


def test_one_entry_is_found_by_its_number_from_nought() -> None:
    files, [_, run] = staged(ON_BY_ONE, JUMPING)
    assert int(entry_at(files, run, 0)["physicalOffset"]) == 2000
    assert int(entry_at(files, run, 2)["physicalOffset"]) == 2600
    assert isinstance(place_of(files, run, 1), int)


def test_without_a_damage_search_no_queue_is_in_doubt() -> None:
    files, _ = staged(ON_BY_ONE)
    assert files.damage == NO_QUEUE_DAMAGE
    assert not any(NO_QUEUE_DAMAGE)
