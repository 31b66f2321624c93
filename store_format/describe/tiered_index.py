"""An index file of a tiered store described for a reader (tieredstore's IndexStoreFile).

A compacted file is shown as its header and items, slot by slot, newest first. Of a file that is
still written, which is on the broker's own disk, only the header is shown.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.describe.record import Item, fields_at
from reput.store_format.layouts import (
    MAGIC_TIERED_INDEX,
    MAGIC_TIERED_INDEX_END,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_ITEM,
    TIERED_INDEX_SLOT,
)

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, Bytes], None]

_HEADER_BYTES, _ITEM_BYTES = TIERED_INDEX_HEADER.itemsize, TIERED_INDEX_ITEM.itemsize
_ITEMS_AT_ONCE = 1 << 14


def describe_tiered_index(read: Read, length: int, first: int = 0) -> Iterator[Item]:
    """The items of an index file, by "kind": header, entry (from number `first` on), damage.

    read: fills a buffer from an offset in the file. Memory does not depend on the file's length.
    """
    if length < _HEADER_BYTES:
        yield _damage("length", length, f"an index file has {_HEADER_BYTES} bytes or more")
        return
    raw = np.empty(_HEADER_BYTES, np.uint8)
    read(0, raw)
    header = fields_at(raw, TIERED_INDEX_HEADER, 0)
    yield {"kind": "header", "at": 0} | header
    if header["magic"] == MAGIC_TIERED_INDEX:
        return
    if header["magic"] != MAGIC_TIERED_INDEX_END:
        yield _damage("magic", header["magic"], "is not that of an index file")
        return
    count = header["indexItemCount"]
    start = length - count * _ITEM_BYTES
    slots, rest = divmod(start - _HEADER_BYTES, TIERED_INDEX_SLOT.itemsize)
    if count < 0 or slots <= 0 or rest:
        reason = "does not fit the file's length"
        yield _damage("indexItemCount", count, reason)
        return
    yield from _items(read, start, count, slots, first)


def _items(read: Read, start: int, count: int, slots: int, first: int) -> Iterator[Item]:
    names = TIERED_INDEX_ITEM.names or ()
    for number in range(first, count, _ITEMS_AT_ONCE):
        many = min(_ITEMS_AT_ONCE, count - number)
        raw = np.empty(many * _ITEM_BYTES, np.uint8)
        read(start + number * _ITEM_BYTES, raw)
        for i, values in enumerate(raw.view(TIERED_INDEX_ITEM).tolist()):
            fields: dict[str, Any] = dict(zip(names, values, strict=True))
            at = start + (number + i) * _ITEM_BYTES
            place: Item = {"kind": "entry", "number": number + i, "at": at}
            yield place | {"slot": fields["keyHash"] % slots} | fields


def _damage(field: str, value: int, reason: str) -> Item:
    return {"kind": "damage", "at": 0, "field": field, "value": value, "reason": reason}
