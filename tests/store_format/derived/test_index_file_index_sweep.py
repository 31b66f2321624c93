"""Many keys in one sweep: each entry of each chain once, whatever the blocks that are read."""

import numpy as np
import pytest

from reput.store_format.derived.index_file import sweep
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader
from tests.memory_storage import MemoryStorage
from tests.store_format.derived.made_files import index_of

SLOTS = 5
# Entries 1 to 9: hashes 3 and 8 share slot 3, hash 4 is in slot 4, hash 0 in slot 0.
HASHES = [3, 8, 4, 3, 0, 4, 8, 8, 3]
PREVIOUS = [0, 1, 0, 2, 0, 3, 4, 7, 8]
ROWS: list[tuple[int, ...]] = [
    (h, 100 * n, n, p) for n, (h, p) in enumerate(zip(HASHES, PREVIOUS, strict=True), 1)
]
HEADS = [5, 0, 0, 9, 6]
BLOCKS = (1, 20, 39, 40, 60, 1 << 16)


def found(
    *hashes: int, block: int = 1 << 16, heads: list[int] = HEADS, rows: list[tuple[int, ...]] = ROWS
) -> list[tuple[int, ...]]:
    """(number, physicalOffset, timeDiff) of each entry, by number."""
    raw = index_of(heads, rows, 30)  # type: ignore[arg-type]
    with IndexFileReader(MemoryStorage({"f": raw}), "f", SLOTS, 30) as file:
        some = [each.copy() for each in sweep(file, np.array(hashes, np.int32), block)]
    return sorted(row for each in some for row in each.tolist())


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    ("hashes", "numbers"),
    [
        ([3], [1, 4, 9]), ([8], [2, 7, 8]), ([3, 8], [1, 2, 4, 7, 8, 9]), ([4, 3], [1, 3, 4, 6, 9]),
        ([0, 4, 8], [2, 3, 5, 6, 7, 8]), ([13], []), ([1, 2], []), ([], []),
        ([2**31 - 1], []), ([13, 0], [5]),
    ],
)  # fmt: skip
def test_each_entry_with_one_of_the_hashes_once(
    block: int, hashes: list[int], numbers: list[int]
) -> None:
    assert found(*hashes, block=block) == [(n, 100 * n, n) for n in numbers]


def test_more_entries_than_are_handed_over_at_a_time() -> None:
    many = 20_000
    rows = [(3, n, 0, n - 1) for n in range(1, many + 1)]
    raw = index_of([0, 0, 0, many, 0], rows, many + 1)
    with IndexFileReader(MemoryStorage({"f": raw}), "f", SLOTS, many + 1) as file:
        some = [each["number"].tolist() for each in sweep(file, np.array([3], np.int32), 1 << 20)]
    assert sum(map(len, some)) == many
    assert {number for each in some for number in each} == set(range(1, many + 1))


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({4: (3, 1, 1, 4)}, "previous", 4), ({4: (3, 1, 1, 5)}, "previous", 5),
        ({4: (3, 1, 1, -1)}, "previous", -1), ({4: (4, 1, 1, 2)}, "keyHash", 4),
        ({8: (8, 1, 1, 99)}, "previous", 99),
    ],
)  # fmt: skip
def test_a_chain_that_does_not_lead_back_is_damage(
    block: int, change: dict[int, tuple[int, ...]], field: str, value: int
) -> None:
    rows = [change.get(n, row) for n, row in enumerate(ROWS, 1)]
    with pytest.raises(BadIndex) as raised:
        found(8, 4, block=block, rows=rows)
    assert (raised.value.field, raised.value.value) == (field, value)
    assert found(4, block=block, rows=rows) == [(3, 300, 3), (6, 600, 6)]


@pytest.mark.parametrize("head", [-1, 10, 29, 1 << 30])
def test_a_slot_that_leads_to_no_entry_is_damage(head: int) -> None:
    with pytest.raises(BadIndex) as raised:
        found(4, 3, heads=[5, 0, 0, head, 6])
    assert (raised.value.field, raised.value.value) == ("slot", head)
    assert found(4, heads=[5, 0, 0, head, 6]) == [(3, 300, 3), (6, 600, 6)]
