"""Names the place where two derived files differ in RocketMQ's terms: which entry, which field."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.derived.queue_files import is_batch, layout_of
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_HEADER_BYTES,
    INDEX_SLOT_BYTES,
)
from reput.store_format.names import INDEX

Bytes = npt.NDArray[np.uint8]


class Field(NamedTuple):
    """One field of a derived file: what it is called, where it stands, and its type."""

    what: str  # "entry 17 physicalOffset", "header endTimestamp", "slot 3"
    at: int  # byte offset in the file
    layout: np.dtype[Any]

    def value(self, raw: bytes) -> int:
        return int(np.frombuffer(raw, self.layout)[0])


def first_difference(there: Bytes, wanted: Bytes) -> int:
    """The index of the first byte that differs between two buffers of one length; -1 for none."""
    differs = np.flatnonzero(there != wanted)
    return int(differs[0]) if len(differs) else -1


def field_at(folder: str, at: int, slots: int) -> Field:
    """The field that covers byte `at` of a file in this folder; slots: maxHashSlotNum."""
    if folder == INDEX:
        return _index_field(at, slots)
    return _entry_field(layout_of(is_batch(folder)), at, 0)


def _index_field(at: int, slots: int) -> Field:
    entries_at = INDEX_HEADER_BYTES + slots * INDEX_SLOT_BYTES
    if at < INDEX_HEADER_BYTES:
        name, start, layout = _field_of(INDEX_HEADER, at)
        return Field(f"header {name}", start, layout)
    if at < entries_at:
        slot = (at - INDEX_HEADER_BYTES) // INDEX_SLOT_BYTES
        start = INDEX_HEADER_BYTES + slot * INDEX_SLOT_BYTES
        return Field(f"slot {slot}", start, np.dtype(">i4"))
    return _entry_field(INDEX_ENTRY, at, entries_at)


def _entry_field(layout: np.dtype[Any], at: int, base: int) -> Field:
    entry, within = divmod(at - base, layout.itemsize)
    name, start, kind = _field_of(layout, within)
    return Field(f"entry {entry} {name}", base + entry * layout.itemsize + start, kind)


def _field_of(layout: np.dtype[Any], at: int) -> tuple[str, int, np.dtype[Any]]:
    fields: Any = layout.fields
    for name, (kind, start, *_) in fields.items():
        if start <= at < start + kind.itemsize:
            return name, start, kind
    raise AssertionError(f"no field at {at}")
