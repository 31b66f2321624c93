"""`verify` and `check` tell each flipped bit, wrong length and wrong name, and only those: one bit
in every field of a store's derived files that a broker or a client reads.

What rightly does not matter, and is not flipped here: what stands behind a queue's first unused
entry or an index file's indexCount (it is overwritten before it is read), entries of expired
messages but for their place in the queue, the index files' own names (they are times of their
making; the order alone counts), and the checkpoint, of which `check` reads what lies past the log.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from reput.store_format import layouts
from reput.store_format.derived.queue_files import decode_entries, is_used, layout_of
from tests import golden_stores
from tests.quiet.said import run_check, run_verify
from tests.seeds import seeds

STORES = ["small_all_4.1.0", "small_all_5.5.0", "small_expired_5.3.3", "small_lmq_batch_5.5.0"]
MORE = ["small_all_4.9.7", "small_all_5.4.0", "tiny_5.3.3"]


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
    header = np.frombuffer(raw, layouts.INDEX_HEADER, 1)[0]
    fields: Any = layouts.INDEX_HEADER.fields
    for name, (kind, at, *_) in fields.items():
        # one more at endPhyOffset, its last byte, is a writer's mark (writer/index_folder)
        yield Place(f"header {name}", at, kind.itemsize - (name == "endPhyOffset"))
    for slot in range(slots):
        at = layouts.INDEX_HEADER_BYTES + slot * layouts.INDEX_SLOT_BYTES
        yield Place(f"slot {slot}", at, layouts.INDEX_SLOT_BYTES)
    base = layouts.INDEX_HEADER_BYTES + slots * layouts.INDEX_SLOT_BYTES
    count = int(header["indexCount"])
    entries = np.frombuffer(raw, layouts.INDEX_ENTRY, count, base)
    live = 1 + np.flatnonzero(entries["physicalOffset"][1:] >= start)
    numbers = live.tolist()
    if start and numbers[:1] == [1]:  # nobody knows the time against which it was measured
        yield from _fields(layouts.INDEX_ENTRY, [1], base, without=("timeDiff",))
        numbers = numbers[1:]
    yield from _fields(layouts.INDEX_ENTRY, numbers, base)


def _fields(layout: np.dtype[Any], numbers: list[int], base: int,
            without: tuple[str, ...] = ()) -> Iterator[Place]:  # fmt: skip
    fields: Any = layout.fields
    for number in numbers:
        for name, (kind, at, *_) in fields.items():
            if name not in without:
                place = base + number * layout.itemsize + at
                yield Place(f"entry {number} {name}", place, kind.itemsize)


def reported(store: Path, version: str, settings: Mapping[str, Any]) -> set[str]:
    return {each.path for each in run_verify(store, version, settings).differences}


def sound(name: str, folder: Path) -> tuple[Path, str, Mapping[str, Any]]:
    store, golden = golden_stores.whole(name, folder)
    if (golden.expect / "checkpoint").exists():
        shutil.copy(golden.expect / "checkpoint", store / "checkpoint")
    assert reported(store, golden.version, golden.settings) == set()
    return store, golden.version, golden.settings


def flip_all(store: Path, version: str, settings: Mapping[str, Any], seed: int,
             rounds: int) -> None:  # fmt: skip
    """In each round a bit of each file: each is reported. Then none is, when all are as before."""
    rng = random.Random(seed)
    slots = int(settings["maxHashSlotNum"])
    queues = files(store)
    index = sorted((store / "index").glob("*"))
    kinds = {path: _by_kind(list(index_places(path.read_bytes(), slots, start_of(store))))
             for path in index}  # fmt: skip
    for number in range(rounds):
        before: dict[Path, tuple[bytes, Place]] = {}
        for path, places in queues.items():
            kind = _by_kind(places)
            place = rng.choice(kind[sorted(kind)[number % len(kind)]])
            before[path] = place.flip(path, rng.randrange(64)), place
        if index:  # one: a wrong count or place of one file may tell of those behind it
            path = index[number % len(index)]
            names = sorted(kinds[path])
            place = rng.choice(kinds[path][names[number // len(index) % len(names)]])
            before[path] = place.flip(path, rng.randrange(64)), place
        try:
            found = reported(store, version, settings)
            missed = {str(path): place.what for path, (_, place) in before.items()
                      if str(path) not in found}  # fmt: skip
            assert not missed, number
            other = found - {str(path) for path in before}
            assert not [path for path in other if "/index/" not in path], number
            if not number:
                report = run_check(store, version, settings)
                assert {each.path for each in report.differences} == found
                assert not report.sound
        finally:
            for path, (whole, _) in before.items():
                path.write_bytes(whole)
    assert reported(store, version, settings) == set()


def _by_kind(places: list[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in places:
        kind = "".join(c for c in place.what if not c.isdigit())
        found.setdefault(kind, []).append(place)
    return found


@pytest.mark.parametrize("name", STORES)
def test_a_flipped_bit_of_each_file_is_reported(name: str, tmp_path: Path) -> None:
    flip_all(*sound(name, tmp_path), seed=1, rounds=4)


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds([1]))
@pytest.mark.parametrize("name", STORES + MORE)
def test_flipped_bits_of_every_kind_of_field_are_reported(name: str, seed: int, tmp_path) -> None:
    flip_all(*sound(name, tmp_path), seed=seed, rounds=60)


def moved(path: Path, other: Path) -> None:
    other.parent.mkdir(exist_ok=True)
    path.rename(other)


HOW: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "longer": lambda path: os.truncate(path, path.stat().st_size + 1),
    "empty": lambda path: os.truncate(path, 0), "gone": lambda path: path.unlink(),
    "another place": lambda path: moved(
        path, path.with_name(f"{int(path.name) + (1 << 40):020d}")),
    "another queue": lambda path: moved(path, path.parent.with_name("77") / path.name),
}  # fmt: skip


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", STORES[1:])
def test_wrong_lengths_and_names_are_reported(name: str, how: str, tmp_path: Path) -> None:
    store, version, settings = sound(name, tmp_path)
    queues, before = list(files(store)), set(store.rglob("*/0*"))
    path = queues[len(queues) // 2]
    HOW[how](path)
    new = {each for each in store.rglob("*/0*") if each.is_file()} - before
    wrong = {str(each) for each in (path, *new)}
    assert reported(store, version, settings) == wrong
    assert {each.path for each in run_check(store, version, settings).differences} == wrong
