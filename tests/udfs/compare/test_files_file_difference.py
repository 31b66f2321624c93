"""The place where two derived files differ, by its entry and field as docs/formats names them."""

from pathlib import Path

import numpy as np
import pytest

from reput.store_format.files.local import LocalStorage
from reput.udfs.compare.files import _not_zero, field_at, first_difference


@pytest.mark.parametrize(
    ("folder", "at", "what", "start", "size"),
    [
        ("consumequeue/T/0", 0, "entry 0 physicalOffset", 0, 8),
        ("consumequeue/T/0", 7, "entry 0 physicalOffset", 0, 8),
        ("consumequeue/T/0", 8, "entry 0 size", 8, 4),
        ("consumequeue/T/0", 39, "entry 1 tagsCode", 32, 8),
        ("batchconsumequeue/T/0", 20, "entry 0 storeTimestamp", 20, 8),
        ("batchconsumequeue/T/0", 46 * 3 + 36, "entry 3 batchSize", 46 * 3 + 36, 2),
        ("index", 0, "header beginTimestamp", 0, 8), ("index", 39, "header indexCount", 36, 4),
        ("index", 40, "slot 0", 40, 4), ("index", 40 + 4 * 7 - 1, "slot 6", 64, 4),
        ("index", 68, "entry 0 keyHash", 68, 4),
        ("index", 68 + 20 + 4, "entry 1 physicalOffset", 92, 8),
        ("index", 68 + 39, "entry 1 previous", 104, 4),
    ],
)  # fmt: skip
def test_each_byte_is_in_a_field(folder: str, at: int, what: str, start: int, size: int) -> None:
    """Of index files with seven slots: entries begin at 40 + 4 * 7."""
    field = field_at(folder, at, 7)
    assert (field.what, field.at, field.layout.itemsize) == (what, start, size)


def test_a_fields_value_is_a_signed_big_endian_number() -> None:
    assert field_at("consumequeue/T/0", 10, 7).value(b"\x7f\xff\xff\xff") == 0x7FFFFFFF
    assert field_at("index", 41, 7).value(b"\xff\xff\xff\xfe") == -2


@pytest.mark.parametrize(
    ("there", "wanted", "at"),
    [
        (b"", b"", -1),
        (b"abc", b"abc", -1),
        (b"abc", b"xbc", 0),
        (b"abc", b"abx", 2),
        (b"aaa", b"abb", 1),
    ],
)
def test_the_first_byte_that_differs(there: bytes, wanted: bytes, at: int) -> None:
    assert first_difference(np.frombuffer(there, np.uint8), np.frombuffer(wanted, np.uint8)) == at


@pytest.mark.parametrize("at", [5 << 20, (6 << 20) - 1])
def test_a_byte_after_a_hole_is_found(tmp_path: Path, at: int) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as sparse:
        sparse.truncate(6 << 20)
    assert _not_zero(LocalStorage().open(str(file)), 7) is None
    with file.open("r+b") as sparse:
        sparse.seek(at)
        sparse.write(b"x")
    assert _not_zero(LocalStorage().open(str(file)), 7) == at
    assert _not_zero(LocalStorage().open(str(file)), at + 1) is None
