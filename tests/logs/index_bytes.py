"""An index file's bytes, packed by the layout of docs/formats, whatever its numbers are."""

import struct
from collections.abc import Iterable, Sequence

_HEADER, _ENTRY = struct.Struct(">qqqqii"), struct.Struct(">iqii")


def pack_index(
    header: Sequence[int], slots: Sequence[int], entries: Iterable[Sequence[int]], room: int
) -> bytes:
    """header: begin and end timestamp, begin and end offset, hashSlotCount, indexCount. slots: the
    newest entry of each. entries: from entry 1 on, (keyHash, physicalOffset, timeDiff, previous).
    room: maxIndexNum.
    """
    raw = _HEADER.pack(*header) + struct.pack(f">{len(slots)}i", *slots) + bytes(_ENTRY.size)
    raw += b"".join(_ENTRY.pack(*each) for each in entries)
    return raw.ljust(_HEADER.size + 4 * len(slots) + _ENTRY.size * room, b"\0")
