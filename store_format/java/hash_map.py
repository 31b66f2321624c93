"""The order in which `java.util.HashMap` yields its keys: that of a message's properties.

A broker reads a message's properties into a HashMap and writes them out again
(MessageDecoder.string2messageProperties, messageProperties2String).
"""

from functools import lru_cache

from reput.store_format.java.strings import hash_text

_LOAD_FACTOR = 0.75
_LONGEST_LIST = 8  # HashMap.TREEIFY_THRESHOLD
_LEAST_WITH_TREES = 64  # HashMap.MIN_TREEIFY_CAPACITY


@lru_cache(maxsize=4096)
def hash_map_order(names: tuple[str, ...], capacity: int) -> tuple[int, ...]:
    """The numbers of `names`, put in that order into a HashMap, as it iterates over them.

    capacity: its initial one, a power of two. Names must differ. A table of fewer than 64 buckets
    doubles when a bucket of eight names gets one more (HashMap.treeifyBin). A larger one makes a
    tree of such a bucket, whose own order is not followed here.
    """
    spreads = [_spread(name) for name in names]
    for many, spread in enumerate(spreads):
        if capacity < _LEAST_WITH_TREES:
            bucket = spread & (capacity - 1)
            if sum(other & (capacity - 1) == bucket for other in spreads[:many]) >= _LONGEST_LIST:
                capacity *= 2
        if many + 1 > capacity * _LOAD_FACTOR:
            capacity *= 2
    return tuple(sorted(range(len(names)), key=lambda i: spreads[i] & (capacity - 1)))


def _spread(name: str) -> int:
    h = hash_text(name) & 0xFFFFFFFF
    return h ^ (h >> 16)
