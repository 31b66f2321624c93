"""Index files: chains and entries against a plain model, however many slot ranges there are.

A sweep over many keys is compared with single look-ups in tests/store_format/query."""

import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.derived.index_file import (
    NO_MESSAGE,
    IndexedMessage,
    chain,
    fill_entries,
    header,
    slot_range,
)
from reput.store_format.layouts import INDEX_PUT

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
