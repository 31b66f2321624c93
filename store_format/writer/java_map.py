"""The order in which `java.util.HashMap` yields its keys: that of a message's properties.

A broker reads a message's properties into a HashMap and writes them out again
(MessageDecoder.string2messageProperties, messageProperties2String).
"""

from functools import lru_cache

from store_format.javatext import hash_text

_LOAD_FACTOR = 0.75


@lru_cache(maxsize=4096)
def hash_map_order(names: tuple[str, ...], capacity: int) -> tuple[int, ...]:
    """The numbers of `names`, put in that order into a HashMap, as it iterates over them.

    capacity: its initial one, a power of two. Names must differ. (From eight names of one bucket
    on a HashMap turns it into a tree, whose order is the same.)
    """
    while len(names) > capacity * _LOAD_FACTOR:
        capacity *= 2
    return tuple(sorted(range(len(names)), key=lambda i: _spread(names[i]) & (capacity - 1)))


def _spread(name: str) -> int:
    h = hash_text(name) & 0xFFFFFFFF
    return h ^ (h >> 16)
