"""How full index files are, counted by following each chain."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reput.store_format.derived.index_reader import IndexFileReader, index_stats
from reput.store_format.files.local import LocalStorage
from tests import golden_stores


def chains_by_hand(file: IndexFileReader) -> tuple[Counter[int], int]:
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
        with IndexFileReader(LocalStorage(), str(path), slots, most) as file:
            found = index_stats(file)
            lengths, longest = chains_by_hand(file)
        assert (found.chains, found.longest, found.room) == (dict(lengths), longest, most - 1)


def test_a_header_that_promises_more_than_fits_is_not_believed(tmp_path: Path) -> None:
    golden = golden_stores.unpack("small_all_5.3.3")
    slots, most = int(golden.settings["maxHashSlotNum"]), int(golden.settings["maxIndexNum"])
    content = bytearray(next((golden.expect / "index").iterdir()).read_bytes())
    content[36:40] = np.array(2**31 - 1, ">i4").tobytes()
    (tmp_path / "20260101000000000").write_bytes(content)
    with IndexFileReader(LocalStorage(), str(tmp_path / "20260101000000000"), slots, most) as file:
        found = index_stats(file)
    assert sum(found.chains.values()) <= slots
    assert found.longest <= most
