"""A flipped bit in a store's first segment."""

from __future__ import annotations

from pathlib import Path


def flip(store: Path, place: int, byte: int) -> None:
    (path,) = [p for p in (store / "commitlog").iterdir() if int(p.name) == 0]
    with path.open("r+b") as file:
        file.seek(place + byte)
        value = file.read(1)[0]
        file.seek(place + byte)
        file.write(bytes([value ^ 1]))
