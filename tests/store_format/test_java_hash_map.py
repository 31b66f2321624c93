"""The order in which a `java.util.HashMap` yields its keys, worked out by hand from its tables.

A name of one character has that character's number as its hash, and as its spread.
"""

import pytest

from reput.store_format.java import hash_map_order
from tests.logs import key_with_hash


@pytest.mark.parametrize(
    ("names", "capacity", "order"),
    [
        ("", 16, ()),
        ("a", 16, (0,)),
        ("ba", 16, (1, 0)),  # 98 and 97
        ("pa", 16, (0, 1)),  # 112 is in bucket 0, 97 in bucket 1
        ("aq", 16, (0, 1)),  # 97 and 113 are both in bucket 1: as they were put
        ("qa", 16, (0, 1)),
        ("qa", 128, (1, 0)),
        ("abcdefghijkq", 16, (0, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),  # 12 names, 16 buckets
        ("abcdefghijklq", 16, (*range(12), 12)),  # one more, and there are 32
    ],
)
def test_names_of_one_character(names: str, capacity: int, order: tuple[int, ...]) -> None:
    assert hash_map_order(tuple(names), capacity) == order


def test_a_hashs_upper_half_counts_too() -> None:
    high, low = key_with_hash("", 0x0005_0000), key_with_hash("", 3)
    assert hash_map_order((high, low), 16) == (1, 0)  # buckets 5 and 3
    negative = key_with_hash("", -1)  # FFFFFFFF ^ FFFF: its lowest bits are 0
    assert hash_map_order((low, negative), 16) == (1, 0)


@pytest.mark.parametrize(("many", "bits"), [(8, 0xF), (9, 0x1F)])
def test_a_bucket_of_eight_that_gets_one_more_doubles_a_small_table(many: int, bits: int) -> None:
    one_bucket = [key_with_hash("", 16 * n) for n in reversed(range(many))]
    order = hash_map_order(tuple(one_bucket), 16)
    buckets = [16 * (many - 1 - i) & bits for i in order]
    assert buckets == sorted(buckets)
    assert [i for i in order if 16 * (many - 1 - i) & bits == 0] == [
        i for i in range(many) if 16 * (many - 1 - i) & bits == 0
    ]
    assert (order == tuple(range(many))) == (many == 8)


def test_a_table_of_64_is_not_doubled_for_a_long_bucket() -> None:
    names = tuple(key_with_hash("", 64 * n) for n in reversed(range(9)))
    assert hash_map_order(names, 64) == tuple(range(9))
