"""One bit flipped in every field of a store's derived files that a broker or a client reads.

What rightly does not matter, and is not flipped here: what stands behind a queue's first unused
entry or an index file's indexCount (it is overwritten before it is read), entries of expired
messages but for their place in the queue, the index files' own names (they are times of their
making; the order alone counts), and the checkpoint, of which `check` reads what lies past the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reput.store_format.derived.queue_files import decode_entries, is_used, layout_of
from reput.store_format.layouts import (
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_HEADER_BYTES,
    INDEX_SLOT_BYTES,
)


class Place(NamedTuple):
    """A field of a file: [at, at + size), and what it is called."""

    what: str
    at: int
    size: int

    def flip(self, path: Path, bit: int) -> bytes:
        """Flip one of the field's bits; returns the file as it was."""
        whole = path.read_bytes()
        spoilt = bytearray(whole)
        spoilt[self.at + bit // 8 % self.size] ^= 1 << bit % 8
        path.write_bytes(spoilt)
        return whole


def start_of(store: Path) -> int:
    return min(int(path.name) for path in (store / "commitlog").iterdir())


def files(store: Path) -> dict[Path, list[Place]]:
    """The places of each derived file that holds anything of a live message."""
    start = start_of(store)
    found: dict[Path, list[Place]] = {}
    for kind, batch in (("consumequeue", False), ("batchconsumequeue", True)):
        for path in sorted(store.glob(f"{kind}/*/*/*")):
            found[path] = list(queue_places(path.read_bytes(), batch, start))
    return {path: places for path, places in found.items() if places}


def queue_places(raw: bytes, batch: bool, start: int) -> Iterator[Place]:
    entries = decode_entries(raw, batch)
    used = int(np.argmin(np.append(is_used(entries), False)))
    live = np.flatnonzero(entries["physicalOffset"][:used] >= start)
    yield from _fields(layout_of(batch), live.tolist(), 0)
    # The sign bit of a size makes no entry of what has none. (An offset alone is none either.)
    if used < len(entries) and len(live):
        at = used * entries.itemsize + 8
        yield Place("a size behind the last entry", at + 1, 3)


def index_places(raw: bytes, slots: int, start: int) -> Iterator[Place]:
    header = np.frombuffer(raw, INDEX_HEADER, 1)[0]
    fields: Any = INDEX_HEADER.fields
    for name, (kind, at, *_) in fields.items():
        # one more at endPhyOffset, its last byte, is a writer's mark (writer/index_folder)
        yield Place(f"header {name}", at, kind.itemsize - (name == "endPhyOffset"))
    for slot in range(slots):
        at = INDEX_HEADER_BYTES + slot * INDEX_SLOT_BYTES
        yield Place(f"slot {slot}", at, INDEX_SLOT_BYTES)
    base = INDEX_HEADER_BYTES + slots * INDEX_SLOT_BYTES
    count = int(header["indexCount"])
    entries = np.frombuffer(raw, INDEX_ENTRY, count, base)
    live = 1 + np.flatnonzero(entries["physicalOffset"][1:] >= start)
    numbers = live.tolist()
    if start and numbers[:1] == [1]:  # nobody knows the time against which it was measured
        yield from _fields(INDEX_ENTRY, [1], base, without=("timeDiff",))
        numbers = numbers[1:]
    yield from _fields(INDEX_ENTRY, numbers, base)


def _fields(
    layout: np.dtype[Any], numbers: list[int], base: int, without: tuple[str, ...] = ()
) -> Iterator[Place]:
    fields: Any = layout.fields
    for number in numbers:
        for name, (kind, at, *_) in fields.items():
            if name not in without:
                place = base + number * layout.itemsize + at
                yield Place(f"entry {number} {name}", place, kind.itemsize)
