"""Index files: chains and entries against a plain model, however many slot ranges there are."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.derived.index_file import (
    NO_MESSAGE,
    IndexedMessage,
    chain,
    fill_entries,
    header,
    slot_range,
    sweep,
)
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader
from reput.store_format.layouts import INDEX_PUT
from tests.memory_storage import MemoryStorage
from tests.store_format.derived.made_files import index_of

ENTRY = struct.Struct(">iqii")
RANGES = (1, 2, 7, 64)
Put = tuple[int, int, int]  # physicalOffset, storeTimestamp, keyHash


def model(puts: list[Put], slots: int, begin: int) -> tuple[bytes, list[int]]:
    """IndexFile.putKey, a key after the other: (entries from number 1 on, the slot table)."""
    table = [0] * slots
    entries = b""
    for number, (place, time, key_hash) in enumerate(puts, 1):
        passed = (time - begin + (1 << 63)) % (1 << 64) - (1 << 63)  # as Java's long wraps
        seconds = max(0, min(passed // 1000, 0x7FFFFFFF)) if begin > 0 else 0
        entries += ENTRY.pack(key_hash, place, seconds, table[key_hash % slots])
        table[key_hash % slots] = number
    return entries, table


def built(
    puts: list[Put], slots: int, begin: int, ranges: int, pieces: int
) -> tuple[bytes, list[int]]:
    """The same through `chain` for each slot range and `fill_entries`, in several pieces."""
    rows = np.array(puts, INDEX_PUT)
    bounds = [slot_range(number, ranges, slots) for number in range(ranges)]
    table = np.zeros(slots, np.int32)
    chains = []
    for low, high in bounds:
        out = np.zeros(len(rows), np.int32)
        count = 0
        for piece in range(pieces):
            start, end = piece * len(rows) // pieces, (piece + 1) * len(rows) // pieces
            part = rows[start:end]
            count += chain(
                part["keyHash"].copy(), 1 + start, slots, low, table[low:high], out[count:]
            )
        chains.append(out[:count])
    previous = np.concatenate(chains).astype(np.int32)
    cursors = np.cumsum([0, *(len(c) for c in chains[:-1])]).astype(np.int64)
    lows = np.array([low for low, _ in bounds], np.int64)
    entries = b""
    for piece in range(pieces):
        part = rows[piece * len(rows) // pieces : (piece + 1) * len(rows) // pieces]
        out_bytes = np.full(len(part) * ENTRY.size, 0xEE, np.uint8)
        fill_entries(part, slots, lows, previous, cursors, begin, out_bytes)
        entries += out_bytes.tobytes()
    return entries, table.tolist()


HASHES = st.one_of(st.integers(0, 20), st.integers(0, (1 << 31) - 1), st.just(0))
TIMES = st.one_of(st.integers(0, 5_000_000_000_000), st.integers(-(1 << 63), (1 << 63) - 1))
PUTS = st.lists(st.tuples(st.integers(0, 1 << 40), TIMES, HASHES), max_size=60)


@settings(deadline=None, max_examples=80)
@given(PUTS, st.sampled_from([1, 2, 3, 64, 100, 1000]),
    st.sampled_from([0, -5, 1, 1_700_000_000_000, 4_999_999_999_999]), st.sampled_from(RANGES),
    st.integers(1, 3))  # fmt: skip
def test_any_number_of_ranges_gives_the_bytes_of_putting_one_by_one(
    puts: list[Put], slots: int, begin: int, ranges: int, pieces: int
) -> None:
    assert built(puts, slots, begin, ranges, pieces) == model(puts, slots, begin)


def test_a_negative_hash_has_a_slot_too() -> None:
    hashes = np.array([-1, -(1 << 31), 999, 352], np.int32)
    table, previous = np.zeros(1000, np.int32), np.zeros(4, np.int32)
    assert chain(hashes, 1, 1000, 0, table, previous) == 4
    assert previous.tolist() == [0, 0, 1, 2]


def test_a_header_is_of_the_first_and_last_message_or_of_what_its_file_was_opened_with() -> None:
    fields = struct.Struct(">qqqqii")
    first, last = IndexedMessage(11, 22), IndexedMessage(33, 44)
    assert fields.unpack(header(first, last, IndexedMessage(5, 6), 7, 8)) == (11, 33, 22, 44, 7, 8)
    # a file without entries keeps what it was opened with
    assert fields.unpack(header(None, None, IndexedMessage(5, 6), 0, 1)) == (5, 5, 6, 6, 0, 1)
    assert fields.unpack(header(None, None, IndexedMessage(-5, -6), 0, 0)) == (0, 0, 0, 0, 0, 0)
    assert fields.unpack(header(None, None, NO_MESSAGE, 0, 1)) == (0, 0, 0, 0, 0, 1)
    assert fields.unpack(header(IndexedMessage(-5, 0), last, first, 1, 2)) == (-5, 33, 0, 44, 1, 2)


# --- Many keys in one sweep: each entry of each chain once, whatever the blocks that are read.
SLOTS = 5
# Entries 1 to 9: hashes 3 and 8 share slot 3, hash 4 is in slot 4, hash 0 in slot 0.
HASHES_INDEX = [3, 8, 4, 3, 0, 4, 8, 8, 3]
PREVIOUS = [0, 1, 0, 2, 0, 3, 4, 7, 8]
ROWS: list[tuple[int, ...]] = [
    (h, 100 * n, n, p) for n, (h, p) in enumerate(zip(HASHES_INDEX, PREVIOUS, strict=True), 1)
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


def test_each_entry_with_one_of_the_hashes_once_or_a_chain_is_damaged() -> None:
    for hashes, numbers in [([3], [1, 4, 9]), ([8], [2, 7, 8]), ([3, 8], [1, 2, 4, 7, 8, 9]),
        ([4, 3], [1, 3, 4, 6, 9]), ([0, 4, 8], [2, 3, 5, 6, 7, 8]), ([13], []), ([1, 2], []),
        ([], []), ([2**31 - 1], []), ([13, 0], [5])]:  # fmt: skip
        for block in BLOCKS:
            assert found(*hashes, block=block) == [(n, 100 * n, n) for n in numbers]
    many = 20_000
    rows = [(3, n, 0, n - 1) for n in range(1, many + 1)]
    raw = index_of([0, 0, 0, many, 0], rows, many + 1)
    with IndexFileReader(MemoryStorage({"f": raw}), "f", SLOTS, many + 1) as file:
        some = [each["number"].tolist() for each in sweep(file, np.array([3], np.int32), 1 << 20)]
    assert sum(map(len, some)) == many
    assert {number for each in some for number in each} == set(range(1, many + 1))
    for change, field, value in [({4: (3, 1, 1, 4)}, "previous", 4),
        ({4: (3, 1, 1, 5)}, "previous", 5), ({4: (3, 1, 1, -1)}, "previous", -1),
        ({4: (4, 1, 1, 2)}, "keyHash", 4), ({8: (8, 1, 1, 99)}, "previous", 99)]:  # fmt: skip
        for block in BLOCKS:
            rows = [change.get(n, row) for n, row in enumerate(ROWS, 1)]
            with pytest.raises(BadIndex) as raised:
                found(8, 4, block=block, rows=rows)
            assert (raised.value.field, raised.value.value) == (field, value)
            assert found(4, block=block, rows=rows) == [(3, 300, 3), (6, 600, 6)]
    for head in [-1, 10, 29, 1 << 30]:
        with pytest.raises(BadIndex) as raised:
            found(4, 3, heads=[5, 0, 0, head, 6])
        assert (raised.value.field, raised.value.value) == ("slot", head)
        assert found(4, heads=[5, 0, 0, head, 6]) == [(3, 300, 3), (6, 600, 6)]
