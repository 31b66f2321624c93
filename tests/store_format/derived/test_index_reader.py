"""Look-ups in index files: the hash of a key, what counts by time, and the limits of a query."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reput.store_format.derived import index_reader
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.release.settings import settings_from
from tests import golden_stores
from tests.logs import key_with_hash
from tests.memory_storage import MemoryStorage
from tests.store_format.derived.made_files import index_of

HASH = 5 + 31 * (35 + 31 * 84)  # of "T#\5": 84, 35 and 5 to the base 31
KEY = "\5"
SETTINGS = settings_from({"maxHashSlotNum": "1", "maxIndexNum": "9"})


def index(*files: bytes) -> index_reader.IndexReader:
    """Of files of one slot and room for nine, oldest first."""
    named = {f"s/index/2026010100000000{n}": raw for n, raw in enumerate(files)}
    return index_reader.IndexReader(Folder(MemoryStorage(named), "s"), SETTINGS)


def file_of(places: list[int], begin: int = 10_000, end: int = 90_000) -> bytes:
    """Entries of KEY a second apart, chained."""
    rows = [(HASH, place, n, n) for n, place in enumerate(places)]
    return index_of([len(rows)], rows, 9, begin, end)


def test_a_key_hash_and_the_times_of_entries() -> None:
    for text, hashed in [(-1, 1), (-(1 << 31), 0), (1 << 30, 1 << 30),
        (-(1 << 31) + 1, (1 << 31) - 1)]:  # fmt: skip
        assert index_reader.key_hash("T", KEY) == HASH
        assert index_reader.key_hash("T", key_with_hash("T#", text)) == hashed
    for number, begin, end, within in [(2, 5999, 9000, True), (2, 6000, 9000, False),
        (2, None, 5000, True), (2, None, 4999, False), (2, 5000, 5000, True),
        (1, 99_999, None, True), (1, None, 0, True), (7, None, None, True)]:  # fmt: skip
        assert index_reader.may_lie_within(number, 5000, begin, end) == within
        many = index_reader.may_lie_within(np.array([number] * 2), np.array([5000] * 2), begin, end)
        assert many.tolist() == [within] * 2


def test_a_query_takes_the_lesser_limit_and_the_last_entry_before_a_place() -> None:
    made = index(file_of([1, 2, 3]), file_of([10, 20, 30]))
    for limit, most, count, cut in ((7, 64, 6, False), (6, 64, 6, True), (64, 4, 4, True),
        (2, 9, 2, True)):  # fmt: skip
        found = made.query("T", KEY, limit, 0, 99_999, most)
        assert [hit.physical_offset for hit in found.hits] == [30, 20, 10, 3, 2, 1][:count]
        assert (found.cut, found.last_offset, found.last_timestamp) == (cut, 30, 90_000)
    # IndexService.queryOffset ends with the first file that begins before `begin`.
    made = index(file_of([1, 2, 3]), file_of([10], 20_000))

    def times(begin: int, end: int) -> list[int]:
        return [hit.timestamp for hit in made.query("T", KEY, 64, begin, end).hits]

    assert times(11_000, 99_999) == [20_000, 12_000, 11_000]
    assert times(20_001, 99_999) == times(0, 9_999) == []
    found = index(file_of([1, 2, 3]), file_of([10, 20, 30])).query("T", KEY, 3, 0, 99_999, until=20)
    assert [hit.physical_offset for hit in found.hits] == [10, 3, 2]
    for until, last in [(99, 30), (30, 20), (11, 10), (10, 3), (3, 2), (2, 1), (1, -1)]:
        made = index(file_of([1, 2, 3]), index_of([0], [], 9), file_of([10, 20, 30]))
        assert made.last_before(until) == last
        assert index().last_before(until) == -1
    for number in [-1, 0, 9, 1 << 31]:
        with index_reader.IndexFileReader(MemoryStorage({"f": file_of([1])}), "f", 1, 9) as file:
            assert file.entry(8) == (8, 0, 0, 0, 0)
            with pytest.raises(index_reader.BadIndex, match=f"entry {number}: not in 1..8"):
                file.entry(number)
    for name in ["x", "2026010100000000", "20261301000000000"]:
        storage = MemoryStorage({f"s/index/{name}": b""})
        assert index_reader.IndexReader(Folder(storage, "s"), SETTINGS).files == []


# --- How full index files are, counted by following each chain.
def chains_by_hand(file: index_reader.IndexFileReader) -> tuple[Counter[int], int]:
    lengths: Counter[int] = Counter()
    longest = 0
    for slot in range(file.slots):
        number, length = file.slot(slot), 0
        while number > 0:
            length += 1
            number = file.entry(number).previous
        if length:
            lengths[1 << length.bit_length() - 1] += 1
        longest = max(longest, length)
    return lengths, longest


@pytest.mark.parametrize("name", ["small_all_5.3.3", "small_all_4.1.0"])
def test_chains_are_those_that_a_look_up_follows(name: str) -> None:
    golden = golden_stores.unpack(name)
    slots, most = int(golden.settings["maxHashSlotNum"]), int(golden.settings["maxIndexNum"])
    paths = sorted((golden.expect / "index").iterdir())
    assert paths
    for path in paths:
        with index_reader.IndexFileReader(LocalStorage(), str(path), slots, most) as file:
            found = index_reader.index_stats(file)
            lengths, longest = chains_by_hand(file)
        assert (found.chains, found.longest, found.room) == (dict(lengths), longest, most - 1)


def test_a_header_that_promises_more_than_fits_is_not_believed(tmp_path: Path) -> None:
    golden = golden_stores.unpack("small_all_5.3.3")
    slots, most = int(golden.settings["maxHashSlotNum"]), int(golden.settings["maxIndexNum"])
    content = bytearray(next((golden.expect / "index").iterdir()).read_bytes())
    content[36:40] = np.array(2**31 - 1, ">i4").tobytes()
    (tmp_path / "20260101000000000").write_bytes(content)
    with index_reader.IndexFileReader(
        LocalStorage(), str(tmp_path / "20260101000000000"), slots, most
    ) as file:
        found = index_reader.index_stats(file)
    assert sum(found.chains.values()) <= slots
    assert found.longest <= most
