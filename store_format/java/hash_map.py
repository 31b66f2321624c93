"""The order in which `java.util.HashMap` yields its keys, and so of a message's properties.

A broker reads a message's properties into a HashMap and writes them out again
(MessageDecoder.string2messageProperties, messageProperties2String).
"""

from functools import lru_cache

from reput.store_format.java.text import hash_text

_LOAD_FACTOR = 0.75
_LONGEST_LIST = 8  # HashMap.TREEIFY_THRESHOLD
_LEAST_WITH_TREES = 64  # HashMap.MIN_TREEIFY_CAPACITY


@lru_cache(maxsize=4096)
def hash_map_order(names: tuple[str, ...], capacity: int) -> tuple[int, ...]:
    """The order in which a HashMap iterates over `names`, as their indices.

    The names must differ and are put into the map in the given order. capacity: the map's first
    one, a power of two. A table of fewer than 64 buckets doubles when a bucket of eight names gets
    one more (HashMap.treeifyBin). A larger table turns such a bucket into a tree, whose order this
    function does not reproduce.
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
